"""Work that waits: hurried, given another time, or cancelled, as long as no worker can have it in hand."""

from __future__ import annotations

from datetime import datetime

from services.ingest.facts import accept_facts
from services.ingest.parts import Parts
from services.ingest.problems import Problem
from shared.broker.job_messages import LONG_WAIT_S, is_looked_at, is_publishable, job_message
from shared.contracts.events import Event
from shared.contracts.ids import derived, fact_id, parse_node
from shared.contracts.jobs import job_from_json
from shared.contracts.outcomes import failure
from shared.contracts.payloads import JobRescheduled, Payload, TaskProcessed
from shared.store.records import JobRow

# What is due within this time is on its way to a worker already.
MARGIN_S = 1.0


async def reschedule(parts: Parts, row: JobRow, at: datetime | None, by: str, reason: str | None) -> JobRow:
    """Give a job that waits another time, now unless one is named, and return it; raise the problem if it cannot."""
    now = await parts.store.now()
    _check(row, now, has_time=True)
    when = now if at is None else max(at, now)
    changed = await parts.store.retime(row.job_id, when, MARGIN_S)
    if changed is None:
        raise Problem(409, "the job has become due meanwhile", job_status=row.status)
    was = None if row.available_at is None else row.available_at.isoformat()
    said = JobRescheduled(row.job_id, when.isoformat(), was, by, reason)
    await _tell(parts, row, said, derived("fact", row.job_id, "rescheduled", now.isoformat()), by)
    job = job_from_json(changed.message)
    if is_publishable(job):
        await parts.broker.publish_many([job_message(job, job.delay_s)])
        await parts.store.mark_published([row.job_id])
    return await parts.store.job(row.job_id) or changed


async def cancel(parts: Parts, row: JobRow, by: str, reason: str | None) -> JobRow:
    """End a job that waits with an outcome that the rules see, and return it; raise the problem if it cannot be."""
    _check(row, await parts.store.now(), has_time=False)
    outcome = failure("cancelled", f"cancelled by {by}{f': {reason}' if reason else ''}")
    await _tell(parts, row, TaskProcessed(row.job_id, outcome.as_json()), fact_id(row.job_id, "processed"), by)
    # It is over as soon as that is decided; until then no message about it counts.
    return await parts.store.retime(row.job_id, None, 0.0) or row


def _check(row: JobRow, now: datetime, *, has_time: bool) -> None:
    """Raise the problem of a job that nobody can reach any more, or that has no time to change."""
    if row.role == "timer":
        raise Problem(409, "the job is a timer of the orchestrator, not work that waits", job_status=row.status)
    if row.status != "queued":
        raise Problem(409, f"the job is {row.status}; only one that waits can be changed", job_status=row.status)
    if row.available_at is None:
        if has_time:
            raise Problem(409, "the job has no time: it waits for a signal", job_status=row.status)
        return
    if (row.available_at - now).total_seconds() <= MARGIN_S:
        raise Problem(409, "the job is due: a worker may have it in hand already", job_status=row.status)
    if row.published_at is not None and not is_looked_at(job_from_json(row.message)):
        detail = f"the job waits for less than {LONG_WAIT_S:g} s and is on its way to a worker already"
        raise Problem(409, detail, job_status=row.status)


async def _tell(parts: Parts, row: JobRow, said: Payload, identity: str, by: str) -> None:
    fact = Event(
        execution_id=row.execution_id,
        payload=said,
        address=parse_node(row.node),
        event_id=identity,
        occurred_at=parts.clock.now(),
        source=f"api:{by}",
    )
    await accept_facts(parts.store, [fact], parts.metrics)
    parts.waker.wake([row.execution_id])
