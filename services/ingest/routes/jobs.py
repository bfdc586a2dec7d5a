"""Jobs as they stand: waiting, delayed, leased, done; those that wait are hurried, re-timed, cancelled."""

from __future__ import annotations

from datetime import timedelta
from typing import Any, Literal
from uuid import UUID

from fastapi import Request, Response

from services.ingest import schemas, views
from services.ingest.auth import needs
from services.ingest.guard import guarded_router
from services.ingest.models import MAX_DELAY_S, ControlRequest, Identity, RescheduleRequest
from services.ingest.openapi import problems
from services.ingest.parts import parts_of, principal_of
from services.ingest.problems import invalid, not_found
from services.ingest.retiming import cancel, reschedule
from services.ingest.routes.paging import Cursor, Limit, Text
from shared.store.records import JobFilter, JobRow

router = guarded_router("jobs", "/api/v1/jobs")

_CHANGED: dict[str, Any] = {
    "status_code": 202,
    "response_model": schemas.Job,
    "responses": problems(404, 409, 413, 415),
}

State = Literal["queued", "delayed", "leased", "completed", "dead", "cancelled"]


@router.get("", response_model=schemas.JobPage, responses=problems())
@needs("read", "run")
async def list_jobs(
    request: Request,
    state: State | None = None,
    pool: Text = None,
    execution_id: Identity | None = None,
    limit: Limit = 100,
    cursor: Cursor = None,
) -> Response:
    """Return jobs by the time they are or were due."""
    found = await parts_of(request).store.jobs(JobFilter(state, pool or None, execution_id), limit, cursor)
    return views.shown(views.page(found, map(views.job, found.items)))


@router.get("/{job_id:uuid}", response_model=schemas.Job, responses=problems(404))
@needs("read", "run")
async def show_job(request: Request, job_id: UUID) -> Response:
    """Return a job."""
    return views.shown(views.job(await _found(request, job_id)))


@router.post("/{job_id:uuid}:run-now", **_CHANGED)
@needs("run")
async def run_job_now(request: Request, job_id: UUID, wanted: ControlRequest | None = None) -> Response:
    """Have a job that waits run at once."""
    return await _rescheduled(request, job_id, wanted or ControlRequest())


@router.post("/{job_id:uuid}:reschedule", **_CHANGED)
@needs("run")
async def reschedule_job(request: Request, job_id: UUID, wanted: RescheduleRequest) -> Response:
    """Give a job that waits another time, sooner or later."""
    return await _rescheduled(request, job_id, wanted)


@router.post("/{job_id:uuid}:cancel", **_CHANGED)
@needs("run")
async def cancel_job(request: Request, job_id: UUID, wanted: ControlRequest | None = None) -> Response:
    """End a job that waits with the outcome `cancelled`, which the rules of its task judge."""
    row = await _found(request, job_id)
    reason = wanted.reason if wanted is not None else None
    changed = await cancel(parts_of(request), row, principal_of(request).name, reason)
    return views.shown(views.job(changed), 202)


async def _rescheduled(request: Request, job_id: UUID, wanted: ControlRequest) -> Response:
    parts, row = parts_of(request), await _found(request, job_id)
    at = None
    if isinstance(wanted, RescheduleRequest):
        now = await parts.store.now()
        at = wanted.available_at or now + timedelta(seconds=wanted.delay_s or 0.0)
        if (at - now).total_seconds() > MAX_DELAY_S:
            raise invalid("available_at", "it is more than a year away")
    changed = await reschedule(parts, row, at, principal_of(request).name, wanted.reason)
    return views.shown(views.job(changed), 202)


async def _found(request: Request, job_id: UUID) -> JobRow:
    row = await parts_of(request).store.job(str(job_id))
    if row is None:
        raise not_found(f"job '{job_id}'")
    return row
