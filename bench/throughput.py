"""How many steps a second the whole system makes: many executions of a few steps that do nothing, all of it stored."""

from __future__ import annotations

import json
import time
from typing import Any

from bench.system import Bench, arguments, chain, load_average, running

COUNTS = """
SELECT
    (SELECT count(*) FROM redrive.execution WHERE path = $1 AND status = 'completed') AS completed,
    (SELECT coalesce(sum(steps_ended), 0) FROM redrive.execution WHERE path = $1) AS steps,
    count(*) FILTER (WHERE e.type = 'task.started') AS started,
    count(*) FILTER (WHERE e.type = 'task.processed') AS processed,
    count(*) FILTER (WHERE e.seq IS NULL) AS unapplied,
    count(*) AS events
FROM redrive.event AS e JOIN redrive.execution AS x USING (execution_id) WHERE x.path = $1
"""


def measure(bench: Bench, path: str, executions: int, steps: int, within_s: float) -> dict[str, Any]:
    """Run executions through the system, and return what it took and whether all of it is there."""
    bench.register(chain(path, steps))
    before, attempts, load = bench.cpu_s(), _attempts(bench), load_average()
    began = time.monotonic()
    bench.submit(path, executions)
    submitted = time.monotonic() - began
    bench.await_over(path, executions, within_s)
    took = time.monotonic() - began
    (counts,) = bench.rows(COUNTS, path)
    used = {name: total - before[name] for name, total in bench.cpu_s().items()}
    done = executions * steps
    return {
        "steps_per_s": round(done / took, 1),
        "seconds": round(took, 3),
        "submit_s": round(submitted, 3),
        "attempted": executions,
        "completed": counts["completed"],
        "lost": done - counts["processed"],
        # Each start is stored once; what workers ran beyond that, they ran twice.
        "duplicated_starts": int(_attempts(bench) - attempts) - counts["started"],
        "events": counts["events"],
        "unapplied": counts["unapplied"],
        "cpu_ms_per_step": {name: round(total * 1000 / done, 3) for name, total in used.items()},
        "rss_mb": bench.memory_mb(),
        "load": [load, load_average()],
    }


def _attempts(bench: Bench) -> float:
    return bench.metric("worker", "redrive_worker_jobs_total")


def main() -> None:
    """Print the figures, and as the last line all of them as JSON."""
    parser = arguments(__doc__ or "")
    parser.add_argument("--executions", type=int, default=1_000)
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--warm-up", type=int, default=200, metavar="EXECUTIONS")
    parser.add_argument("--runs", type=int, default=1, help="the best is printed last")
    parser.add_argument("--within", type=float, default=180.0, metavar="SECONDS")
    options = parser.parse_args()
    with running(options) as bench:
        at_rest = bench.memory_mb()
        if options.warm_up:
            warm = measure(bench, "bench/warm-up", options.warm_up, options.steps, options.within)
            print(f"warm-up: {warm['steps_per_s']:,.0f} steps/s")
        found = []
        for number in range(options.runs):
            found.append(measure(bench, f"bench/run-{number}", options.executions, options.steps, options.within))
            print(f"run {number}: {found[-1]}")
        batches = bench.metric("orchestrator", "redrive_orchestrator_batches_total")
        decisions = bench.metric("orchestrator", "redrive_orchestrator_decisions_total")
        best = max(found, key=lambda each: float(each["steps_per_s"]))
        best |= {"rss_mb_at_rest": at_rest, "decisions_per_batch": round(decisions / max(1.0, batches), 1)}
    print(json.dumps(best))


if __name__ == "__main__":
    main()
