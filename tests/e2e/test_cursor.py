"""A table emptied by claims: real Postgres, real workers, every row worked on once.

A job may be delivered twice, so each row is written by a sink, which writes once, and claimed under the claim's id.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.postgres import execute, fetch, finished
from tests.support.system import READY_WITHIN_S, System, pause, running_system, without_gaps

pytestmark = pytest.mark.timeout(240)

PLAYBOOK = """
apiVersion: redrive.io/v1
workflow:
  - step: work
    loop:
      cursor:
        kind: postgres
        dsn: "{{ workload.dsn }}"
        claim: |
          UPDATE item SET claimed_by = :claim
          WHERE id IN (
            SELECT id FROM item WHERE claimed_by IS NULL OR claimed_by = :claim
            ORDER BY id LIMIT {{ max_rows }} FOR UPDATE SKIP LOCKED
          )
          RETURNING id, says
        params: { claim: "{{ claim_id }}" }
      iterator: row
      spec: { mode: cursor, max_in_flight: 8, frame: { max_rows: 20 } }
    tool:
      kind: postgres
      dsn: "{{ workload.dsn }}"
      command: SELECT :id::int
      params: { id: "{{ row.id }}" }
      fetch: value
      sink: { tool: postgres, dsn: "{{ workload.dsn }}", table: worked, mode: append,
              data: { item: "{{ result }}", says: "{{ row.says }}" } }
result: "{{ work.stats.total }}"
"""


@pytest.fixture(scope="module")
def system(tmp_path_factory: pytest.TempPathFactory) -> Iterator[System]:
    """Give a system with two workers that has looked after its new broker, which may deliver first jobs twice."""
    folder: Path = tmp_path_factory.mktemp("system")
    with running_system(folder) as found:
        found.start_all(ingests=1, orchestrators=1, workers=2)
        deadline = time.monotonic() + READY_WITHIN_S
        while "broker_refilled" not in found.logs():
            assert time.monotonic() < deadline, found.logs()
            pause()
        yield found


def fill(system: System, count: int) -> dict[str, Any]:
    """Make a table with so many rows to be claimed, and return the workload that names its database."""
    statements = (
        "DROP TABLE IF EXISTS item, worked",
        "CREATE TABLE item (id int PRIMARY KEY, says text, claimed_by text)",
        "CREATE TABLE worked (item int, says text)",
        f"INSERT INTO item (id, says) SELECT n, 'row ' || n FROM generate_series(1, {count}) n",
    )
    for statement in statements:
        finished(execute(system.database_url, statement))
    return {"dsn": system.database_url}


def worked(system: System) -> list[int]:
    """Return the rows that were written, in their order."""
    rows = finished(fetch(system.database_url, "SELECT item, says FROM worked ORDER BY item"))
    assert all(row["says"] == f"row {row['item']}" for row in rows)
    return [row["item"] for row in rows]


def test_two_workers_work_on_every_row_of_a_table_once(system: System) -> None:
    workload = fill(system, 500)
    execution = system.submit(PLAYBOOK, workload)
    found = system.ended(execution, within_s=120)
    assert (found["status"], found["result"]) == ("completed", 500), found["failure"]
    events = system.events(execution)
    claimed = [event["payload"] for event in events if event["type"] == "loop.claimed"]
    (ended,) = [event["payload"] for event in events if event["type"] == "loop.completed"]

    assert worked(system) == list(range(1, 501))
    assert [said["rows"] for said in claimed] == [20] * 25 + [0]
    assert (ended["total_iterations"], ended["successful"], ended["failed"]) == (500, 500, 0)
    assert sorted(ended["results"]) == list(range(1, 501))
    workers = {event["source"] for event in events if event["type"] == "task.processed"}
    assert workers == {"worker:worker-0", "worker:worker-1"}
    assert without_gaps(events)


def test_executions_that_empty_one_table_share_its_rows(system: System) -> None:
    workload = fill(system, 200)
    both = [system.submit(PLAYBOOK, workload) for _ in range(2)]
    found = [system.ended(execution, within_s=120) for execution in both]

    assert [item["status"] for item in found] == ["completed", "completed"]
    assert sum(item["result"] for item in found) == 200
    assert worked(system) == list(range(1, 201))
