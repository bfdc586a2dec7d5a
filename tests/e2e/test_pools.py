"""A pool that nobody serves is visible everywhere, and its work starts when a worker comes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any
from uuid import uuid4

import pytest

from tests.support.command import Place, command_place
from tests.support.system import KEY, System, pause, running_system

pytestmark = pytest.mark.timeout(300)

PLAYBOOK = """\
apiVersion: redrive.io/v1
kind: Playbook
metadata: { name: train, path: tests/train }
workload: { pool: none }
executor: { spec: { pool: "{{ workload.pool }}" } }
workflow:
  - { step: fetch, pool: default, tool: { kind: noop }, next: train }
  - { step: train, tool: { kind: python, code: "def main(): return {'trained': True}" } }
"""
WITHIN_LOOKS = 1200


@pytest.fixture(scope="module")
def system(tmp_path_factory: pytest.TempPathFactory) -> Iterator[System]:
    """Give a system whose only worker serves the default pool."""
    with running_system(tmp_path_factory.mktemp("pools")) as found:
        found.start_all()
        yield found


@pytest.fixture
def place(system: System) -> Iterator[Place]:
    with command_place() as found:
        found.more.update(REDRIVE_SERVER=f"http://127.0.0.1:{system.port}", REDRIVE_API_KEY=KEY)
        yield found


def eventually(system: System, look: Callable[[], Any]) -> Any:
    for _ in range(WITHIN_LOOKS):
        if found := look():
            return found
        pause()
    raise AssertionError(f"it never came to be\n{system.logs()}")


def queue(system: System, pool: str) -> dict[str, Any]:
    items = system.client.get("/api/v1/queues").json()["items"]
    found: dict[str, Any] = next((item for item in items if item["pool"] == pool), {})
    return found


def warnings(system: System, execution_id: str) -> list[dict[str, Any]]:
    return system.events(execution_id, type="job.waiting")


def test_work_of_an_unserved_pool_is_visible_and_starts_when_a_worker_comes(system: System, place: Place) -> None:
    pool = f"gpu-{uuid4().hex[:8]}"
    execution_id = system.submit(PLAYBOOK, {"pool": pool})

    (warning,) = eventually(system, lambda: warnings(system, execution_id))
    shown = queue(system, pool)
    listed = place.redrive("queues")
    as_json = place.redrive("queues", "-o", "json")

    assert (warning["step"], warning["task"], warning["payload"]["pool"]) == ("train", "train", pool)
    assert warning["payload"]["since"] <= warning["occurred_at"]
    assert "the pool has no queue" in warning["payload"]["proof"]
    assert (shown["exists"], shown["served"], shown["waiting"], shown["unrouted"]) == (False, False, 1, 1)
    assert (shown["consumers"], shown["workers"]) == (0, 0)
    assert listed.code == 0, listed.err
    assert f"start a worker with REDRIVE_POOLS={pool}" in listed.err
    (line,) = [line for line in listed.out.splitlines() if line.startswith(pool)]
    assert line.split()[:4] == [pool, "no", "0", "0"]
    assert {item["pool"]: item["served"] for item in as_json.document["items"]}[pool] is False
    assert system.execution(execution_id)["status"] == "running"

    worker = system.start("worker", REDRIVE_WORKER_NAME="late", REDRIVE_POOLS=pool)

    ended = system.ended(execution_id)
    assert (ended["status"], ended["result"]) == ("completed", {"trained": True})
    assert len(warnings(system, execution_id)) == 1
    served = eventually(system, lambda: (found := queue(system, pool)).get("served") and found)
    assert (served["exists"], served["waiting"], served["workers"]) == (True, 0, 1)
    assert worker.stop() == 0


def test_a_pool_whose_worker_left_is_unserved_again_and_its_queue_keeps_the_work(system: System) -> None:
    pool = f"gone-{uuid4().hex[:8]}"
    first = system.start("worker", REDRIVE_WORKER_NAME=f"first-{pool}", REDRIVE_POOLS=pool)
    assert system.ended(system.submit(PLAYBOOK, {"pool": pool}))["status"] == "completed"
    first.stop()

    execution_id = system.submit(PLAYBOOK, {"pool": pool})
    (warning,) = eventually(system, lambda: warnings(system, execution_id))

    assert "its queue has no consumer" in warning["payload"]["proof"]
    shown = queue(system, pool)
    assert system.events(execution_id, type="job.republished") == []
    assert (shown["exists"], shown["served"], shown["ready"], shown["unrouted"]) == (True, False, 1, 0)
    system.start("worker", REDRIVE_WORKER_NAME=f"second-{pool}", REDRIVE_POOLS=f"other,{pool}")
    assert system.ended(execution_id)["status"] == "completed"


def test_a_pool_that_cannot_be_one_fails_the_attempt_and_nothing_else(system: System) -> None:
    execution_id = system.submit(PLAYBOOK, {"pool": "no such/pool"})

    ended = system.ended(execution_id)

    assert ended["status"] == "failed"
    assert ended["failure"]["error"]["kind"] == "expression"
    assert "cannot name a pool" in ended["failure"]["error"]["message"]
    assert system.ended(system.submit(PLAYBOOK, {"pool": "default"}))["status"] == "completed"
