"""A worker that dies around its sink: what it wrote is there once."""

from __future__ import annotations

import pytest

from tests.support.postgres import execute, fetch, finished
from tests.support.system import System

pytestmark = pytest.mark.timeout(240)

ITERATIONS = 6
ROWS = 50
PLAYBOOK = """
apiVersion: redrive.io/v1
workload: { dsn: "", table: "" }
workflow:
  - step: each
    loop: { in: 6, iterator: n, mode: parallel, max_in_flight: 4 }
    tool:
      - name: produce
        kind: python
        code: |
          def main(n):
              return [{"n": n, "part": part} for part in range(50)]
        args: { n: "{{ n }}" }
        sink: { tool: postgres, dsn: "{{ workload.dsn }}", table: "{{ workload.table }}" }
"""


@pytest.mark.parametrize("place", ["worker.after_sink:2", "worker.after_run:2"])
def test_rows_of_a_worker_that_was_killed_after_its_sink_are_there_once(system: System, place: str) -> None:
    table = f"rows_{place.replace('.', '_').replace(':', '_')}"
    finished(execute(system.database_url, f"CREATE TABLE public.{table} (n int, part int)"))
    system.start("ingest")
    system.start("orchestrator")
    doomed = system.start("worker", REDRIVE_CRASH_AT=place)
    system.await_ready()
    execution = system.submit(PLAYBOOK, {"dsn": system.database_url, "table": f"public.{table}"})

    assert doomed.wait(60) == 137
    written_before = finished(fetch(system.database_url, f"SELECT count(*) FROM public.{table}"))[0][0]
    system.start("worker")

    assert system.ended(execution, within_s=90)["status"] == "completed"
    found = finished(fetch(system.database_url, f"SELECT n, part, count(*) FROM public.{table} GROUP BY n, part"))
    outcomes = [event for event in system.events(execution) if event["type"] == "task.processed"]
    assert written_before >= ROWS
    assert sorted(tuple(row) for row in found) == [(n, part, 1) for n in range(ITERATIONS) for part in range(ROWS)]
    assert any(event["payload"]["outcome"]["meta"]["sink"]["repeated"] for event in outcomes)
