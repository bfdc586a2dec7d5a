"""What every broker does: in memory, with a clock that stands still or runs, and RabbitMQ."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Iterable
from dataclasses import dataclass, replace
from typing import TypeVar
from uuid import uuid4

import pytest

from shared.broker.ladder import entry
from shared.broker.memory import MemoryBroker
from shared.broker.port import Broker, Consumer, Delivery, Message, QueueStats
from shared.broker.rabbit import RabbitBroker
from shared.broker.rabbit_link import RabbitSettings
from shared.broker.topology import (
    DEAD,
    EVENTS,
    INCARNATION,
    JOB_DELIVERY_LIMIT,
    JOBS,
    OUTCOMES,
    TIMERS,
    TIMERS_POOL,
    UNROUTED,
    Binding,
    Queue,
    Topology,
    jobs_queue,
    pool_queue,
    pool_topology,
    topology,
)
from shared.errors import RejectedError, UnavailableError
from shared.runtime.clock import Clock, ManualClock, SystemClock
from tests.support import rabbit
from tests.support.eventually import eventually

T = TypeVar("T")

DEADLINE_S = 30.0
# Long enough that a real broker would have delivered.
A_WHILE_S = 0.25
declared: set[str] = set()


@dataclass
class Stage:
    """A broker, a pool of this test alone, and the passing of time as that broker knows it."""

    broker: Broker
    clock: Clock
    pool: str

    @property
    def queue(self) -> str:
        return jobs_queue(self.pool)

    async def consumer(self, prefetch: int = 100, queue: str | None = None) -> Consumer:
        return await self.broker.consume(queue or self.queue, prefetch)

    async def publish(self, *ids: str) -> None:
        assert await self.broker.publish_many([self.job(name) for name in ids]) == []

    async def publish_later(self, delays: dict[str, float]) -> None:
        messages = [Message(*entry(delay_s, self.pool), name.encode(), name) for name, delay_s in delays.items()]
        assert await self.broker.publish_many(messages) == []

    def job(self, name: str) -> Message:
        return Message(JOBS, self.pool, name.encode(), name)

    async def ended(self, work: Awaitable[T]) -> T:
        """Return what the work returns, letting time pass meanwhile."""
        doing = asyncio.ensure_future(work)
        async with asyncio.timeout(DEADLINE_S):
            while isinstance(self.clock, ManualClock) and not doing.done():
                await self.clock.advance(0.01)
            return await doing

    async def receive(self, consumer: Consumer, count: int) -> list[Delivery]:
        """Return that many deliveries, however many receipts it takes."""
        received: list[Delivery] = []
        while len(received) < count:
            some = await self.ended(consumer.receive(count - len(received), DEADLINE_S))
            assert some, f"only {len(received)} of {count} came"
            received += some
        return received

    async def is_silent(self, consumer: Consumer) -> bool:
        return await self.ended(consumer.receive(1, A_WHILE_S)) == []


@pytest.fixture(params=["memory-manual", "memory-system", "rabbit"])
async def stage(request: pytest.FixtureRequest) -> AsyncIterator[Stage]:
    clock = ManualClock() if request.param == "memory-manual" else SystemClock()
    broker: Broker = await on_rabbit() if request.param == "rabbit" else MemoryBroker(clock)
    stage = Stage(broker, clock, f"pool-{uuid4().hex[:12]}")
    if request.param not in declared:
        await broker.declare(topology([]))
    if request.param == "rabbit":
        declared.add(request.param)
        for queue in (EVENTS, OUTCOMES, TIMERS, DEAD, UNROUTED, INCARNATION):
            await broker.purge(queue)
    await broker.declare(pool_topology(stage.pool))
    yield stage
    await broker.close()


async def on_rabbit() -> Broker:
    return await RabbitBroker.connect(RabbitSettings(rabbit.shared_node().url, max_in_flight=500))


def names(deliveries: Iterable[Delivery]) -> list[str]:
    return [delivery.message_id for delivery in deliveries]


async def test_a_batch_arrives_whole_in_order_and_unchanged(stage: Stage) -> None:
    sent = [Message(JOBS, stage.pool, f"body {n}".encode(), f"m{n}", {"traceparent": f"t{n}"}) for n in range(50)]
    consumer = await stage.consumer()

    unrouted = await stage.broker.publish_many(sent)

    received = await stage.receive(consumer, 50)
    assert unrouted == []
    assert [(each.message_id, each.body, dict(each.headers)) for each in received] == [
        (each.message_id, each.body, dict(each.headers)) for each in sent
    ]
    assert {(each.exchange, each.routing_key) for each in received} == {(JOBS, stage.pool)}
    assert not any(each.redelivered or each.delivery_count for each in received)
    assert [each.tag for each in received] == sorted({each.tag for each in received})


async def test_a_queue_cannot_be_bound_to_an_exchange_that_is_not_there(stage: Stage) -> None:
    bound = Topology(queues=(Queue(f"q-{stage.pool}"),), bindings=(Binding("nowhere", f"q-{stage.pool}", "k"),))

    with pytest.raises(RejectedError, match="nowhere"):
        await stage.broker.declare(bound)


async def test_a_worker_needs_the_exchanges_and_nothing_else_for_its_pool(stage: Stage) -> None:
    pool = f"{stage.pool}.own"
    await stage.broker.declare(pool_queue(pool))

    assert await stage.broker.publish_many([Message(JOBS, pool, b"", "now")]) == []
    assert names(await stage.receive(await stage.consumer(queue=jobs_queue(pool)), 1)) == ["now"]


async def test_events_and_outcomes_have_a_queue_each_whatever_the_key(stage: Stage) -> None:
    await stage.broker.publish_many([Message(EVENTS, "wake", b"", "e"), Message(OUTCOMES, "facts.many", b"", "o")])

    assert names(await stage.receive(await stage.consumer(queue=EVENTS), 1)) == ["e"]
    assert names(await stage.receive(await stage.consumer(queue=OUTCOMES), 1)) == ["o"]


async def test_what_no_queue_wants_is_returned_and_the_rest_arrives(stage: Stage) -> None:
    lost = [Message("", "redrive.v1.no-such-queue", b"x", name) for name in ("a", "b", "b")]

    unrouted = await stage.broker.publish_many([lost[0], stage.job("kept"), *lost[1:]])

    assert unrouted == lost
    assert names(await stage.receive(await stage.consumer(), 1)) == ["kept"]


async def test_an_unknown_exchange_is_an_error_and_the_broker_goes_on(stage: Stage) -> None:
    with pytest.raises(UnavailableError):
        await stage.broker.publish_many([Message("redrive.v1.no-such-exchange", "", b"", "a")])

    await stage.publish("b")
    assert names(await stage.receive(await stage.consumer(), 1)) == ["b"]


async def test_nothing_to_publish_is_nothing_to_do(stage: Stage) -> None:
    assert await stage.broker.publish_many([]) == []


async def test_more_than_may_be_in_flight_arrives(stage: Stage) -> None:
    consumer = await stage.consumer(prefetch=2000)

    await stage.publish(*(f"m{n}" for n in range(1200)))

    received = await stage.receive(consumer, 1200)
    assert names(received) == [f"m{n}" for n in range(1200)]


async def test_batches_published_at_once_all_arrive_even_with_the_same_ids(stage: Stage) -> None:
    ids = [f"m{n}" for n in range(20)]

    await asyncio.gather(*(stage.publish(*ids) for _ in range(5)))

    received = await stage.receive(await stage.consumer(), 100)
    assert sorted(names(received)) == sorted(ids * 5)


async def test_a_body_of_many_frames_arrives(stage: Stage) -> None:
    body = bytes(range(256)) * 2000

    await stage.broker.publish_many([replace(stage.job("large"), body=body), replace(stage.job("empty"), body=b"")])

    large, empty = await stage.receive(await stage.consumer(), 2)
    assert (large.body, empty.body) == (body, b"")


async def test_no_more_than_asked_for_is_received_at_once(stage: Stage) -> None:
    consumer = await stage.consumer()
    await stage.publish("a", "b", "c")

    first = await stage.ended(consumer.receive(2, DEADLINE_S))
    rest = await stage.receive(consumer, 3 - len(first))

    assert len(first) <= 2
    assert names([*first, *rest]) == ["a", "b", "c"]


async def test_a_receipt_waits_for_the_first_message(stage: Stage) -> None:
    consumer = await stage.consumer()
    waiting = asyncio.ensure_future(consumer.receive(10, DEADLINE_S))
    await asyncio.sleep(0)

    await stage.publish("a")

    assert names(await stage.ended(waiting)) == ["a"]


async def test_a_receipt_ends_empty_when_its_wait_is_over(stage: Stage) -> None:
    consumer = await stage.consumer()
    began = stage.clock.monotonic()

    assert await stage.ended(consumer.receive(10, 0.1)) == []
    assert stage.clock.monotonic() - began >= 0.1


async def test_what_was_acknowledged_does_not_come_again(stage: Stage) -> None:
    consumer = await stage.consumer()
    await stage.publish("a", "b", "c")
    received = await stage.receive(consumer, 3)

    await consumer.ack([received[2].tag, received[0].tag])
    await consumer.close()

    assert names(await stage.receive(again := await stage.consumer(), 1)) == ["b"]
    assert await stage.is_silent(again)


async def test_acknowledging_up_to_a_tag_covers_that_prefix_and_no_more(stage: Stage) -> None:
    consumer = await stage.consumer()
    await stage.publish("a", "b", "c", "d", "e")
    received = await stage.receive(consumer, 5)

    await consumer.ack_up_to(received[2].tag)
    await consumer.close()

    assert names(await stage.receive(again := await stage.consumer(), 2)) == ["d", "e"]
    assert await stage.is_silent(again)


async def test_acknowledging_twice_or_what_never_was_changes_nothing(stage: Stage) -> None:
    consumer = await stage.consumer()
    await stage.publish("a", "b")
    received = await stage.receive(consumer, 2)

    await consumer.ack([received[0].tag])
    await consumer.ack([received[0].tag, received[0].tag, 10**15])
    await consumer.ack_up_to(received[0].tag)
    await consumer.reject([received[0].tag], requeue=True)

    await stage.publish("c")
    assert names(await stage.receive(consumer, 1)) == ["c"]


async def test_a_message_put_back_comes_again_and_says_so(stage: Stage) -> None:
    consumer = await stage.consumer(prefetch=1)
    await stage.publish("a", "b")
    (first,) = await stage.receive(consumer, 1)

    await consumer.reject([first.tag], requeue=True)

    (again,) = await stage.receive(consumer, 1)
    assert (again.message_id, again.redelivered, again.delivery_count) == ("a", True, 1)


async def test_a_refused_message_is_among_the_dead_with_the_reason(stage: Stage) -> None:
    consumer = await stage.consumer()
    await stage.publish("a", "b")
    received = await stage.receive(consumer, 2)

    await consumer.reject([received[0].tag], requeue=False)

    (dead,) = await stage.receive(await stage.consumer(queue=DEAD), 1)
    assert (dead.message_id, dead.body) == ("a", b"a")
    assert dead.headers["x-first-death-reason"] == "rejected"
    assert dead.headers["x-first-death-queue"] == stage.queue


async def test_a_message_put_back_too_often_is_among_the_dead(stage: Stage) -> None:
    consumer = await stage.consumer()
    await stage.publish("poison")

    counts = []
    for _ in range(JOB_DELIVERY_LIMIT + 1):
        (delivery,) = await stage.receive(consumer, 1)
        counts.append(delivery.delivery_count)
        await consumer.reject([delivery.tag], requeue=True)

    (dead,) = await stage.receive(await stage.consumer(queue=DEAD), 1)
    assert counts == list(range(JOB_DELIVERY_LIMIT + 1))
    assert dead.message_id == "poison"
    assert dead.headers["x-first-death-reason"] == "delivery_limit"
    assert await stage.is_silent(consumer)


async def test_a_consumer_holds_no_more_than_its_prefetch(stage: Stage) -> None:
    consumer = await stage.consumer(prefetch=3)
    await stage.publish("a", "b", "c", "d", "e")

    held = await stage.receive(consumer, 3)
    assert await stage.is_silent(consumer)

    await consumer.ack([held[0].tag])
    assert names(await stage.receive(consumer, 1)) == ["d"]
    assert await stage.is_silent(consumer)


async def test_two_consumers_share_a_queue_each_message_going_to_one(stage: Stage) -> None:
    first, second = await stage.consumer(prefetch=10), await stage.consumer(prefetch=10)
    await stage.publish(*(f"m{n}" for n in range(20)))

    received = await stage.receive(first, 10) + await stage.receive(second, 10)

    assert sorted(names(received)) == sorted(f"m{n}" for n in range(20))


async def test_closing_puts_back_what_was_not_acknowledged(stage: Stage) -> None:
    consumer = await stage.consumer()
    await stage.publish("a", "b", "c")
    received = await stage.receive(consumer, 2)
    await consumer.ack([received[0].tag])

    await consumer.close()

    again = await stage.receive(await stage.consumer(), 2)
    assert sorted(names(again)) == ["b", "c"]
    assert next(each for each in again if each.message_id == "b").redelivered


async def test_a_stopped_consumer_takes_no_more_but_can_acknowledge(stage: Stage) -> None:
    consumer, other = await stage.consumer(prefetch=2), await stage.consumer(prefetch=10)
    await stage.publish("a", "b", "c")
    mine = await stage.ended(consumer.receive(1, DEADLINE_S))

    await consumer.stop()
    theirs = await stage.receive(other, 3 - len(mine))

    assert await consumer.receive(1, DEADLINE_S) == []
    assert sorted(names([*mine, *theirs])) == ["a", "b", "c"]
    await consumer.ack(each.tag for each in mine)
    await consumer.close()
    assert await stage.is_silent(other)


async def test_stopping_ends_a_receipt_that_waits(stage: Stage) -> None:
    consumer = await stage.consumer()
    waiting = asyncio.ensure_future(consumer.receive(1, DEADLINE_S))
    await asyncio.sleep(0)

    await consumer.stop()

    assert await asyncio.wait_for(waiting, 5) == []


async def test_a_closed_consumer_cannot_be_asked(stage: Stage) -> None:
    consumer = await stage.consumer()
    await consumer.close()

    with pytest.raises(RuntimeError):
        await consumer.receive(1, 0)


async def test_consuming_a_queue_that_is_not_there_is_refused(stage: Stage) -> None:
    with pytest.raises(RejectedError):
        await stage.broker.consume("redrive.v1.no-such-queue", 1)


async def test_delayed_messages_come_in_due_order_and_never_early(stage: Stage) -> None:
    consumer = await stage.consumer()
    delays = {"d": 1.2, "b": 0.35, "a": 0.05, "c": 0.8, "now": 0.0}
    began = stage.clock.monotonic()

    await stage.publish_later(delays)

    arrivals = {}
    for _ in delays:
        (delivery,) = await stage.receive(consumer, 1)
        arrivals[delivery.message_id] = stage.clock.monotonic() - began
    assert list(arrivals) == ["now", "a", "b", "c", "d"]
    assert {name for name, delay_s in delays.items() if arrivals[name] < delay_s} == set()


async def test_a_long_delay_does_not_hold_up_a_short_one_behind_it(stage: Stage) -> None:
    consumer = await stage.consumer()

    await stage.publish_later({"long": 60.0, "short": 0.1})

    assert names(await stage.receive(consumer, 1)) == ["short"]


async def test_many_delays_all_come_and_none_early(stage: Stage) -> None:
    consumer = await stage.consumer(prefetch=500)
    delays = {f"m{n}": (n % 40) * 0.04 for n in range(200)}
    began = stage.clock.monotonic()

    await stage.publish_later(delays)

    early: list[str] = []
    seen: list[str] = []
    while len(seen) < len(delays):
        for delivery in await stage.ended(consumer.receive(500, DEADLINE_S)):
            seen.append(delivery.message_id)
            if stage.clock.monotonic() - began < delays[delivery.message_id]:
                early.append(delivery.message_id)
    assert sorted(seen) == sorted(delays)
    assert early == []


async def test_jobs_of_a_pool_that_nobody_serves_wait_in_its_queue(stage: Stage) -> None:
    await stage.publish("a", "b")
    await stage.publish_later({"c": 0.05})

    async def three_wait() -> bool:
        await stage.ended(stage.clock.sleep(0.05))
        return await stage.broker.stats([stage.queue]) == {stage.queue: QueueStats(ready=3, consumers=0)}

    await eventually(three_wait)
    assert names(await stage.receive(await stage.consumer(), 3)) == ["a", "b", "c"]


async def test_jobs_of_a_pool_that_does_not_exist_are_kept_aside(stage: Stage) -> None:
    unknown = f"nobody-{uuid4().hex}"
    now, later = (Message(*entry(delay_s, unknown), b"", f"after {delay_s}") for delay_s in (0.0, 0.1))

    assert await stage.broker.publish_many([now, later]) == []

    kept = await stage.receive(await stage.consumer(queue=UNROUTED), 2)
    assert names(kept) == ["after 0.0", "after 0.1"]


async def test_a_pool_whose_name_is_several_words_is_served_now_and_later(stage: Stage) -> None:
    pool = f"gpu.{uuid4().hex[:8]}"
    await stage.broker.declare(pool_topology(pool))

    await stage.broker.publish_many([Message(*entry(delay_s, pool), b"", f"after {delay_s}") for delay_s in (0.0, 0.1)])

    assert names(await stage.receive(await stage.consumer(queue=jobs_queue(pool)), 2)) == ["after 0.0", "after 0.1"]


async def test_what_is_due_for_the_orchestrator_is_a_timer(stage: Stage) -> None:
    await stage.broker.publish_many([Message(*entry(0.05, TIMERS_POOL), b"", "timeout")])

    assert names(await stage.receive(await stage.consumer(queue=TIMERS), 1)) == ["timeout"]


async def test_declaring_again_changes_nothing(stage: Stage) -> None:
    await stage.publish("a")

    await stage.broker.declare(pool_topology(stage.pool))

    assert names(await stage.receive(await stage.consumer(), 1)) == ["a"]


async def test_stats_count_messages_that_wait_and_consumers_and_leave_out_what_is_not_there(stage: Stage) -> None:
    await stage.publish("a", "b")
    assert await stage.broker.stats([stage.queue, "redrive.v1.no-such-queue", DEAD]) == {
        stage.queue: QueueStats(ready=2, consumers=0),
        DEAD: QueueStats(ready=0, consumers=0),
    }

    await stage.receive(await stage.consumer(), 2)

    assert await stage.broker.stats([stage.queue]) == {stage.queue: QueueStats(ready=0, consumers=1)}


async def test_purging_throws_away_what_waits(stage: Stage) -> None:
    await stage.publish("a", "b")

    assert await stage.broker.purge(stage.queue) == 2
    assert await stage.is_silent(await stage.consumer())


async def test_a_broker_bears_the_last_mark_and_loses_it_with_its_data(stage: Stage) -> None:
    assert await stage.broker.incarnation() is None

    await stage.broker.mark_incarnation("first")
    await stage.broker.mark_incarnation("second")
    assert [await stage.broker.incarnation() for _ in range(30)] == ["second"] * 30

    await stage.broker.purge(INCARNATION)
    assert await stage.broker.incarnation() is None


async def test_many_may_look_at_the_mark_at_once(stage: Stage) -> None:
    await stage.broker.mark_incarnation("mark")

    assert await asyncio.gather(*(stage.broker.incarnation() for _ in range(20))) == ["mark"] * 20


async def test_a_broker_at_ease_is_not_blocked(stage: Stage) -> None:
    assert not stage.broker.is_blocked
