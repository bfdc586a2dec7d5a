"""Redrive itself, as the other benchmarks run it."""

from __future__ import annotations

import time

from bench.compare.measures import (
    DELAY_S,
    STEPS,
    Drill,
    Figures,
    Latency,
    Load,
    Sizes,
    expect,
    latency,
    left_s,
    one_by_one,
    rate,
)
from bench.compare.servers import await_count, wipe
from bench.system import Bench, arguments, chain, running
from tests.support.repository import project

SETUP = (
    "ingest, orchestrator and one worker (100 jobs at once), each a process; quorum queues, confirmed messages; "
    "in the drills all three are killed"
)
PATIENCE_S = 60.0

# The first attempt fails, for its input cannot be rendered.
FAILS_FIRST = """
apiVersion: redrive.io/v1
metadata: {{ name: bench, path: {path} }}
workflow:
  - step: flaky
    tool:
      kind: noop
      input: {{ n: "{{{{ 1 // (0 if _attempt < 2 else 1) }}}}" }}
      eval:
        - {{ expr: "{{{{ outcome.status == 'error' }}}}", do: retry, attempts: 2, delay: {delay_s}, jitter: false }}
"""
OF_PATH = "FROM redrive.event AS e JOIN redrive.execution AS x USING (execution_id) WHERE x.path = $1"
WAITING = f"SELECT count(*) {OF_PATH} AND e.type = 'task.retry_scheduled'"
COMPLETED = "SELECT count(*) FROM redrive.execution WHERE path = $1 AND status = 'completed'"
MARKS = f"""
SELECT
    array_agg(extract(epoch FROM e.occurred_at)::float8 ORDER BY e.seq) FILTER (WHERE e.type = 'step.started') AS began,
    max(extract(epoch FROM e.occurred_at)::float8) FILTER (WHERE e.type = 'execution.completed') AS ended
{OF_PATH} GROUP BY e.execution_id ORDER BY ended
"""


def measure(sizes: Sizes) -> list[Figures]:
    """Return the figures of Redrive."""
    load = Load()
    with running(arguments("").parse_args([])) as bench:
        for path in ("bench/warm-up", "bench/many", "bench/single"):
            bench.register(chain(path, STEPS))
        _run(bench, "bench/warm-up", sizes.warm_up)
        steps_per_s = rate(sizes.executions, lambda: _run(bench, "bench/many", sizes.executions))
        events = bench.rows(f"SELECT count(*) {OF_PATH}", "bench/many")[0][0]
        return [
            Figures(
                name="Redrive",
                version=str(project()["project"]["version"]),
                executions=sizes.executions,
                steps_per_s=steps_per_s,
                latency=_latency(bench, sizes.singles),
                worker_killed=_drill(bench, "bench/killed", sizes.retried, wiped=False),
                broker_wiped=_drill(bench, "bench/wiped", sizes.retried, wiped=True),
                rows_per_execution=round(events / sizes.executions, 1),
                setup=SETUP,
                load=load.seen(),
            )
        ]


def _run(bench: Bench, path: str, executions: int) -> None:
    bench.submit(path, executions)
    expect(await_count(bench.system.database_url, COMPLETED, executions, PATIENCE_S, path), executions, "completed")


def _latency(bench: Bench, executions: int) -> Latency:
    path = "bench/single"

    def run(number: int) -> None:
        bench.submit(path, 1)
        bench.await_over(path, number, PATIENCE_S)

    submitted = one_by_one(executions, run)
    found = bench.rows(MARKS, path)
    return latency(submitted, [row["began"] for row in found], [row["ended"] for row in found])


def _drill(bench: Bench, path: str, executions: int, *, wiped: bool) -> Drill:
    url = bench.system.database_url
    bench.register(FAILS_FIRST.format(path=path, delay_s=DELAY_S))
    bench.submit(path, executions)
    expect(await_count(url, WAITING, executions, DELAY_S - 3, path), executions, "waited")
    killed = time.monotonic()
    bench.system.end_services()
    if wiped:
        wipe(bench.system.node)
    bench.start()
    return Drill(executions, await_count(url, COMPLETED, executions, left_s(killed), path))
