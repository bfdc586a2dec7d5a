"""An execution in time: its steps, and of each attempt how long it waited, lay in a queue and ran."""

from __future__ import annotations

from typing import Any

from fastapi import Request, Response

from services.ingest import schemas_operations as schemas
from services.ingest import views
from services.ingest.auth import needs
from services.ingest.guard import guarded_router
from services.ingest.log import read_log
from services.ingest.openapi import problems
from services.ingest.parts import parts_of
from services.ingest.routes.paging import ExecutionId, Text, execution_of
from shared.engine.timeline import TYPES, AttemptSpan, timeline

MOST_EVENTS = 20_000

router = guarded_router("executions", "/api/v1/executions")


@router.get("/{execution_id:uuid}/timeline", response_model=schemas.Timeline, responses=problems(404))
@needs("read", "run")
async def show_timeline(request: Request, execution_id: ExecutionId, step: Text = None) -> Response:
    """Return attempts and waits as intervals; with a step, only what happened in its runs."""
    row = await execution_of(request, execution_id)
    log, is_cut = await read_log(parts_of(request).store, row.execution_id, MOST_EVENTS, step=step or None, types=TYPES)
    found = timeline(log)
    steps = [
        {
            "node": item.node,
            "step": item.step,
            "status": item.status,
            "start": views.time_text(item.start),
            "end": views.time_text(item.end),
        }
        for item in found.steps
    ]
    answer = {
        "execution_id": row.execution_id,
        "status": row.status,
        "start": views.time_text(row.started_at),
        "end": views.time_text(row.finished_at),
        "steps": steps,
        "attempts": [_attempt(item) for item in found.attempts],
        "truncated": is_cut,
    }
    return views.shown(answer)


def _attempt(found: AttemptSpan) -> dict[str, Any]:
    address = found.address
    intervals = [
        {"kind": item.kind, "start": views.time_text(item.start), "end": views.time_text(item.end)}
        for item in found.intervals
    ]
    return {
        "node": address.node,
        "step": address.step,
        "iteration": address.iteration,
        "task": address.task,
        "attempt": address.attempt,
        "job_id": found.job_id,
        "status": found.status,
        "pool": found.pool,
        "worker": found.worker,
        "error": found.error,
        "unserved": found.unserved,
        "intervals": intervals,
    }
