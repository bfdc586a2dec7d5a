"""RabbitMQ behind a wire that breaks: consumers resume, publishers know or are told, nothing is lost in silence."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from uuid import uuid4

import pytest

from shared.broker.port import Broker, Consumer, Delivery, Message, QueueStats
from shared.broker.rabbit import RabbitBroker
from shared.broker.rabbit_link import RabbitSettings
from shared.broker.topology import JOBS, jobs_queue, pool_topology
from shared.errors import UnavailableError
from tests.support import rabbit
from tests.support.eventually import eventually
from tests.support.rabbit import Wire

DEADLINE_S = 30.0


@pytest.fixture
async def wire() -> AsyncIterator[Wire]:
    async with Wire(rabbit.shared_node()) as wire:
        yield wire


@pytest.fixture
async def broker(wire: Wire) -> AsyncIterator[Broker]:
    settings = RabbitSettings(wire.url, first_pause_s=0.01, longest_pause_s=0.1, patience_s=2.0, confirm_timeout_s=1.0)
    broker = await RabbitBroker.connect(settings)
    yield broker
    wire.thaw()
    await broker.close()


@pytest.fixture
async def pool(broker: Broker) -> str:
    name = f"pool-{uuid4().hex[:12]}"
    await broker.declare(pool_topology(name))
    return name


def jobs(pool: str, *names: str) -> list[Message]:
    return [Message(JOBS, pool, b"", name) for name in names]


async def received(consumer: Consumer, count: int) -> list[Delivery]:
    found: list[Delivery] = []
    deadline = time.monotonic() + DEADLINE_S
    while len(found) < count and time.monotonic() < deadline:
        found += await consumer.receive(count - len(found), 1.0)
    return found


async def published(broker: Broker, messages: list[Message]) -> None:
    """Publish as a service does: again, until it is confirmed."""
    async with asyncio.timeout(DEADLINE_S):
        while True:
            try:
                assert await broker.publish_many(messages) == []
                return
            except UnavailableError:
                continue


async def test_a_consumer_goes_on_after_a_cut_and_hears_again_what_it_had_not_acknowledged(
    wire: Wire, broker: Broker, pool: str
) -> None:
    consumer = await broker.consume(jobs_queue(pool), 10)
    await broker.publish_many(jobs(pool, "a", "b", "c"))
    before = await received(consumer, 3)
    await consumer.ack([before[0].tag])

    async def acknowledged() -> bool:
        stats = await broker.stats([jobs_queue(pool)])
        return stats[jobs_queue(pool)] == QueueStats(ready=0, consumers=1)

    await eventually(acknowledged)
    wire.cut()

    again = await received(consumer, 2)
    assert sorted(each.message_id for each in again) == ["b", "c"]
    assert all(each.redelivered for each in again)
    await published(broker, jobs(pool, "d"))
    assert [each.message_id for each in await received(consumer, 1)] == ["d"]


async def test_tags_from_before_a_cut_settle_nothing_after_it(wire: Wire, broker: Broker, pool: str) -> None:
    consumer = await broker.consume(jobs_queue(pool), 10)
    await broker.publish_many(jobs(pool, "a", "b"))
    before = await received(consumer, 2)
    wire.cut()
    again = await received(consumer, 2)

    await consumer.ack(each.tag for each in before)
    await consumer.ack_up_to(before[-1].tag)
    await consumer.reject([each.tag for each in before], requeue=False)
    await consumer.close()

    third = await received(await broker.consume(jobs_queue(pool), 10), 2)
    assert sorted(each.message_id for each in again) == sorted(each.message_id for each in third) == ["a", "b"]


async def test_what_was_confirmed_between_cuts_is_there(wire: Wire, broker: Broker, pool: str) -> None:
    names = [f"m{n}" for n in range(400)]
    for start in range(0, len(names), 50):
        wire.cut_after(1000 + 10 * start)
        await published(broker, jobs(pool, *names[start : start + 50]))

    consumer = await broker.consume(jobs_queue(pool), 500)
    seen: set[str] = set()
    deadline = time.monotonic() + DEADLINE_S
    while seen != set(names) and time.monotonic() < deadline:
        some = await consumer.receive(500, 1.0)
        seen |= {each.message_id for each in some}
        await consumer.ack(each.tag for each in some)
    assert seen == set(names)


async def test_a_broker_that_falls_silent_is_given_up_and_a_publisher_is_told(
    wire: Wire, broker: Broker, pool: str
) -> None:
    await broker.publish_many(jobs(pool, "before"))
    wire.freeze()

    with pytest.raises(UnavailableError):
        await broker.publish_many(jobs(pool, "during"))

    wire.thaw()
    await published(broker, jobs(pool, "after"))
    consumer = await broker.consume(jobs_queue(pool), 10)
    seen: set[str] = set()
    async with asyncio.timeout(DEADLINE_S):
        while not {"before", "after"} <= seen:
            seen |= {each.message_id for each in await consumer.receive(10, 1.0)}
    assert seen <= {"before", "during", "after"}


async def test_a_consumer_stopped_while_the_wire_is_cut_stays_stopped(wire: Wire, broker: Broker, pool: str) -> None:
    consumer = await broker.consume(jobs_queue(pool), 10)
    wire.cut()
    await consumer.stop()

    await published(broker, jobs(pool, "a"))

    assert await consumer.receive(1, DEADLINE_S) == []
    assert [each.message_id for each in await received(await broker.consume(jobs_queue(pool), 10), 1)] == ["a"]


async def test_nobody_at_the_address_is_said_at_once() -> None:
    with pytest.raises(UnavailableError):
        await RabbitBroker.connect(RabbitSettings("amqp://guest:guest@127.0.0.1:1/"))


async def test_a_wrong_password_is_said_without_repeating_it(wire: Wire) -> None:
    with pytest.raises(UnavailableError) as failure:
        await RabbitBroker.connect(RabbitSettings(wire.url.replace("guest:guest", "guest:hush")))
    assert "hush" not in str(failure.value)
