"""Executions: started, listed, looked at, waited for."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any, Literal

from fastapi import Query, Request, Response

from services.ingest import schemas, views
from services.ingest.auth import needs
from services.ingest.consuming import wait_for
from services.ingest.guard import guarded_router
from services.ingest.models import BatchRequest, ExecutionRequest, Time
from services.ingest.openapi import problems
from services.ingest.parts import Parts, parts_of, principal_of
from services.ingest.problems import ErrorItem, Problem, invalid
from services.ingest.routes.paging import Cursor, ExecutionId, KeyHeader, Limit, Text, execution_of
from services.ingest.submit import Accepted, Submission, submit
from shared.store.records import OVER, ExecutionFilter, ExecutionRow

FIRST_LOOK_S = 0.02
_ENDED = "It ended while it was waited for."

router = guarded_router("executions", "/api/v1")

Status = Literal["new", "running", "paused", "completed", "failed", "cancelled"]
Wait = Annotated[float, Query(ge=0, le=300, description="Seconds to wait for the end.")]
Label = Annotated[
    str, Query(pattern=r"^[A-Za-z0-9_][A-Za-z0-9_./-]*=[^\x00-\x1f\x7f]*$", max_length=400, description="name=value")
]


@router.post(
    "/executions",
    status_code=202,
    response_model=schemas.Accepted,
    responses=problems(404, 409, 413, 415, also={200: {"model": schemas.ExecutionInFull, "description": _ENDED}}),
)
@needs("run")
async def start_execution(
    request: Request, wanted: ExecutionRequest, wait: Wait = 0, key: KeyHeader = None
) -> Response:
    """Start an execution; with `wait`, answer with its end if that comes in time."""
    parts = parts_of(request)
    submission = Submission(wanted, _one_key(wanted.idempotency_key, key))
    (accepted,) = await submit(parts, [submission], principal_of(request))
    if accepted.conflict is not None:
        raise _conflict([accepted.conflict], execution_id=accepted.execution_id)
    headers = {"Location": f"/api/v1/executions/{accepted.execution_id}"}
    row = await _ended(parts, accepted.execution_id, wait) if wait > 0 else None
    if row is not None and row.status in OVER:
        return views.shown(await _in_full(parts, row), 200, headers)
    return views.shown(_accepted(accepted, row.status if row is not None else "new"), 202, headers)


@router.post(
    "/executions:batch",
    status_code=202,
    response_model=schemas.AcceptedBatch,
    responses=problems(404, 409, 413, 415),
)
@needs("run")
async def start_executions(request: Request, wanted: BatchRequest, key: KeyHeader = None) -> Response:
    """Start many executions, all or none."""
    submissions = [
        Submission(item, item.idempotency_key or (f"{key}/{number}" if key else None), f"executions.{number}")
        for number, item in enumerate(wanted.executions)
    ]
    accepted = await submit(parts_of(request), submissions, principal_of(request))
    items = [_accepted(item, "new") for item in accepted]
    if conflicts := [item.conflict for item in accepted if item.conflict is not None]:
        raise _conflict(conflicts, items=items)
    return views.shown({"items": items}, 202)


@router.get("/executions", response_model=schemas.ExecutionPage, responses=problems())
@needs("read", "run")
async def list_executions(
    request: Request,
    status: Status | None = None,
    path: Text = None,
    label: Annotated[list[Label], Query()] = [],  # noqa: B006
    since: Time | None = None,
    q: Text = None,
    limit: Limit = 100,
    cursor: Cursor = None,
) -> Response:
    """Return executions, the newest first; `q` is looked for in path, failure and id."""
    labels = dict(item.split("=", 1) for item in label)
    wanted = ExecutionFilter(status, path, labels, since, q or None)
    found = await parts_of(request).store.executions(wanted, limit, cursor)
    return views.shown(views.page(found, map(views.execution, found.items)))


@router.get("/executions/{execution_id:uuid}", response_model=schemas.ExecutionInFull, responses=problems(404))
@needs("read", "run")
async def show_execution(request: Request, execution_id: ExecutionId, wait: Wait = 0) -> Response:
    """Return an execution with its result, loops and attempts; with `wait`, when it ended or the time is up."""
    parts = parts_of(request)
    row = await execution_of(request, execution_id)
    if wait > 0 and row.status not in OVER:
        row = await _ended(parts, row.execution_id, wait) or row
    return views.shown(await _in_full(parts, row))


async def _ended(parts: Parts, execution_id: str, wait_s: float) -> ExecutionRow | None:
    """Return an execution when it is over, or as it is when the time is up or the service stops."""
    deadline = parts.clock.monotonic() + wait_s
    pause = FIRST_LOOK_S
    while True:
        row = await parts.store.execution(execution_id)
        left = deadline - parts.clock.monotonic()
        if row is None or row.status in OVER or left <= 0 or parts.stopping.is_set():
            return row
        await wait_for(parts.stopping, parts.clock, min(pause, left))
        pause = min(pause * 1.5, parts.settings.poll_s)


async def _in_full(parts: Parts, row: ExecutionRow) -> dict[str, Any]:
    loops, retries = await asyncio.gather(
        parts.store.iterators(row.execution_id), parts.store.retries(row.execution_id)
    )
    return views.execution_in_full(row, loops, retries)


def _accepted(item: Accepted, status: str) -> dict[str, Any]:
    return {
        "execution_id": item.execution_id,
        "existed": item.existed,
        "path": item.path,
        "playbook_version": item.version,
        "status": status,
    }


def _one_key(in_body: str | None, in_header: str | None) -> str | None:
    if in_body is not None and in_header is not None and in_body != in_header:
        raise invalid("idempotency_key", "it differs from the header Idempotency-Key")
    return in_body or in_header


def _conflict(conflicts: list[ErrorItem], **members: Any) -> Problem:
    return Problem(409, conflicts[0].message, errors=conflicts, **members)
