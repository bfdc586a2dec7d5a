"""Reports on their way out: whatever is ready goes in one publication, and only its confirmation lets go of a job."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from services.worker.intake import Held, acknowledge
from services.worker.metrics import WorkerMetrics
from shared.broker.port import Broker, Message
from shared.broker.topology import OUTCOMES
from shared.contracts.events import Event
from shared.contracts.messages import encode_facts
from shared.errors import RejectedError, UnavailableError
from shared.runtime.clock import Clock
from shared.runtime.crashpoints import crash_point
from shared.runtime.logs import Log

FACTS_KEY = "facts"
FIRST_PAUSE_S = 0.1
LONGEST_PAUSE_S = 5.0

_log = Log("redrive.worker.outbox")

Confirmed = Callable[[], Awaitable[Sequence[Held]]]
"""What to do when the broker has a report; returns the deliveries that it was all about."""


@dataclass(frozen=True, slots=True)
class Report:
    """Facts to publish, or a message as it is, and what to do once the broker has them for certain."""

    facts: Sequence[Event] = ()
    message: Message | None = None
    confirmed: Confirmed | None = None


class Outbox:
    """Publishes reports in the order given, for as long as it takes."""

    def __init__(self, broker: Broker, clock: Clock, metrics: WorkerMetrics) -> None:
        self._broker = broker
        self._clock = clock
        self._metrics = metrics
        self._waiting: list[Report] = []
        self._news = asyncio.Event()
        self._idle = asyncio.Event()
        self._idle.set()

    def put(self, report: Report) -> None:
        """Take a report; it is published soon, together with what else is ready."""
        self._waiting.append(report)
        self._idle.clear()
        self._news.set()

    async def flushed(self) -> None:
        """Return when nothing is waiting or under way."""
        await self._idle.wait()

    async def run(self) -> None:
        """Publish until cancelled."""
        while True:
            await self._news.wait()
            # One turn of the loop: jobs that end in the same moment travel together.
            await asyncio.sleep(0)
            self._news.clear()
            batch, self._waiting = self._waiting, []
            await self._deliver(batch)
            if not self._waiting:
                self._idle.set()

    async def _deliver(self, batch: list[Report]) -> None:
        facts = [fact for report in batch for fact in report.facts]
        messages = [_facts_message(facts, number, body) for number, body in enumerate(encode_facts(facts))]
        messages += [report.message for report in batch if report.message is not None]
        await self._publish(messages)
        self._metrics.facts.inc(len(facts))
        self._metrics.messages.inc(len(messages))
        if facts:
            crash_point("worker.before_ack")
        await acknowledge([held for report in batch if report.confirmed for held in await report.confirmed()])
        if facts:
            crash_point("worker.after_ack")

    async def _publish(self, messages: list[Message]) -> None:
        pause = FIRST_PAUSE_S
        while True:
            try:
                if not await self._broker.publish_many(messages):
                    return
                # The queue belongs to ingest, which declares it again when it cannot consume.
                reason = "no queue takes outcomes"
            except (UnavailableError, RejectedError) as problem:
                reason = str(problem)
            self._metrics.failures.inc()
            _log.warning("publish_failed", reason=reason[:300], messages=len(messages), again_in_s=pause)
            await self._clock.sleep(pause)
            pause = min(pause * 2, LONGEST_PAUSE_S)


def _facts_message(facts: list[Event], number: int, body: bytes) -> Message:
    return Message(OUTCOMES, FACTS_KEY, body, f"{facts[0].identity}.{len(facts)}.{number}")
