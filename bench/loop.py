"""How long a loop over many items takes that do nothing, and what the orchestrator holds in memory meanwhile."""

from __future__ import annotations

import json
import time
from typing import Any

from bench.system import Bench, arguments, chain, load_average, running

SIZES = (1_000, 10_000)
FULL = 100_000


def looped(path: str, iterations: int, in_flight: int) -> str:
    """Return a playbook of one loop."""
    return (
        f"apiVersion: redrive.io/v1\nmetadata: {{ name: bench, path: {path} }}\nworkflow:\n  - step: a\n"
        f"    loop: {{ in: {iterations}, mode: parallel, max_in_flight: {in_flight} }}\n    tool: noop\n"
    )


def measure(bench: Bench, path: str, iterations: int, in_flight: int) -> dict[str, Any]:
    """Run one loop, and return what it took."""
    bench.register(looped(path, iterations, in_flight))
    before, load = bench.cpu_s(), load_average()
    began = time.monotonic()
    bench.submit(path, 1)
    bench.await_over(path, 1, max(120.0, iterations / 50))
    took = time.monotonic() - began
    used = {name: total - before[name] for name, total in bench.cpu_s().items()}
    (row,) = bench.rows("SELECT status FROM redrive.execution WHERE path = $1", path)
    return {
        "seconds": round(took, 3),
        "status": row["status"],
        "iterations_per_s": round(iterations / took),
        "orchestrator_mb": bench.memory_mb()["orchestrator"],
        "cpu_ms_per_iteration": {name: round(total * 1000 / iterations, 3) for name, total in used.items()},
        "load": [load, load_average()],
    }


def main() -> None:
    """Print the figures, and as the last line all of them as JSON."""
    parser = arguments(__doc__ or "")
    parser.add_argument("--in-flight", type=int, default=100, help="iterations under way at once")
    parser.add_argument("--sizes", type=int, nargs="+", default=list(SIZES))
    parser.add_argument("--full", action="store_true", help=f"also a loop of {FULL:,}")
    options = parser.parse_args()
    with running(options) as bench:
        bench.register(chain("bench/warm-up", 5))
        bench.submit("bench/warm-up", 100)
        bench.await_over("bench/warm-up", 100, 60.0)
        found = {}
        for size in [*options.sizes, *([FULL] if options.full else [])]:
            found[size] = measure(bench, f"bench/loop-{size}", size, options.in_flight)
            print(f"loop of {size:>7,}: {found[size]}")
    print(json.dumps({"seconds": {size: each["seconds"] for size, each in found.items()}, "loops": found}))


if __name__ == "__main__":
    main()
