"""Facts from the outcomes queue: stored, woken, acknowledged, in this order and whatever happens."""

import asyncio
import json
from collections.abc import Sequence
from typing import Any

import pytest

from services.ingest.append import decode_heartbeat
from shared.broker.port import Message
from shared.broker.topology import DEAD, OUTCOMES
from shared.contracts.events import Event, event_to_json
from shared.contracts.ids import Address, fact_id, job_id
from shared.contracts.messages import UnreadableMessageError, encode_facts
from shared.contracts.outcomes import failure, success
from shared.contracts.payloads import JobPoisoned, TaskProcessed, TaskStarted
from shared.errors import UnavailableError
from shared.store.records import AppendResult
from tests.support.eventually import eventually
from tests.unit.ingest.service import NOBODY, Service, serving

ADDRESS = Address("greet", task="greet", attempt=1)


def processed(execution_id: str, outcome: dict[str, Any] | None = None, **more: Any) -> Event:
    job = job_id(execution_id, ADDRESS)
    said = TaskProcessed(job, outcome or success({"a": 1}).as_json())
    return Event(execution_id, said, ADDRESS, event_id=fact_id(job, "processed"), source="worker:w", **more)


async def send(service: Service, *bodies: bytes, key: str = "facts") -> None:
    messages = [Message(OUTCOMES, key, body, f"m{number}") for number, body in enumerate(bodies)]
    assert await service.broker.publish_many(messages) == []


async def settled(service: Service) -> None:
    """Return when everything sent was dealt with."""

    async def done() -> bool:
        await service.clock.advance(0.01)
        queue = service.broker._queues[OUTCOMES]
        return len(queue) == 0 and not any(each._outstanding for each in service.broker._consumers)

    await eventually(done)


async def completed(service: Service, execution_id: str) -> bool:
    await service.decide(execution_id)
    row = await service.store.execution(execution_id)
    return row is not None and row.status == "completed"


async def running(service: Service) -> str:
    execution_id = await service.started()
    await service.decide(execution_id)
    await service.woken()
    return execution_id


async def test_many_facts_of_many_messages_are_stored_and_woken_together(service: Service) -> None:
    executions = [await running(service) for _ in range(5)]

    await send(
        service, *encode_facts([processed(each) for each in executions[:3]]), *encode_facts([processed(executions[3])])
    )
    await send(service, *encode_facts([processed(executions[4])]))
    await settled(service)

    assert await service.woken() == set(executions)
    assert [await completed(service, each) for each in executions] == [True] * 5


async def test_a_fact_that_comes_twice_is_stored_once_and_wakes_again(service: Service) -> None:
    execution_id = await running(service)

    await send(service, *encode_facts([processed(execution_id)]))
    await settled(service)
    await service.woken()
    await send(service, *encode_facts([processed(execution_id)]))
    await settled(service)

    assert await service.woken() == {execution_id}
    async with service.store.deciding([execution_id]) as batch:
        assert len(batch.unapplied[execution_id]) == 1


@pytest.mark.parametrize(
    "body",
    [b"", b"{", b"[]", b'{"v": 2, "facts": []}', b'{"v": 1}', b'{"v": 1, "facts": [{}]}', b"\xff", b"[" * 100_000],
)
async def test_what_cannot_be_read_becomes_a_dead_letter_and_the_rest_goes_on(service: Service, body: bytes) -> None:
    execution_id = await running(service)

    await send(service, body, *encode_facts([processed(execution_id)]), body)
    await settled(service)

    assert await completed(service, execution_id)
    figures = service.parts.metrics.registry
    assert figures.get_sample_value("redrive_ingest_unreadable_total", {"queue": "outcomes"}) == 2
    assert figures.get_sample_value("redrive_ingest_dead_letters_total", {"kind": "unreadable"}) == 2


async def test_facts_of_unknown_executions_are_counted_and_let_go(service: Service) -> None:
    execution_id = await running(service)

    await send(service, *encode_facts([processed(NOBODY), processed(execution_id)]))
    await settled(service)

    assert await service.woken() == {execution_id}
    figures = service.parts.metrics.registry
    assert figures.get_sample_value("redrive_ingest_facts_total", {"result": "unknown_execution"}) == 1


async def test_a_fact_that_cannot_be_stored_does_not_hold_up_the_others(service: Service) -> None:
    execution_id = await running(service)
    bad = event_to_json(Event(execution_id, TaskStarted("j"), ADDRESS, event_id="no uuid"))
    good = event_to_json(processed(execution_id))

    await send(service, json.dumps({"v": 1, "facts": [bad, good, bad]}).encode())
    await settled(service)

    assert await completed(service, execution_id)


async def test_an_outcome_that_cannot_be_stored_becomes_one_that_says_so(service: Service) -> None:
    execution_id = await running(service)

    await send(service, *encode_facts([processed(execution_id, success("a\0b").as_json())]))
    await settled(service)
    await service.decide(execution_id)

    row = await service.store.execution(execution_id)
    assert row is not None
    assert row.status == "failed"
    assert "could not be stored" in (row.failure or {})["error"]["message"]


