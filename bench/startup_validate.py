"""How long `redrive validate` takes on a small playbook, from the shell's point of view.

One run before the measured ones fills the bytecode cache, as any earlier use of the program does.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

RUNS = 10
PLAYBOOK = """\
apiVersion: redrive.io/v1
kind: Playbook
metadata: { name: small }
workload: { url: "http://127.0.0.1:9000" }
workflow:
  - step: fetch
    tool:
      kind: http
      url: "{{ workload.url }}/users"
      eval:
        - expr: "{{ outcome.status == 'error' and outcome.error.retryable }}"
          do: retry
          attempts: 5
        - expr: "{{ outcome.status == 'error' }}"
          do: fail
        - else: { do: continue }
    next: report
  - step: report
    tool: { kind: noop }
"""


def main() -> None:
    """Print each run for people, and the figures as JSON on the last line."""
    environ = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "small.yaml"
        file.write_text(PLAYBOOK, encoding="utf-8")
        command = [str(Path(sys.executable).with_name("redrive")), "validate", str(file)]
        took_ms = [_run_ms(command, environ) for _ in range(RUNS + 1)][1:]
    for number, ms in enumerate(took_ms, start=1):
        print(f"run {number:2}: {ms:.0f} ms")
    figures = {"median_ms": statistics.median(took_ms), "min_ms": min(took_ms), "max_ms": max(took_ms)}
    rounded = {name: round(ms, 1) for name, ms in figures.items()}
    print(json.dumps({"bench": "startup_validate", "runs": RUNS, **rounded}))


def _run_ms(command: list[str], environ: dict[str, str]) -> float:
    start = time.perf_counter()
    subprocess.run(command, env=environ, check=True, stdout=subprocess.DEVNULL)
    return (time.perf_counter() - start) * 1000


if __name__ == "__main__":
    main()
