"""Jobs as they stand: waiting, delayed, leased, done."""

from __future__ import annotations

from typing import Literal
from uuid import UUID

from fastapi import APIRouter, Request, Response

from services.ingest import schemas, views
from services.ingest.auth import needs
from services.ingest.guard import GuardedRoute
from services.ingest.models import Identity
from services.ingest.openapi import problems
from services.ingest.parts import parts_of
from services.ingest.problems import not_found
from services.ingest.routes.paging import Cursor, Limit, Text
from shared.store.records import JobFilter

router = APIRouter(prefix="/api/v1/jobs", tags=["jobs"], route_class=GuardedRoute)

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
    row = await parts_of(request).store.job(str(job_id))
    if row is None:
        raise not_found(f"job '{job_id}'")
    return views.shown(views.job(row))
