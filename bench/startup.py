"""How long `redrive run` takes on a playbook of one step, from the shell's point of view: the first time, and later.

Cold is without the cached data of the database; the bytecode cache is filled before, as installing does.
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

RUNS = 5
PLAYBOOK = """\
apiVersion: redrive.io/v1
metadata: { name: hello }
workflow:
  - step: hello
    tool: { kind: noop }
"""


def main() -> None:
    """Print the seconds of a first run and of later ones as one line of JSON."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "hello.yaml"
        file.write_text(PLAYBOOK, encoding="utf-8")
        redrive = str(Path(sys.executable).with_name("redrive"))
        subprocess.run([redrive, "validate", str(file)], check=True, stdout=subprocess.DEVNULL)
        command = [redrive, "run", "--quiet", str(file)]
        environ = {**os.environ, "REDRIVE_CACHE_DIR": str(Path(folder) / "cache")}
        cold = _run_s(command, environ)
        warm = [_run_s(command, environ) for _ in range(RUNS)]
    figures = {
        "bench": "startup",
        "cold_s": round(cold, 2),
        "warm_s": round(statistics.median(warm), 2),
        "warm_min_s": round(min(warm), 2),
        "warm_max_s": round(max(warm), 2),
        "load": round(os.getloadavg()[0], 2),
    }
    print(json.dumps(figures))


def _run_s(command: list[str], environ: dict[str, str]) -> float:
    start = time.perf_counter()
    subprocess.run(command, env=environ, check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - start


if __name__ == "__main__":
    main()
