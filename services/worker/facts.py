"""The two facts that a worker reports of a job: it began, it ended."""

from __future__ import annotations

from datetime import datetime

from shared.contracts.events import Event
from shared.contracts.ids import fact_id
from shared.contracts.jobs import Job
from shared.contracts.outcomes import Outcome
from shared.contracts.payloads import TaskProcessed, TaskStarted


def started(job: Job, worker: str, deliveries: int, at: datetime, lease_until: datetime | None = None) -> Event:
    """Return the fact that an attempt began; with a lease it is a fact of its own: the first may be stored already."""
    attempt = job.address.attempt or 1
    said = TaskStarted(
        job_id=job.job_id,
        worker=worker,
        delivery_count=deliveries,
        retry={"attempt": attempt, "max_attempts": job.max_attempts, "is_retry": attempt > 1},
        lease_until=lease_until.isoformat() if lease_until else None,
    )
    kind = "started" if lease_until is None else "leased"
    identity = fact_id(job.job_id, kind)
    return Event(job.execution_id, said, job.address, event_id=identity, occurred_at=at, source=f"worker:{worker}")


def processed(job: Job, worker: str, outcome: Outcome, deliveries: int, at: datetime) -> Event:
    """Return the fact that an attempt ended with this outcome."""
    return Event(
        job.execution_id,
        TaskProcessed(job.job_id, outcome.as_json()),
        job.address,
        event_id=fact_id(job.job_id, "processed"),
        occurred_at=at,
        source=f"worker:{worker}",
        meta={"queue_meta": {"job_id": job.job_id, "worker_id": worker, "delivery_count": deliveries}},
    )
