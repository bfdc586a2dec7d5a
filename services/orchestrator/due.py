"""Jobs that waited long and are due now: handed on to their pools, unless their time was changed meanwhile."""

from __future__ import annotations

from collections.abc import Sequence

from shared.broker.job_messages import due_message
from shared.broker.port import Broker
from shared.contracts.jobs import Job
from shared.runtime.logs import Log
from shared.store.port import Store

log = Log("redrive.orchestrator.due")


class Due:
    """Looks up each job that arrives: only the message that its row speaks of goes on."""

    def __init__(self, store: Store, broker: Broker) -> None:
        self._store = store
        self._broker = broker

    async def forward(self, jobs: Sequence[Job]) -> int:
        """Publish jobs that are still to run at this time, and return how many they were."""
        if not jobs:
            return 0
        rows = {row.job_id: row for row in await self._store.queued_jobs({job.job_id for job in jobs})}
        current = {
            job.job_id: job for job in jobs if job.job_id in rows and rows[job.job_id].available_at == job.available_at
        }
        if len(current) < len(jobs):
            log.info("copies_dropped", count=len(jobs) - len(current))
        await self._broker.publish_many([due_message(job) for job in current.values()])
        return len(current)
