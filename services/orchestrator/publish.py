"""Decisions to messages: jobs to their pools, now or through the ladder; wake-ups to executions they concern."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from shared.broker.job_messages import is_publishable, job_message
from shared.broker.port import Broker, Message
from shared.broker.topology import EVENTS
from shared.contracts.ids import derived
from shared.contracts.messages import encode_wake
from shared.engine.turn import Decision
from shared.runtime.crashpoints import crash_point
from shared.store.port import Store

WAKE = "wake"
CHUNK = 500


def wake_messages(executions: Iterable[str]) -> list[Message]:
    """Return the messages that wake these executions."""
    return [Message(EVENTS, WAKE, body, derived(WAKE, body)) for body in encode_wake(sorted(set(executions)))]


class Publisher:
    """Publishes what decisions led to, and notes that it was published."""

    def __init__(self, broker: Broker, store: Store) -> None:
        self._broker = broker
        self._store = store

    async def publish(self, decisions: Sequence[Decision], *woken: Iterable[str]) -> None:
        """Publish jobs and wake-ups; returns when the broker has confirmed them and the store knows it.

        A large decision is noted chunk by chunk: a sweep elsewhere sees that someone is at work on it.
        """
        jobs = [job for decision in decisions for job in decision.jobs if is_publishable(job)]
        wake = {name for names in woken for name in names}
        wake |= {fact.execution_id for decision in decisions for fact in decision.facts}
        if jobs or wake:
            crash_point("orchestrator.before_publish")
        for start in range(0, len(jobs), CHUNK):
            some = jobs[start : start + CHUNK]
            await self._broker.publish_many([job_message(job, job.delay_s) for job in some])
            crash_point("orchestrator.after_publish")
            await self._store.mark_published([job.job_id for job in some])
        if wake:
            await self._broker.publish_many(wake_messages(wake))
