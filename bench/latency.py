"""How long a step takes from decision to decision while nothing else runs: executions one after the other."""

from __future__ import annotations

import json
from itertools import pairwise

from bench.system import Bench, arguments, chain, load_average, percentile, running

PATH = "bench/latency"
# The decisions that each begin a step, and the one that ends the last: their times are those of the database.
MARKS = """
SELECT e.execution_id, e.occurred_at FROM redrive.event AS e JOIN redrive.execution AS x USING (execution_id)
WHERE x.path = $1 AND e.type IN ('step.started', 'execution.completed')
ORDER BY x.started_at, e.execution_id, e.seq
"""


def measure(bench: Bench, executions: int, warm_up: int, steps: int) -> list[float]:
    """Return the milliseconds of every step but those of the warm-up."""
    bench.register(chain(PATH, steps))
    for number in range(1, executions + warm_up + 1):
        bench.submit(PATH, 1)
        bench.await_over(PATH, number, 30.0)
    marks: dict[str, list[float]] = {}
    for row in bench.rows(MARKS, PATH):
        marks.setdefault(str(row["execution_id"]), []).append(row["occurred_at"].timestamp() * 1000)
    return [later - earlier for each in list(marks.values())[warm_up:] for earlier, later in pairwise(each)]


def main() -> None:
    """Print the figures, and as the last line all of them as JSON."""
    parser = arguments(__doc__ or "")
    parser.add_argument("--executions", type=int, default=200)
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--warm-up", type=int, default=20, metavar="EXECUTIONS")
    options = parser.parse_args()
    with running(options) as bench:
        load = load_average()
        took = measure(bench, options.executions, options.warm_up, options.steps)
        figures = {
            "ms_per_step_p50": round(percentile(took, 0.5), 2),
            "ms_per_step_p99": round(percentile(took, 0.99), 2),
            "ms_per_step_min": round(min(took), 2),
            "steps": len(took),
            "rss_mb": bench.memory_mb(),
            "load": [load, load_average()],
        }
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
