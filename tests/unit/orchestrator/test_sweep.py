"""What the sweep recovers is in the log, with what proved that it was needed."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from prometheus_client import CollectorRegistry

from services.orchestrator.handler import Handler
from services.orchestrator.metrics import OrchestratorMetrics
from services.orchestrator.publish import Publisher
from services.orchestrator.settings import Settings
from services.orchestrator.sweep import Sweep
from shared.broker.memory import MemoryBroker
from shared.broker.topology import EVENTS, jobs_queue, pool_topology, topology
from shared.contracts import payloads as p
from shared.contracts.messages import decode_job
from shared.language.codec import digest, plan_to_json
from shared.language.compile import compile_playbook
from shared.runtime.clock import SystemClock
from shared.store.memory.store import MemoryStore
from shared.store.records import Beat, NewPlaybook
from tests.support.storing import TickingClock, created, processed, started

PLAYBOOK = """\
apiVersion: redrive.io/v1
kind: Playbook
metadata: { name: one, path: one }
workflow:
  - { step: a, tool: { kind: noop } }
"""
GRACE_S = 0.0


@dataclass
class Running:
    store: MemoryStore
    broker: MemoryBroker
    handler: Handler
    sweep: Sweep
    execution: str


async def running(store: MemoryStore, broker: MemoryBroker, execution: str) -> Running:
    await broker.declare(topology(("default",)))
    settings = Settings("", "", grace_s=GRACE_S)
    sweep = Sweep(store, broker, settings, SystemClock(), OrchestratorMetrics(CollectorRegistry()))
    return Running(store, broker, Handler(store, Publisher(broker, store)), sweep, execution)


@pytest.fixture
async def system() -> Running:
    """Give a system with one job that was published and that nobody has taken."""
    store = MemoryStore(TickingClock())
    plan = compile_playbook(PLAYBOOK).plan
    assert plan is not None
    await store.register(NewPlaybook("one", PLAYBOOK, plan_to_json(plan), digest(plan)))
    system = await running(store, MemoryBroker(), await created(store, plan=digest(plan)))
    await system.sweep.refill_a_wiped_broker()
    await system.handler.handle([system.execution])
    return system


async def recoveries(system: Running) -> list[p.JobRepublished]:
    await system.handler.handle([system.execution])
    log = await system.store.events(system.execution)
    assert [event.seq for event in log] == list(range(1, len(log) + 1))
    return [event.payload for event in log if isinstance(event.payload, p.JobRepublished)]


async def settled(system: Running) -> None:
    await system.handler.handle([system.execution])
    await system.broker.purge(EVENTS)


async def waiting(broker: MemoryBroker) -> list[str]:
    consumer = await broker.consume(jobs_queue("default"), 10)
    return [decode_job(each.body).job_id for each in await consumer.receive(10, 0.05)]


async def test_a_job_that_is_where_it_should_be_is_left_alone(system: Running) -> None:
    found = await system.sweep.once()

    assert found["unpublished"] == found["refilled"] == 0
    assert await recoveries(system) == []


async def test_a_wiped_broker_is_refilled_and_the_log_says_so(system: Running) -> None:
    (job,) = await waiting(system.broker)
    wiped = await running(system.store, MemoryBroker(), system.execution)

    assert (await wiped.sweep.once())["refilled"] == 1

    assert await waiting(wiped.broker) == [job]
    (said,) = await recoveries(wiped)
    assert (said.job_id, said.proof) == (job, "the broker was wiped or replaced")
    assert said.overdue_s >= 0


async def test_a_job_whose_message_is_gone_is_published_again_on_the_proof_of_empty_queues(system: Running) -> None:
    (job,) = [row.job_id for row in (await system.store.outstanding(60, 10)).items]
    await system.broker.purge(jobs_queue("default"))
    await settled(system)

    assert (await system.sweep.once())["stuck"] == 0, "one look is no proof"
    await settled(system)
    assert (await system.sweep.once())["stuck"] == 1

    assert await waiting(system.broker) == [job]
    assert [said.proof for said in await recoveries(system)] == ["overdue, and its queues are empty"]


async def test_a_recovery_of_an_attempt_that_ended_meanwhile_is_not_told(system: Running) -> None:
    (row,) = (await system.store.outstanding(60, 10)).items
    wiped = await running(system.store, MemoryBroker(), system.execution)
    await wiped.sweep.once()
    (body,) = await (await wiped.broker.consume(jobs_queue("default"), 10)).receive(10, 0.05)
    job = decode_job(body.body)
    assert job.job_id == row.job_id
    await wiped.store.append_facts([started(job), processed(job)])

    assert [said.proof for said in await recoveries(wiped)] == ["the broker was wiped or replaced"]
    before = len(await wiped.store.events(system.execution))
    await wiped.handler.handle([system.execution])

    assert len(await wiped.store.events(system.execution)) == before


GPU = PLAYBOOK.replace("kind: noop", "kind: noop, pool: gpu")


async def unserved() -> Running:
    """Return a system with one job that is due in a pool that has no queue."""
    store = MemoryStore(TickingClock())
    plan = compile_playbook(GPU).plan
    assert plan is not None
    await store.register(NewPlaybook("one", GPU, plan_to_json(plan), digest(plan)))
    system = await running(store, MemoryBroker(), await created(store, plan=digest(plan)))
    await system.sweep.refill_a_wiped_broker()
    await system.handler.handle([system.execution])
    return system


async def warnings(system: Running) -> list[p.JobWaiting]:
    await system.handler.handle([system.execution])
    log = await system.store.events(system.execution)
    return [event.payload for event in log if isinstance(event.payload, p.JobWaiting)]


@pytest.mark.parametrize(
    ("has_queue", "proof"), [(False, "the pool has no queue"), (True, "its queue has no consumer")]
)
async def test_a_job_that_waits_for_a_pool_nobody_serves_says_so_once(has_queue: bool, proof: str) -> None:
    system = await unserved()
    if has_queue:
        await system.broker.declare(pool_topology("gpu"))
    (row,) = (await system.store.outstanding(60, 10)).items

    found = [(await system.sweep.once())["unserved"] for _ in range(3)]

    assert found == [1, 0, 0]
    (said,) = await warnings(system)
    assert row.available_at is not None
    assert (said.job_id, said.pool, said.since) == (row.job_id, "gpu", row.available_at.isoformat())
    assert said.proof.startswith(proof)


async def test_a_pool_that_a_living_worker_names_is_not_said_to_be_unserved(system: Running) -> None:
    waiting_for_gpu = await unserved()
    await waiting_for_gpu.store.heartbeat(Beat("w1", ("gpu",)))

    assert (await waiting_for_gpu.sweep.once())["unserved"] == 0
    assert await warnings(waiting_for_gpu) == []


async def test_a_pool_with_a_consumer_is_served_however_long_its_jobs_wait(system: Running) -> None:
    consumer = await system.broker.consume(jobs_queue("default"), 1)

    assert (await system.sweep.once())["unserved"] == 0
    await consumer.close()
    assert (await system.sweep.once())["unserved"] == 1
