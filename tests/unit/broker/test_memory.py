"""What only the broker in memory can be asked: time that is moved, blocks, losses, full queues."""

import asyncio

import pytest

from shared.broker.ladder import entry
from shared.broker.memory import MemoryBroker
from shared.broker.port import Message, QueueStats
from shared.broker.topology import JOBS, Queue, Topology, jobs_queue, topology
from shared.errors import UnavailableError
from shared.runtime.clock import ManualClock

POOL = "default"
QUEUE = jobs_queue(POOL)


async def a_broker(clock: ManualClock) -> MemoryBroker:
    broker = MemoryBroker(clock)
    await broker.declare(topology([POOL]))
    return broker


def delayed(name: str, delay_s: float) -> Message:
    return Message(*entry(delay_s, POOL), b"", name)


async def test_a_delay_of_four_places_is_over_to_the_unit() -> None:
    clock = ManualClock()
    broker = await a_broker(clock)
    await broker.publish_many([delayed("a", 3000.05)])

    await clock.advance(3000.04)
    assert await broker.stats([QUEUE]) == {QUEUE: QueueStats(ready=0, consumers=0)}
    await clock.advance(0.02)
    assert await broker.stats([QUEUE]) == {QUEUE: QueueStats(ready=1, consumers=0)}
    await broker.close()


async def test_a_receipt_that_waits_hears_what_becomes_due_meanwhile() -> None:
    clock = ManualClock()
    broker = await a_broker(clock)
    consumer = await broker.consume(QUEUE, 10)
    await broker.publish_many([delayed("long", 900.0), delayed("short", 0.3)])
    waiting = asyncio.ensure_future(consumer.receive(10, 60))

    await clock.advance(0.3)

    assert [each.message_id for each in await waiting] == ["short"]
    await broker.close()


async def test_everything_due_comes_in_due_order_however_far_time_jumps() -> None:
    clock = ManualClock()
    broker = await a_broker(clock)
    await broker.publish_many([delayed(str(n), n * 7.15) for n in reversed(range(1, 400))])

    await clock.advance(3600)

    received = await (await broker.consume(QUEUE, 1000)).receive(1000, 0)
    assert [each.message_id for each in received] == [str(n) for n in range(1, 400)]
    await broker.close()


async def test_publishers_wait_while_the_broker_is_blocked() -> None:
    broker = await a_broker(ManualClock())
    broker.block()
    publishing = asyncio.ensure_future(broker.publish_many([Message(JOBS, POOL, b"", "a")]))
    await asyncio.sleep(0)
    assert broker.is_blocked
    assert not publishing.done()

    broker.unblock()

    assert await publishing == []
    await broker.close()


async def test_a_wiped_broker_has_nothing_and_knows_no_old_tag() -> None:
    clock = ManualClock()
    broker = await a_broker(clock)
    consumer = await broker.consume(QUEUE, 10)
    await broker.mark_incarnation("before")
    await broker.publish_many([Message(JOBS, POOL, b"", "a"), delayed("b", 1.0)])
    held = await consumer.receive(10, 0)

    broker.wipe()
    await clock.advance(10)

    await consumer.reject([each.tag for each in held], requeue=True)
    assert await broker.incarnation() is None
    assert await broker.stats([QUEUE]) == {QUEUE: QueueStats(ready=0, consumers=1)}
    await broker.publish_many([Message(JOBS, POOL, b"", "c")])
    assert [each.message_id for each in await consumer.receive(10, 0)] == ["c"]
    await broker.close()


@pytest.mark.parametrize("overflow", ["drop-head", "reject-publish"])
async def test_a_full_queue_drops_its_oldest_or_refuses_the_newest(overflow: str) -> None:
    broker = MemoryBroker(ManualClock())
    await broker.declare(Topology(queues=(Queue("q", max_length=2, overflow=overflow),)))  # type: ignore[arg-type]
    await broker.publish_many([Message("", "q", b"", name) for name in ("a", "b")])

    if overflow == "reject-publish":
        with pytest.raises(UnavailableError):
            await broker.publish_many([Message("", "q", b"", "c")])
    else:
        await broker.publish_many([Message("", "q", b"", "c")])

    received = await (await broker.consume("q", 10)).receive(10, 0)
    assert [each.message_id for each in received] == (["a", "b"] if overflow == "reject-publish" else ["b", "c"])
    await broker.close()


async def test_messages_put_back_keep_their_order_before_newer_ones() -> None:
    broker = await a_broker(ManualClock())
    consumer = await broker.consume(QUEUE, 10)
    await broker.publish_many([Message(JOBS, POOL, b"", name) for name in "abcd"])
    received = await consumer.receive(3, 0)

    await consumer.reject([received[2].tag, received[0].tag, received[1].tag], requeue=True)

    assert [each.message_id for each in await consumer.receive(10, 0)] == ["a", "b", "c", "d"]
    await broker.close()


async def test_what_expires_while_it_is_held_expires_when_it_comes_back() -> None:
    clock = ManualClock()
    broker = MemoryBroker(clock)
    await broker.declare(Topology(queues=(Queue("q", ttl_ms=100),)))
    consumer = await broker.consume("q", 10)
    await broker.publish_many([Message("", "q", b"", "a")])
    (held,) = await consumer.receive(1, 0)
    await clock.advance(1)

    await consumer.reject([held.tag], requeue=True)

    assert await consumer.receive(1, 0) == []
    await broker.close()