async def test_an_outage_of_the_store_is_waited_out_without_putting_back(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    execution_id = await running(service)
    append, down = service.store.append_facts, [True] * 40

    async def sometimes(facts: Sequence[Event]) -> AppendResult:
        if down:
            down.pop()
            raise UnavailableError("the database is gone")
        return await append(facts)

    monkeypatch.setattr(service.store, "append_facts", sometimes)
    await send(service, *encode_facts([processed(execution_id)]))
    await service.clock.advance(300)
    await settled(service)

    assert await service.woken() == {execution_id}
    assert await service.taken(DEAD) == []
    assert await completed(service, execution_id)


async def test_nothing_is_acknowledged_until_the_wake_up_is_confirmed(service: Service) -> None:
    execution_id = await running(service)
    body = encode_facts([processed(execution_id)])
    await send(service, *body)
    service.broker.block()
    await service.clock.advance(5)
    consumers = [each for each in service.broker._consumers if each._outstanding]
    assert consumers

    service.broker.unblock()
    await settled(service)

    assert await service.woken() == {execution_id}


async def test_a_broker_that_lost_its_queues_gets_them_again(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    execution_id = await running(service)
    publish, lost = service.broker.publish_many, [True]

    async def unrouted_once(messages: Sequence[Message]) -> list[Message]:
        if lost and messages and messages[0].routing_key == "wake":
            lost.pop()
            return list(messages)
        return await publish(messages)

    monkeypatch.setattr(service.broker, "publish_many", unrouted_once)
    await send(service, *encode_facts([processed(execution_id)]))
    await service.clock.advance(5)
    await settled(service)

    assert await service.woken() == {execution_id}


async def test_what_was_not_finished_when_the_service_stops_comes_again(monkeypatch: pytest.MonkeyPatch) -> None:
    async def never(facts: Sequence[Event]) -> AppendResult:
        raise UnavailableError("the database is gone")

    async with serving() as service:
        execution_id = await running(service)
        monkeypatch.setattr(service.store, "append_facts", never)
        await send(service, *encode_facts([processed(execution_id)]))
        await service.clock.advance(1)

    assert len(service.broker._queues[OUTCOMES]) == 1


async def test_the_context_of_a_workers_fact_is_sanitised(service: Service) -> None:  # req: J5
    execution_id = await running(service)
    meta = {"context": {"vars": {"a": 1}, "credentials": {"x": "y"}, "_private": 1}}

    await send(service, *encode_facts([processed(execution_id, meta=meta)]))
    await settled(service)
    await service.decide(execution_id)

    (event,) = await service.store.events(execution_id, types={"task.processed"})
    assert event.meta["context"] == {"vars": {"a": 1}}


def beat(**more: Any) -> bytes:
    said = {"worker": "w1", "pools": ["default"], "running": [], "lease_s": 60, **more}
    return json.dumps({"v": 1, "heartbeat": said}).encode()


async def test_a_heartbeat_says_that_a_worker_lives_and_keeps_its_jobs(service: Service) -> None:
    execution_id = await running(service)
    job = job_id(execution_id, ADDRESS)

    await send(service, beat(), beat(running=[job]), key="heartbeat")
    await settled(service)

    (worker,) = await service.store.workers()
    row = await service.store.job(job)
    assert (worker.beat.worker_id, worker.beat.running) == ("w1", 1)
    assert row is not None
    assert (row.status, row.worker_id) == ("leased", "w1")


async def test_a_heartbeat_with_jobs_that_are_none_does_no_harm(service: Service) -> None:
    execution_id = await running(service)

    await send(service, beat(running=["no uuid"]), key="heartbeat")
    await send(service, *encode_facts([processed(execution_id)]))
    await settled(service)

    assert await completed(service, execution_id)


@pytest.mark.parametrize(
    "body",
    [b"", b"[]", b"{}", b'{"v": 2, "heartbeat": {}}', b'{"v": 1}', b'{"v": 1, "heartbeat": 3}', beat(worker=7),
     beat(worker=""), beat(pools=[1]), beat(lease_s=-1), beat(lease_s="long"), beat(lease_s=1e300)],
)  # fmt: skip
def test_what_is_no_heartbeat_cannot_be_read(body: bytes) -> None:
    with pytest.raises(UnreadableMessageError):
        decode_heartbeat(body)


async def test_poison_from_outside_ends_in_an_outcome(service: Service) -> None:
    execution_id = await running(service)
    job = job_id(execution_id, ADDRESS)
    fact = Event(execution_id, JobPoisoned(job, "gone"), ADDRESS, event_id=fact_id(job, "poisoned"))

    await send(service, *encode_facts([fact]))
    await settled(service)
    await service.decide(execution_id)

    row = await service.store.execution(execution_id)
    assert row is not None
    assert (row.failure or {})["error"]["kind"] == failure("worker_lost", "x").as_json()["error"]["kind"]


async def test_the_service_stops_at_once_when_there_is_nothing_to_do() -> None:
    async with asyncio.timeout(5), serving():
        pass
