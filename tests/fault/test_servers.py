"""Servers that are killed, restarted or wiped under a running system: late, but complete."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from shared.broker.rabbit import RabbitBroker
from shared.broker.rabbit_link import RabbitSettings
from shared.broker.topology import jobs_queue
from tests.support.postgres import fetch, finished
from tests.support.system import OwnServers, System, pause, system_on_own_servers, without_gaps

pytestmark = pytest.mark.timeout(280)

DELAYED = """
apiVersion: redrive.io/v1
workload: { size: 60, delay: 3 }
workflow:
  - step: each
    loop: { in: "{{ workload.size }}", iterator: n, mode: parallel, max_in_flight: 100000 }
    tool:
      - name: pause
        kind: wait
        for: "{{ workload.delay }}"
      - name: work
        kind: noop
"""


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OwnServers]:
    """Give private servers on which nothing runs yet."""
    with system_on_own_servers(tmp_path_factory.mktemp("system")) as found:
        yield found


def checked(system: System, execution: str, size: int) -> list[dict[str, Any]]:
    """Return the log of an execution that must have run all its iterations once, none of them early."""
    assert system.ended(execution, within_s=150)["status"] == "completed"
    events = system.events(execution)
    assert without_gaps(events)
    done = [event["node"] for event in events if event["type"] == "loop.iteration_completed"]
    assert sorted(done) == sorted(f"each~1[{n}]" for n in range(size))
    due = {e["node"]: e["payload"]["available_at"] for e in events if e["type"] == "task.scheduled"}
    early = [e["node"] for e in events if e["type"] == "task.started" and e["occurred_at"] < due[e["node"]][:26]]
    assert early == []
    return events


def scheduled(system: System, execution: str, count: int) -> None:
    """Return once that many waits are in the broker."""
    query = "SELECT count(*) FROM redrive.job WHERE execution_id = $1::uuid AND published_at IS NOT NULL"
    for _ in range(600):
        if finished(fetch(system.database_url, query, execution))[0][0] >= count:
            return
        pause()
    raise AssertionError(f"not {count} jobs were published:\n{system.logs()}")


def test_rabbitmq_killed_and_restarted_delays_what_it_held_and_loses_nothing(system: OwnServers) -> None:
    system.start_all()
    execution = system.submit(DELAYED)
    scheduled(system, execution, 60)

    system.node.kill()
    system.node.start()

    checked(system, execution, 60)


def test_rabbitmq_wiped_is_refilled_from_postgres(system: OwnServers) -> None:
    system.start_all()
    execution = system.submit(DELAYED, {"size": 300, "delay": 4})
    scheduled(system, execution, 300)

    system.node.kill()
    system.node.wipe()
    system.node.start()

    checked(system, execution, 300)
    proofs = "SELECT DISTINCT payload->>'proof' FROM redrive.event WHERE execution_id = $1::uuid AND type = $2"
    found = finished(fetch(system.database_url, proofs, execution, "job.republished"))
    assert "the broker was wiped or replaced" in [row[0] for row in found]


def test_postgres_killed_and_restarted_again_and_again_only_takes_time(system: OwnServers) -> None:
    system.start_all()
    execution = system.submit(DELAYED, {"size": 40, "delay": 1})
    for _ in range(2):
        system.postgres.kill()
        system.postgres.start()

    checked(system, execution, 40)


def test_a_backlog_behind_slow_workers_is_not_published_again(system: System) -> None:
    size = 20_000
    system.start("ingest")
    system.start("orchestrator", REDRIVE_SWEEP_GRACE="200ms")
    system.await_ready()
    slow = DELAYED.replace('kind: wait\n        for: "{{ workload.delay }}"', "kind: noop")
    execution = system.submit(slow, {"size": size})
    scheduled(system, execution, size)
    ready = asyncio.run(_ready(system))
    assert ready == size

    system.start("worker", REDRIVE_CONCURRENCY="1")
    query = "SELECT count(*) FROM redrive.job WHERE execution_id = $1::uuid AND status <> 'queued'"
    for _ in range(600):
        if finished(fetch(system.database_url, query, execution))[0][0] >= 50:
            break
        pause()
    system.processes[-1].kill()

    published = "SELECT count(*) FROM redrive.job WHERE execution_id = $1::uuid"
    jobs = finished(fetch(system.database_url, published, execution))[0][0]
    started = finished(fetch(system.database_url, query, execution))[0][0]
    assert started >= 50
    assert asyncio.run(_ready(system)) <= jobs - started + 1
    republished = "SELECT count(*) FROM redrive.event WHERE execution_id = $1::uuid AND type = 'job.republished'"
    assert finished(fetch(system.database_url, republished, execution))[0][0] == 0
    system.client.post(f"/api/v1/executions/{execution}:cancel", json={})
    asyncio.run(_purged(system))


async def _ready(system: System) -> int:
    broker = await RabbitBroker.connect(RabbitSettings(system.rabbit.url))
    try:
        queue = jobs_queue("default")
        return (await broker.stats([queue]))[queue].ready
    finally:
        await broker.close()


async def _purged(system: System) -> None:
    broker = await RabbitBroker.connect(RabbitSettings(system.rabbit.url))
    try:
        await broker.purge(jobs_queue("default"))
    finally:
        await broker.close()
