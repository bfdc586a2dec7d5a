"""Dead letters, jobs without a pool, and wake-ups that nobody takes."""

import asyncio
import json
from typing import Any

import pytest

from services.ingest.unrouted import LOOK_EVERY_S
from services.ingest.wake import MOST_WAITING
from shared.broker.ladder import entry
from shared.broker.port import Message
from shared.broker.topology import DEAD, EVENTS, JOB_DELIVERY_LIMIT, JOBS, UNROUTED, jobs_queue, pool_topology
from shared.contracts.ids import Address, fact_id, job_id
from shared.contracts.jobs import Job, job_from_json
from shared.contracts.messages import decode_job, encode_facts, encode_job
from shared.errors import UnavailableError
from tests.support.eventually import eventually
from tests.unit.ingest.service import NOBODY, NOOP, Service, serving
from tests.unit.ingest.test_append import ADDRESS, completed, processed, running


async def dead(service: Service, kind: str) -> float:
    """Return how many dead letters of a kind were seen, once every queue of them is empty."""

    async def empty() -> bool:
        await service.clock.advance(0.01)
        outstanding = any(each._outstanding for each in service.broker._consumers if each._queue.spec.name == DEAD)
        return len(service.broker._queues[DEAD]) == 0 and not outstanding

    await eventually(empty)
    figures = service.parts.metrics.registry
    return figures.get_sample_value("redrive_ingest_dead_letters_total", {"kind": kind}) or 0


async def failure_of(service: Service, execution_id: str) -> dict[str, Any]:
    await service.decide(execution_id)
    row = await service.store.execution(execution_id)
    assert row is not None
    assert row.failure is not None
    error: dict[str, Any] = row.failure["error"]
    return error


async def test_a_job_that_comes_back_too_often_becomes_an_outcome_the_rules_see(service: Service) -> None:
    execution_id = await running(service)
    consumer = await service.broker.consume(jobs_queue("default"), 10)

    for _ in range(JOB_DELIVERY_LIMIT + 1):
        (delivery,) = await consumer.receive(1, 0)
        await consumer.reject([delivery.tag], requeue=True)

    assert await dead(service, "job") == 1
    assert await service.woken() == {execution_id}
    error = await failure_of(service, execution_id)
    assert error["kind"] == "worker_lost"
    assert error["details"] == {"deliveries": JOB_DELIVERY_LIMIT}


async def test_a_job_whose_message_is_spoilt_is_found_by_the_name_of_the_message(service: Service) -> None:
    execution_id = await running(service)
    (delivery,) = await service.taken(jobs_queue("default"))

    await service.broker.publish_many([Message(JOBS, "default", b"spoilt", delivery.message_id)])
    consumer = await service.broker.consume(jobs_queue("default"), 10)
    (spoilt,) = await consumer.receive(1, 0)
    await consumer.reject([spoilt.tag], requeue=False)

    assert await dead(service, "job") == 1
    assert "cannot be read" in (await failure_of(service, execution_id))["message"]


async def test_a_dead_job_that_is_heard_of_twice_counts_once(service: Service) -> None:
    execution_id = await running(service)
    (delivery,) = await service.taken(jobs_queue("default"))
    headers = {"x-first-death-queue": jobs_queue("default"), "x-first-death-reason": "rejected"}

    for _ in "12":
        await service.broker.publish_many([Message(DEAD, "default", delivery.body, delivery.message_id, headers)])

    assert await dead(service, "job") == 2
    async with service.store.deciding([execution_id]) as batch:
        facts = batch.unapplied[execution_id]
    assert [fact.event_id for fact in facts] == [fact_id(job_id(execution_id, ADDRESS), "poisoned")]


async def test_facts_that_died_of_an_outage_are_stored_after_all(service: Service) -> None:
    execution_id = await running(service)
    (body,) = encode_facts([processed(execution_id)])

    await service.broker.publish_many([Message(DEAD, "facts", body, "m")])

    assert await dead(service, "facts") == 1
    assert await completed(service, execution_id)


@pytest.mark.parametrize(
    ("message", "kind"),
    [
        (Message(DEAD, "default", b"nobody knows", "not-a-uuid"), "unreadable"),
        (Message(DEAD, "default", b"nobody knows", NOBODY), "unreadable"),
        (Message(DEAD, "facts", b"nobody knows", "m"), "unreadable"),
        (Message(DEAD, "wake", b"{}", "m"), "wake"),
        (Message(DEAD, "x", b"{}", "m", {"x-first-death-queue": EVENTS}), "wake"),
    ],
)
async def test_what_nobody_can_read_is_counted(service: Service, message: Message, kind: str) -> None:
    await service.broker.publish_many([message])

    assert await dead(service, kind) == 1


async def test_a_timer_that_died_is_counted_and_poisons_nothing(service: Service) -> None:
    execution_id = await running(service)
    timer = Job("00000000-0000-5000-8000-000000000001", execution_id, Address("greet"), "timer", role="timer")

    await service.broker.publish_many([Message(DEAD, "orchestrator", encode_job(timer), timer.job_id)])

    assert await dead(service, "timer") == 1
    assert await service.woken() == set()


