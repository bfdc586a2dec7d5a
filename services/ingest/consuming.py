"""What every consumer of ingest has in common: it comes up whenever the broker does, and nothing makes it give up."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from shared.broker.port import Broker, Consumer, Delivery, Message
from shared.broker.topology import Topology
from shared.errors import ConflictError, RejectedError, UnavailableError
from shared.runtime.clock import Clock
from shared.runtime.logs import Log

RECEIVE_WAIT_S = 1.0
FIRST_PAUSE_S = 0.1
LONGEST_PAUSE_S = 5.0

T = TypeVar("T")
Take = Callable[[Consumer, list[Delivery]], Awaitable[None]]

_log = Log("redrive.ingest.consuming")


class StoppedError(Exception):
    """The service stops before something that is tried again and again succeeded."""


class Patience:
    """Tries until it works or the service stops; pauses grow meanwhile."""

    def __init__(self, clock: Clock, stop: asyncio.Event) -> None:
        self._clock = clock
        self._stop = stop

    async def insist(self, what: str, attempt: Callable[[], Awaitable[T]]) -> T:
        """Return what the attempt returns, once no server is in its way; raises StoppedError."""
        pause = FIRST_PAUSE_S
        while True:
            try:
                return await attempt()
            except (UnavailableError, ConflictError) as problem:
                _log.warning(f"{what}_failed", reason=str(problem)[:300], again_in_s=pause)
            await self.pause(pause)
            if self._stop.is_set():
                raise StoppedError(what)
            pause = min(pause * 2, LONGEST_PAUSE_S)

    async def pause(self, seconds: float) -> None:
        """Wait, but not longer than the service runs."""
        await wait_for(self._stop, self._clock, seconds)


class Feed:
    """Hands the deliveries of one queue to a function, in batches, one batch after the other."""

    def __init__(self, broker: Broker, queue: str, batch: int, patience: Patience) -> None:
        self._broker = broker
        self._queue = queue
        self._batch = batch
        self._patience = patience
        self.is_consuming = False

    async def run(self, take: Take, stop: asyncio.Event, prepare: Callable[[], Awaitable[None]]) -> None:
        """Feed until stopped; what was received and not acknowledged then is put back."""
        while not stop.is_set():
            try:
                await self._patience.insist("declare", prepare)
                consumer = await self._patience.insist("consume", self._opened)
                await self._consume(consumer, take, stop)
            except StoppedError:
                return
            except (UnavailableError, RejectedError) as problem:
                _log.warning("feed_interrupted", queue=self._queue, reason=str(problem)[:300])
                await self._patience.pause(FIRST_PAUSE_S)

    async def _opened(self) -> Consumer:
        return await self._broker.consume(self._queue, self._batch)

    async def _consume(self, consumer: Consumer, take: Take, stop: asyncio.Event) -> None:
        self.is_consuming = True
        asked = asyncio.create_task(_stopped(consumer, stop))
        try:
            while not stop.is_set():
                deliveries = await consumer.receive(self._batch, RECEIVE_WAIT_S)
                if deliveries:
                    await take(consumer, deliveries)
        finally:
            self.is_consuming = False
            asked.cancel()
            await consumer.close()


class Publishing:
    """Publishes for certain: to queues that are there, on a broker that answers."""

    def __init__(self, broker: Broker, topology: Topology, patience: Patience) -> None:
        self._broker = broker
        self._topology = topology
        self._patience = patience

    async def publish(self, messages: list[Message]) -> None:
        """Return when the broker has confirmed all of them; raises StoppedError."""
        if messages:
            await self._patience.insist("publish", lambda: self._once(messages))

    async def _once(self, messages: list[Message]) -> None:
        if await self._broker.publish_many(messages):
            await self._broker.declare(self._topology)
            raise UnavailableError("no queue took a message; the topology was declared again")


async def _stopped(consumer: Consumer, stop: asyncio.Event) -> None:
    """Let a consumer that waits for deliveries hear at once that there is no more to do."""
    await stop.wait()
    await consumer.stop()


async def wait_for(event: asyncio.Event, clock: Clock, seconds: float) -> None:
    """Return when an event is set, or when the time has passed."""
    waits = [asyncio.ensure_future(event.wait()), asyncio.ensure_future(clock.sleep(seconds))]
    try:
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for wait in waits:
            wait.cancel()
