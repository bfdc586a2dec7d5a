"""Jobs whose pool has no queue: remembered, and published again as soon as the pool is there."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from services.ingest.consuming import Patience
from services.ingest.metrics import IngestMetrics
from shared.broker.port import Broker, Consumer, Delivery, Message
from shared.broker.topology import JOBS, jobs_queue
from shared.contracts.jobs import Job
from shared.contracts.messages import UnreadableMessageError, decode_job
from shared.errors import RejectedError, UnavailableError
from shared.runtime.logs import Log
from shared.store.encoding import checked_uuid
from shared.store.port import TAKEN_S, Store

LOOK_EVERY_S = 2.0
MOST_REMEMBERED = 20_000
CHUNK = 500

_log = Log("redrive.ingest.unrouted")


class Unrouted:
    """Takes batches of `redrive.v1.unrouted` and gives them up at once.

    A job's row is the truth: what is forgotten here, by a restart or because there is too much, is published again by
    the sweep when the queue of its pool is there and empty; what has begun or was published again is not published
    once more.
    """

    def __init__(self, store: Store, broker: Broker, patience: Patience, metrics: IngestMetrics) -> None:
        self._store = store
        self._broker = broker
        self._patience = patience
        self._metrics = metrics
        self._by_pool: dict[str, dict[str, Message]] = {}

    async def take(self, consumer: Consumer, deliveries: Sequence[Delivery]) -> None:
        """Remember the jobs of a batch."""
        for delivery in deliveries:
            try:
                self._remember(decode_job(delivery.body), delivery)
            except (UnreadableMessageError, RejectedError) as problem:
                self._metrics.unreadable.labels("unrouted").inc()
                _log.error("message_unreadable", message_id=delivery.message_id, reason=str(problem)[:300])
        await consumer.ack_up_to(deliveries[-1].tag)
        self._metrics.unrouted.set(self.count)

    @property
    def count(self) -> int:
        """Return how many jobs wait for their pools."""
        return sum(map(len, self._by_pool.values()))

    async def run(self, stop: asyncio.Event) -> None:
        """Look again and again whether pools have appeared, until stopped."""
        while not stop.is_set():
            try:
                await self.look()
            except (UnavailableError, RejectedError) as problem:
                _log.warning("look_failed", reason=str(problem)[:300])
            await self._patience.pause(LOOK_EVERY_S)

    async def look(self) -> int:
        """Publish the jobs whose pools are there now, and return how many they were."""
        if not self._by_pool:
            return 0
        there = await self._broker.stats([jobs_queue(pool) for pool in self._by_pool])
        count = 0
        for pool in [pool for pool in self._by_pool if jobs_queue(pool) in there]:
            published = await self._publish(list(self._by_pool[pool].values()))
            del self._by_pool[pool]
            count += published
            self._metrics.rerouted.inc(published)
            _log.info("pool_appeared", pool=pool, jobs=published)
        self._metrics.unrouted.set(self.count)
        return count

    async def _publish(self, messages: list[Message]) -> int:
        count = 0
        for start in range(0, len(messages), CHUNK):
            some = messages[start : start + CHUNK]
            mine = await self._store.take_queued([message.message_id for message in some], TAKEN_S)
            await self._broker.publish_many([message for message in some if message.message_id in mine])
            count += len(mine)
        return count

    def _remember(self, job: Job, delivery: Delivery) -> None:
        identity = checked_uuid(job.job_id, "job_id")
        waiting = self._by_pool.setdefault(job.pool, {})
        if not waiting:
            _log.warning("pool_without_queue", pool=job.pool, job_id=job.job_id, execution_id=job.execution_id)
        if self.count < MOST_REMEMBERED:
            # It was due when it arrived here: no way through the ladder again, and no headers of the way it came.
            waiting[identity] = Message(JOBS, job.pool, delivery.body, identity)