async def waiting_for(service: Service, pool: str) -> Job:
    """Start an execution whose only job waits for a pool without a queue, and return the job."""
    execution_id = await service.started(NOOP.replace("{kind: noop}", f"{{kind: noop, pool: {pool}}}"))
    await service.decide(execution_id)
    row = await service.store.job(job_id(execution_id, Address("greet", task="greet", page=1, attempt=1)))
    assert row is not None
    return job_from_json(row.message)


async def remembered(service: Service, count: int = 1) -> None:
    figures = service.parts.metrics.registry

    async def look() -> bool:
        await service.clock.advance(0.01)
        return figures.get_sample_value("redrive_ingest_unrouted_jobs") == count

    await eventually(look)


async def test_a_job_without_a_pool_goes_on_when_the_pool_appears(service: Service) -> None:
    job = await waiting_for(service, "gpu.large")

    await remembered(service)
    assert len(service.broker._queues[UNROUTED]) == 0
    await service.clock.advance(3 * LOOK_EVERY_S)
    await service.broker.declare(pool_topology("gpu.large"))
    await service.clock.advance(2 * LOOK_EVERY_S)

    (delivery,) = await service.taken(jobs_queue("gpu.large"))
    assert decode_job(delivery.body) == job
    assert dict(delivery.headers) == {}
    await remembered(service, 0)


async def test_a_delayed_job_without_a_pool_waits_its_time_and_then_for_the_pool(service: Service) -> None:
    job = await waiting_for(service, "later")
    await remembered(service)
    exchange, key = entry(1.0, "later")
    await service.broker.publish_many([Message(exchange, key, encode_job(job), job.job_id)])

    await service.clock.advance(1.1)
    await service.broker.declare(pool_topology("later"))
    await service.clock.advance(2 * LOOK_EVERY_S)

    assert [decode_job(each.body).job_id for each in await service.taken(jobs_queue("later"))] == [job.job_id]


@pytest.mark.parametrize("meanwhile", ["published by the sweep", "ended"])
async def test_a_job_that_needs_no_way_any_more_is_not_published_again(service: Service, meanwhile: str) -> None:
    job = await waiting_for(service, "gpu")
    await remembered(service)
    if meanwhile == "ended":
        await service.report(job.execution_id, "greet~1.greet#1", status="success")
    else:
        assert await service.store.take_queued([job.job_id], 0) == {job.job_id}

    await service.broker.declare(pool_topology("gpu"))
    await service.clock.advance(2 * LOOK_EVERY_S)

    assert await service.taken(jobs_queue("gpu")) == []
    await remembered(service, 0)


async def test_an_unrouted_message_that_cannot_be_read_is_counted(service: Service) -> None:
    await service.broker.publish_many([Message(JOBS, "nowhere", json.dumps({"v": 9}).encode(), "m")])
    figures = service.parts.metrics.registry

    async def counted() -> bool:
        await service.clock.advance(0.01)
        return figures.get_sample_value("redrive_ingest_unreadable_total", {"queue": "unrouted"}) == 1

    await eventually(counted)


async def test_wake_ups_of_many_requests_travel_together(service: Service) -> None:
    service.broker.block()
    executions = {await service.started() for _ in range(20)}
    service.broker.unblock()
    await service.parts.waker.flushed()

    messages = await service.taken(EVENTS)
    woken = {name for each in messages for name in json.loads(each.body)["executions"]}
    assert woken == executions
    assert len(messages) <= 2


async def test_a_wake_up_that_cannot_be_published_is_left_to_the_sweep(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def down(messages: Any) -> None:
        raise UnavailableError("the broker is gone")

    monkeypatch.setattr(service.broker, "publish_many", down)
    execution_id = await service.started()
    await service.parts.waker.flushed()

    assert service.parts.metrics.registry.get_sample_value("redrive_ingest_lost_wakes_total") == 1
    assert await service.store.stale_facts(-1, 10) == [execution_id]


async def test_wake_ups_do_not_pile_up_without_end(service: Service) -> None:
    service.broker.block()
    service.parts.waker.wake(["first"])
    await asyncio.sleep(0)
    service.parts.waker.wake(str(number) for number in range(MOST_WAITING + 10))
    service.broker.unblock()

    assert service.parts.metrics.registry.get_sample_value("redrive_ingest_lost_wakes_total") == 10


async def test_consumers_come_up_when_the_broker_does(monkeypatch: pytest.MonkeyPatch) -> None:
    async with serving() as service:
        execution_id = await running(service)
        for consumer in service.broker._consumers:
            monkeypatch.setattr(consumer, "receive", _gone)
        await service.clock.advance(10)
        await service.broker.publish_many(
            [Message("redrive.v1.outcomes", "facts", encode_facts([processed(execution_id)])[0], "m")]
        )
        await service.clock.advance(10)

        assert await completed(service, execution_id)


async def _gone(*_: object) -> None:
    raise UnavailableError("the connection broke")
