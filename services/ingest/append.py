"""The way of facts: received in batches, stored in one statement, their executions woken, acknowledged last."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from services.ingest.consuming import Patience, Publishing
from services.ingest.facts import store_facts
from services.ingest.metrics import IngestMetrics
from services.ingest.wake import wake_messages
from shared.broker.port import Consumer, Delivery
from shared.contracts.events import Event
from shared.contracts.messages import MESSAGE_VERSION, UnreadableMessageError, decode_facts
from shared.errors import RejectedError
from shared.runtime.clock import Clock
from shared.runtime.crashpoints import crash_point
from shared.runtime.logs import Log
from shared.store.port import Store
from shared.store.records import Beat

HEARTBEAT = "heartbeat"
LONGEST_LEASE_S = 24 * 3600.0
MOST_JOBS = 10_000

_log = Log("redrive.ingest.append")


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """A sign of life, and the jobs that the worker wants to keep."""

    beat: Beat
    jobs: tuple[str, ...] = ()
    lease_s: float = 60.0


@dataclass(slots=True)
class Batch:
    """What a batch of deliveries says."""

    facts: list[Event] = field(default_factory=list)
    beats: dict[str, Heartbeat] = field(default_factory=dict)
    unreadable: list[int] = field(default_factory=list)


class Append:
    """Takes batches of `redrive.v1.outcomes`; a crash anywhere means that they come again and are stored once."""

    def __init__(
        self, store: Store, publishing: Publishing, patience: Patience, clock: Clock, metrics: IngestMetrics
    ) -> None:
        self._store = store
        self._publishing = publishing
        self._patience = patience
        self._clock = clock
        self._metrics = metrics

    async def take(self, consumer: Consumer, deliveries: Sequence[Delivery]) -> None:
        """Store what a batch says, wake the executions it is about, and only then give the batch up."""
        began = self._clock.monotonic()
        batch = self._read(deliveries)
        _crash_point("ingest.after_receive", batch)
        await self.store(batch)
        _crash_point("ingest.after_publish", batch)
        if batch.unreadable:
            await consumer.reject(batch.unreadable, requeue=False)
        _crash_point("ingest.before_ack", batch)
        await consumer.ack_up_to(deliveries[-1].tag)
        self._metrics.batch_seconds.observe(self._clock.monotonic() - began)

    async def store(self, batch: Batch) -> None:
        """Store facts and signs of life, and wake executions, for as long as it takes.

        Nothing is put back meanwhile: that would count as a delivery, and a long outage would make facts dead letters.
        """
        if batch.facts:
            stored = await self._patience.insist("append", lambda: self._append(batch.facts))
            crash_point("ingest.after_append")
            # Not only for new facts: of those known already, the wake-up may be what was lost.
            woken = {fact.execution_id for fact in batch.facts} - stored
            await self._publishing.publish(wake_messages(woken))
        for heartbeat in batch.beats.values():
            await self._patience.insist("heartbeat", lambda each=heartbeat: self._keep_alive(each))  # type: ignore[misc]

    async def _append(self, facts: Sequence[Event]) -> frozenset[str]:
        return (await store_facts(self._store, facts, self._metrics)).unknown

    async def _keep_alive(self, heartbeat: Heartbeat) -> None:
        try:
            await self._store.heartbeat(heartbeat.beat)
            if heartbeat.jobs:
                await self._store.extend_leases(heartbeat.beat.worker_id, heartbeat.jobs, heartbeat.lease_s)
        except RejectedError as problem:
            _log.warning("heartbeat_refused", worker=heartbeat.beat.worker_id[:80], reason=str(problem)[:300])
            return
        self._metrics.beats.inc()

    def _read(self, deliveries: Sequence[Delivery]) -> Batch:
        batch = Batch()
        for delivery in deliveries:
            try:
                if delivery.routing_key == HEARTBEAT:
                    heartbeat = decode_heartbeat(delivery.body)
                    batch.beats[heartbeat.beat.worker_id] = heartbeat
                else:
                    batch.facts.extend(decode_facts(delivery.body))
            except UnreadableMessageError as problem:
                _log.error("message_unreadable", message_id=delivery.message_id, reason=str(problem)[:300])
                self._metrics.unreadable.labels("outcomes").inc()
                batch.unreadable.append(delivery.tag)
        return batch


def _crash_point(name: str, batch: Batch) -> None:
    """Mark a place on the way of facts: a batch of heartbeats alone, the first that a worker sends, does not count."""
    if batch.facts:
        crash_point(name)


def decode_heartbeat(body: bytes) -> Heartbeat:
    """Return the sign of life of a message; raises UnreadableMessageError."""
    try:
        data = json.loads(body)
        if data.get("v") != MESSAGE_VERSION:
            raise UnreadableMessageError(f"unknown version of messages: {data.get('v')!r}")
        said = data["heartbeat"]
        jobs = [str(job) for job in _listed(said.get("running"))][:MOST_JOBS]
        lease_s = float(said.get("lease_s") or 60.0)
        if not math.isfinite(lease_s) or not 0 < lease_s <= LONGEST_LEASE_S:
            raise UnreadableMessageError("a lease of that length is not given")
        beat = Beat(
            worker_id=_text(said["worker"]),
            pools=tuple(_text(pool) for pool in _listed(said.get("pools"))),
            concurrency=int(said.get("concurrency") or 1),
            running=len(jobs),
            host=None if said.get("host") is None else _text(said["host"]),
            release=None if said.get("release") is None else _text(said["release"]),
        )
    except UnreadableMessageError:
        raise
    except (KeyError, TypeError, ValueError, AttributeError, RecursionError) as problem:
        raise UnreadableMessageError(f"no heartbeat: {problem}") from problem
    return Heartbeat(beat, tuple(jobs), lease_s)


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _text(value: Any) -> str:
    if not isinstance(value, str) or not value or len(value) > 200:
        raise UnreadableMessageError("a name of a worker or pool is a short text")
    return value
