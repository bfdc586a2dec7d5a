"""Deliveries of one pool: taken as there is room, by a consumer whose prefetch follows the room there is."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass

from shared.broker.port import Broker, Consumer, Delivery
from shared.broker.topology import jobs_queue, pool_queue
from shared.errors import RejectedError, UnavailableError
from shared.runtime.clock import Clock
from shared.runtime.logs import Log

RECEIVE_WAIT_S = 5.0
FIRST_PAUSE_S = 0.1
LONGEST_PAUSE_S = 5.0

_log = Log("redrive.worker.intake")


class Source:
    """A consumer and what of it is not settled yet; once retired it is closed with its last delivery."""

    def __init__(self, consumer: Consumer, prefetch: int) -> None:
        self.prefetch = prefetch
        self._consumer = consumer
        self._open: set[int] = set()
        self._is_retired = False
        self.is_closed = False

    async def receive(self, limit: int) -> list[Delivery]:
        """Return what is there; nothing after a while, or when retired."""
        if self._is_retired:
            return []
        found = await self._consumer.receive(limit, RECEIVE_WAIT_S)
        self._open.update(delivery.tag for delivery in found)
        return found

    async def ack(self, tags: Iterable[int]) -> None:
        """Give up deliveries for good."""
        given = list(tags)
        await self._settle(given, self._consumer.ack(given))

    async def reject(self, tags: Iterable[int], *, requeue: bool) -> None:
        """Put deliveries back, or send them to the dead letters."""
        given = list(tags)
        await self._settle(given, self._consumer.reject(given, requeue=requeue))

    async def retire(self) -> None:
        """Take no more; close when the rest is settled."""
        self._is_retired = True
        await self._consumer.stop()
        await self._close_if_done()

    async def close(self) -> None:
        """Put back whatever is left."""
        if not self.is_closed:
            self.is_closed = True
            await self._consumer.close()

    async def _settle(self, tags: list[int], how: Awaitable[None]) -> None:
        try:
            await how
        except UnavailableError as problem:
            _log.warning("settle_failed", deliveries=len(tags), reason=str(problem)[:300])
        self._open.difference_update(tags)
        await self._close_if_done()

    async def _close_if_done(self) -> None:
        if self._is_retired and not self._open:
            await self.close()


@dataclass(frozen=True, slots=True)
class Held:
    """A delivery that is not settled, and where it came from."""

    source: Source
    tag: int


async def acknowledge(held: Iterable[Held]) -> None:
    """Give up deliveries, those of one source together."""
    for source, tags in _by_source(held).items():
        await source.ack(tags)


async def hand_back(held: Iterable[Held]) -> None:
    """Put deliveries back into their queues."""
    for source, tags in _by_source(held).items():
        await source.reject(tags, requeue=True)


def _by_source(held: Iterable[Held]) -> dict[Source, list[int]]:
    out: dict[Source, list[int]] = {}
    for item in held:
        out.setdefault(item.source, []).append(item.tag)
    return out


@dataclass(frozen=True, slots=True)
class Room:
    """How many jobs may be begun now, and how many deliveries may be unsettled at once."""

    free: int
    prefetch: int


Take = Callable[[Source, list[Delivery]], Awaitable[None]]


class Intake:
    """Takes the jobs of one pool as long as there is room for them.

    It declares the queue of its pool and nothing else. The exchanges come from ingest and the orchestrator; until they
    are there, and whenever the queue is gone, it tries again.
    """

    def __init__(self, broker: Broker, pool: str, clock: Clock, room: Callable[[], Room]) -> None:
        self._broker = broker
        self._pool = pool
        self._clock = clock
        self._room = room
        self._changed = asyncio.Event()
        self._source: Source | None = None
        self._sources: list[Source] = []
        self._is_stopped = False

    @property
    def is_consuming(self) -> bool:
        """Say whether deliveries can come, or would as soon as there is room."""
        return self._source is not None or self._room().prefetch == 0

    def look_again(self) -> None:
        """Notice that there is room again."""
        self._changed.set()

    async def run(self, take: Take) -> None:
        """Hand over deliveries until stopped."""
        pause = FIRST_PAUSE_S
        while not self._is_stopped:
            try:
                await self._turn(take)
                pause = FIRST_PAUSE_S
            except (UnavailableError, RejectedError) as problem:
                _log.warning("consume_failed", pool=self._pool, reason=str(problem)[:300], again_in_s=pause)
                await self._clock.sleep(pause)
                pause = min(pause * 2, LONGEST_PAUSE_S)

    async def fit(self) -> None:
        """Retire a consumer whose prefetch is no longer the right one; the next turn opens another."""
        if self._source is not None and self._source.prefetch != self._room().prefetch:
            old, self._source = self._source, None
            await old.retire()

    async def stop(self) -> None:
        """Take no more; what was taken can still be settled."""
        self._is_stopped = True
        self._changed.set()
        if self._source is not None:
            await self._source.retire()

    async def close(self) -> None:
        """Put back whatever is left."""
        for source in self._sources:
            await source.close()

    async def _turn(self, take: Take) -> None:
        await self.fit()
        room = self._room()
        if room.free <= 0 or room.prefetch <= 0:
            self._changed.clear()
            await self._changed.wait()
            return
        source = self._source or await self._opened(room.prefetch)
        found = await source.receive(room.free)
        if found:
            await take(source, found)

    async def _opened(self, prefetch: int) -> Source:
        await self._broker.declare(pool_queue(self._pool))
        source = Source(await self._broker.consume(jobs_queue(self._pool), prefetch), prefetch)
        self._sources = [each for each in self._sources if not each.is_closed]
        self._sources.append(source)
        self._source = source
        if self._is_stopped:
            await source.retire()
        return source
