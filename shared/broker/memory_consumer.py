"""A consumer of a queue in memory."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import count

from typing_extensions import override

from shared.broker.memory_queue import Held, MemoryQueue
from shared.broker.port import Consumer, Delivery
from shared.runtime.clock import Clock


@dataclass(frozen=True, slots=True)
class Office:
    """What a consumer asks of the broker it belongs to."""

    clock: Clock
    settle: Callable[[], None]
    give_back: Callable[[MemoryQueue, Held], None]
    bury: Callable[[MemoryQueue, Held], None]


class MemoryConsumer(Consumer):
    """Takes from the queue when asked, never more than its prefetch at once."""

    def __init__(self, office: Office, queue: MemoryQueue, prefetch: int) -> None:
        self._office = office
        self._queue = queue
        self._prefetch = prefetch
        self._tags = count(1)
        self._outstanding: dict[int, Held] = {}
        self._news = asyncio.Event()
        self._is_stopped = False
        self._is_closed = False
        queue.watchers[self._news] = None

    @property
    def is_closed(self) -> bool:
        """Say whether it was closed."""
        return self._is_closed

    @override
    async def receive(self, limit: int, wait_s: float) -> list[Delivery]:
        if self._is_closed:
            raise RuntimeError("the consumer is closed")
        await asyncio.sleep(0)
        clock = self._office.clock
        deadline = clock.monotonic() + wait_s
        while not (taken := self._take(limit)):
            left_s = deadline - clock.monotonic()
            if left_s <= 0 or self._is_stopped:
                return []
            self._news.clear()
            await either(self._news, clock, left_s)
        return taken

    @override
    async def ack(self, tags: Iterable[int]) -> None:
        for tag in tags:
            self._outstanding.pop(tag, None)
        self._news.set()

    @override
    async def ack_up_to(self, tag: int) -> None:
        await self.ack([each for each in self._outstanding if each <= tag])

    @override
    async def reject(self, tags: Iterable[int], *, requeue: bool) -> None:
        for tag in tags:
            if (held := self._outstanding.pop(tag, None)) is not None:
                (self._office.give_back if requeue else self._office.bury)(self._queue, held)
        self._news.set()

    @override
    async def stop(self) -> None:
        self._is_stopped = True
        self._queue.watchers.pop(self._news, None)
        self._news.set()

    @override
    async def close(self) -> None:
        await self.stop()
        self._is_closed = True
        for held in self._outstanding.values():
            self._office.give_back(self._queue, held)
        self._outstanding.clear()

    def forget(self) -> None:
        """Lose everything that was handed over, as when the broker loses it."""
        self._outstanding.clear()
        self._news.set()

    def _take(self, limit: int) -> list[Delivery]:
        self._office.settle()
        room = 0 if self._is_stopped else min(limit, self._prefetch - len(self._outstanding))
        taken: list[Delivery] = []
        while len(taken) < room and (held := self._queue.take()) is not None:
            tag = next(self._tags)
            self._outstanding[tag] = held
            taken.append(_delivery(tag, held))
        return taken


async def either(news: asyncio.Event, clock: Clock, seconds: float) -> None:
    """Return at the news, or when the time has passed."""
    waits = [asyncio.ensure_future(news.wait()), asyncio.ensure_future(clock.sleep(seconds))]
    try:
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for wait in waits:
            wait.cancel()


def _delivery(tag: int, held: Held) -> Delivery:
    message = held.message
    return Delivery(
        body=message.body,
        tag=tag,
        message_id=message.message_id,
        headers=message.headers,
        exchange=message.exchange,
        routing_key=message.routing_key,
        redelivered=held.returns > 0,
        delivery_count=held.returns,
    )
