"""The broker in one process: the same topology, interpreted, with a clock that a test can move."""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import count

from typing_extensions import override

from shared.broker.memory_consumer import MemoryConsumer, Office, either
from shared.broker.memory_queue import Held, MemoryQueue
from shared.broker.port import Broker, Consumer, Message, QueueStats
from shared.broker.routing import Routes
from shared.broker.topology import INCARNATION, Topology
from shared.errors import RejectedError, UnavailableError
from shared.runtime.clock import Clock, SystemClock


class MemoryBroker(Broker):
    """Keeps what it is given until the process ends; from then on the store knows what to publish again."""

    def __init__(self, clock: Clock | None = None) -> None:
        self._clock = clock or SystemClock()
        self._topology = Topology()
        self._routes = Routes(self._topology)
        self._queues: dict[str, MemoryQueue] = {}
        self._consumers: list[MemoryConsumer] = []
        self._positions = count()
        self._expiries: list[tuple[float, int, str]] = []
        self._earlier = asyncio.Event()
        self._ticking: asyncio.Task[None] | None = None
        self._open = asyncio.Event()
        self._open.set()
        self._office = Office(self._clock, self._settle, self._give_back, self._reject)

    @override
    async def declare(self, topology: Topology) -> None:
        there = {exchange.name for exchange in (self._topology | topology).exchanges}
        if missing := {binding.source for binding in topology.bindings} - there:
            raise RejectedError(f"there is no exchange {min(missing)}")
        self._topology |= topology
        self._routes = Routes(self._topology)
        for queue in topology.queues:
            self._queues.setdefault(queue.name, MemoryQueue(queue))

    @override
    async def publish_many(self, messages: Sequence[Message]) -> list[Message]:
        await self._open.wait()
        await asyncio.sleep(0)
        self._settle()
        now = self._clock.monotonic()
        return [message for message in messages if not self._publish(message, now)]

    @override
    async def consume(self, queue: str, prefetch: int) -> Consumer:
        consumer = MemoryConsumer(self._office, self._queue(queue), prefetch)
        self._consumers = [each for each in self._consumers if not each.is_closed]
        self._consumers.append(consumer)
        return consumer

    @override
    async def stats(self, queues: Iterable[str]) -> dict[str, QueueStats]:
        self._settle()
        known = ((name, self._queues[name]) for name in queues if name in self._queues)
        return {name: QueueStats(ready=len(queue), consumers=len(queue.watchers)) for name, queue in known}

    @override
    async def purge(self, queue: str) -> int:
        return self._queue(queue).clear()

    @override
    async def incarnation(self) -> str | None:
        queue = self._queues.get(INCARNATION)
        return queue.new[0].message.body.decode() if queue and queue.new else None

    @override
    async def mark_incarnation(self, mark: str) -> None:
        if await self.publish_many([Message("", INCARNATION, mark.encode(), mark, content_type="text/plain")]):
            raise RejectedError(f"there is no queue {INCARNATION}; declare the topology first")

    @property
    @override
    def is_blocked(self) -> bool:
        return not self._open.is_set()

    @override
    async def close(self) -> None:
        for consumer in self._consumers:
            await consumer.close()
        if self._ticking is not None:
            self._ticking.cancel()
            await asyncio.wait([self._ticking])

    def block(self) -> None:
        """Make publishers wait, as a broker does that runs out of memory or disk."""
        self._open.clear()

    def unblock(self) -> None:
        """Let publishers go on."""
        self._open.set()

    def wipe(self) -> None:
        """Lose every message, and what consumers hold of them; what was declared is declared again at once."""
        self._expiries.clear()
        for queue in self._queues.values():
            queue.clear()
        for consumer in self._consumers:
            consumer.forget()

    def _queue(self, name: str) -> MemoryQueue:
        if name not in self._queues:
            raise RejectedError(f"there is no queue {name}")
        return self._queues[name]

    def _publish(self, message: Message, now: float) -> bool:
        if not self._routes.knows(message.exchange):
            raise UnavailableError(f"there is no exchange {message.exchange}")
        targets = [self._queues[name] for name in self._routes.queues(message.exchange, message.routing_key)]
        if any(queue.is_refusing for queue in targets):
            raise UnavailableError(f"a queue for {message.routing_key} is full")
        for queue in targets:
            self._enqueue(queue, message, now)
        return bool(targets)

    def _enqueue(self, queue: MemoryQueue, message: Message, now: float) -> None:
        held = Held(next(self._positions), message)
        if queue.spec.ttl_ms is not None:
            held.expires_at = now + queue.spec.ttl_ms / 1000
            self._expect(queue, held)
        if (squeezed := queue.put(held)) is not None:
            self._bury(queue, squeezed, "maxlen", now)

    def _expect(self, queue: MemoryQueue, held: Held) -> None:
        if held.expires_at is None:
            return
        if not self._expiries or held.expires_at < self._expiries[0][0]:
            self._earlier.set()
        heapq.heappush(self._expiries, (held.expires_at, held.position, queue.spec.name))
        if self._ticking is None or self._ticking.done():
            self._ticking = asyncio.create_task(self._expire_in_time(), name="memory broker")

    def _settle(self) -> None:
        """Let everything expire that should have by now, each at its own moment, so that lateness does not add up."""
        now = self._clock.monotonic()
        while self._expiries and self._expiries[0][0] <= now:
            due, _, name = heapq.heappop(self._expiries)
            queue = self._queues[name]
            for held in queue.take_expired(due):
                self._bury(queue, held, "expired", due)

    def _give_back(self, queue: MemoryQueue, held: Held) -> None:
        held.returns += 1
        limit = queue.spec.delivery_limit
        if limit is not None and held.returns > limit:
            self._bury(queue, held, "delivery_limit", self._clock.monotonic())
            return
        queue.put_back(held)
        self._expect(queue, held)

    def _reject(self, queue: MemoryQueue, held: Held) -> None:
        self._bury(queue, held, "rejected", self._clock.monotonic())

    def _bury(self, queue: MemoryQueue, held: Held, reason: str, now: float) -> None:
        """Send a message on to the dead-letter exchange of its queue; without one it is gone."""
        if (exchange := queue.spec.dead_letter_to) is None:
            return
        dead = replace(held.message, exchange=exchange, headers=_obituary(queue, held.message, reason))
        for name in self._routes.queues(exchange, dead.routing_key):
            self._enqueue(self._queues[name], dead, now)

    async def _expire_in_time(self) -> None:
        """Let things expire even while nobody asks."""
        while self._expiries:
            self._earlier.clear()
            await either(self._earlier, self._clock, self._expiries[0][0] - self._clock.monotonic())
            self._settle()


def _obituary(queue: MemoryQueue, message: Message, reason: str) -> Mapping[str, str]:
    first = {
        "x-first-death-exchange": message.exchange,
        "x-first-death-queue": queue.spec.name,
        "x-first-death-reason": reason,
    }
    return first | dict(message.headers)
