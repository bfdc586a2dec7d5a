"""Wake-ups for executions that have something to decide: as messages, and published beside the requests."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from services.ingest.metrics import IngestMetrics
from shared.broker.port import Broker, Message
from shared.broker.topology import EVENTS
from shared.contracts.ids import derived
from shared.contracts.messages import encode_wake
from shared.errors import RejectedError, UnavailableError
from shared.runtime.logs import Log

WAKE = "wake"
MOST_WAITING = 20_000

_log = Log("redrive.ingest.wake")


def wake_messages(executions: Iterable[str]) -> list[Message]:
    """Return the messages that wake these executions, as few as there can be."""
    return [Message(EVENTS, WAKE, body, derived(WAKE, body)) for body in encode_wake(sorted(set(executions)))]


class Waker:
    """Publishes wake-ups of what was committed; a request never waits for the broker, and never fails with it.

    What cannot be published is forgotten: the sweep wakes executions whose facts were not applied.
    """

    def __init__(self, broker: Broker, metrics: IngestMetrics) -> None:
        self._broker = broker
        self._metrics = metrics
        self._waiting: set[str] = set()
        self._news = asyncio.Event()
        self._idle = asyncio.Event()
        self._idle.set()

    def wake(self, executions: Iterable[str]) -> None:
        """Have executions woken soon, together with others."""
        for execution_id in executions:
            if len(self._waiting) >= MOST_WAITING:
                self._metrics.lost_wakes.inc()
                continue
            self._waiting.add(execution_id)
        if self._waiting:
            self._idle.clear()
            self._news.set()

    async def flushed(self) -> None:
        """Return when nothing is waiting or under way."""
        await self._idle.wait()

    async def run(self) -> None:
        """Publish until cancelled."""
        while True:
            await self._news.wait()
            self._news.clear()
            waiting, self._waiting = self._waiting, set()
            await self._publish(waiting)
            if not self._waiting:
                self._idle.set()

    async def _publish(self, executions: set[str]) -> None:
        try:
            unrouted = await self._broker.publish_many(wake_messages(executions))
        except (UnavailableError, RejectedError) as problem:
            reason = str(problem)
        else:
            if not unrouted:
                return
            reason = "no queue takes wake-ups"
        self._metrics.lost_wakes.inc(len(executions))
        _log.warning("wake_left_to_the_sweep", executions=len(executions), reason=reason[:300])
