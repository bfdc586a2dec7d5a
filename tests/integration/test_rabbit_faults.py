"""A RabbitMQ node that is killed, wiped and starved: what was confirmed is kept, and what is gone shows."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from uuid import uuid4

import pytest

from shared.broker.ladder import entry
from shared.broker.port import Broker, Consumer, Message
from shared.broker.rabbit import RabbitBroker
from shared.broker.rabbit_link import RabbitSettings
from shared.broker.topology import JOBS, jobs_queue, pool_topology, topology
from shared.errors import UnavailableError
from tests.support import rabbit
from tests.support.eventually import eventually
from tests.support.rabbit import RabbitNode

pytestmark = [
    pytest.mark.timeout(240),
]

DEADLINE_S = 60.0


@pytest.fixture(scope="module")
def node() -> Iterator[RabbitNode]:
    node = rabbit.new_node()
    yield node
    node.remove()


@pytest.fixture
async def broker(node: RabbitNode) -> AsyncIterator[Broker]:
    broker = await RabbitBroker.connect(RabbitSettings(node.url, longest_pause_s=0.5, patience_s=1.0))
    await broker.declare(topology([]))
    yield broker
    await broker.close()


@pytest.fixture
async def pool(node: RabbitNode, broker: Broker) -> str:
    name = f"pool-{uuid4().hex[:12]}"
    await broker.declare(pool_topology(name))
    await asyncio.to_thread(node.keep_declarations)
    return name


async def published(broker: Broker, messages: list[Message]) -> None:
    async def is_published() -> bool:
        try:
            return await broker.publish_many(messages) == []
        except UnavailableError:
            return False

    await eventually(is_published, DEADLINE_S)


async def receive_into(seen: set[str], consumer: Consumer) -> None:
    for delivery in await consumer.receive(500, 0.5):
        seen.add(delivery.message_id)
        await consumer.ack([delivery.tag])


async def test_a_killed_node_loses_nothing_that_waits_in_the_ladder(
    node: RabbitNode, broker: Broker, pool: str
) -> None:
    delays = {f"m{n}": (n % 160) * 0.05 for n in range(800)}
    consumer = await broker.consume(jobs_queue(pool), 1000)
    await broker.publish_many([Message(*entry(delay_s, pool), b"", name) for name, delay_s in delays.items()])

    await asyncio.to_thread(node.kill)
    await asyncio.to_thread(node.start)

    seen: set[str] = set()
    deadline = time.monotonic() + DEADLINE_S
    while len(seen) < len(delays) and time.monotonic() < deadline:
        await receive_into(seen, consumer)
    assert delays.keys() - seen == set()


async def test_a_publisher_is_told_while_the_node_is_down_and_goes_on_when_it_is_back(
    node: RabbitNode, broker: Broker, pool: str
) -> None:
    await asyncio.to_thread(node.kill)
    with pytest.raises(UnavailableError):
        await broker.publish_many([Message(JOBS, pool, b"", "lost")])
    with pytest.raises(UnavailableError):
        await broker.stats([jobs_queue(pool)])
    await asyncio.to_thread(node.start)

    await published(broker, [Message(JOBS, pool, b"", "kept")])

    seen: set[str] = set()
    consumer = await broker.consume(jobs_queue(pool), 10)
    while "kept" not in seen:
        await receive_into(seen, consumer)


async def test_a_wiped_node_bears_no_mark_and_is_usable_at_once(node: RabbitNode, broker: Broker, pool: str) -> None:
    consumer = await broker.consume(jobs_queue(pool), 10)
    await broker.mark_incarnation("before")
    await published(broker, [Message(*entry(600.0, pool), b"", "gone")])
    assert await broker.incarnation() == "before"

    await asyncio.to_thread(node.kill)
    node.wipe()
    await asyncio.to_thread(node.start)

    await published(broker, [Message(*entry(0.1, pool), b"", "new")])
    seen: set[str] = set()
    while not seen:
        await receive_into(seen, consumer)
    assert seen == {"new"}
    assert await broker.incarnation() is None
    await broker.mark_incarnation("after")
    assert await broker.incarnation() == "after"


async def test_a_node_short_of_memory_makes_publishers_wait_and_consumers_go_on(
    node: RabbitNode, broker: Broker, pool: str
) -> None:
    consumer = await broker.consume(jobs_queue(pool), 1)
    await published(broker, [Message(JOBS, pool, b"", name) for name in ("a", "b")])

    await asyncio.to_thread(node.control, "set_vm_memory_high_watermark", "0.000001")
    # The publication that meets the alarm may still be taken; those after it wait.
    meeting = asyncio.create_task(broker.publish_many([Message(JOBS, pool, b"", "c")]))

    async def is_blocked() -> bool:
        return broker.is_blocked

    await eventually(is_blocked)
    waiting = asyncio.create_task(broker.publish_many([Message(JOBS, pool, b"", "d")]))
    seen: set[str] = set()
    while not {"a", "b"} <= seen:
        await receive_into(seen, consumer)
    assert not waiting.done()

    await asyncio.to_thread(node.control, "set_vm_memory_high_watermark", "absolute", "512MB")
    async with asyncio.timeout(DEADLINE_S):
        assert await meeting == await waiting == []
    assert not broker.is_blocked
    while seen != {"a", "b", "c", "d"}:
        await receive_into(seen, consumer)
