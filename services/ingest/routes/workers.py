"""Who works, and what waits for them: workers by their signs of life, queues with their consumers."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query, Request, Response

from services.ingest import schemas, views
from services.ingest.auth import needs
from services.ingest.guard import GuardedRoute
from services.ingest.openapi import problems
from services.ingest.parts import Parts, parts_of
from shared.broker.port import QueueStats
from shared.broker.topology import DEAD, EVENTS, OUTCOMES, TIMERS, UNROUTED, jobs_queue
from shared.store.records import JobFilter

COUNTED = 1000
HEARD_WITHIN_S = 120.0

router = APIRouter(prefix="/api/v1", tags=["workers"], route_class=GuardedRoute)


@router.get("/workers", response_model=schemas.Workers, responses=problems())
@needs("read", "run")
async def list_workers(
    request: Request,
    silent: Annotated[float | None, Query(gt=0, le=1e8, description="Heard of within so many seconds.")] = None,
) -> Response:
    """Return the workers and when they were heard of."""
    found = await parts_of(request).store.workers(silent)
    return views.shown({"items": [views.worker(row) for row in found]})


@router.get("/queues", response_model=schemas.Queues, responses=problems())
@needs("read", "run")
async def list_queues(request: Request) -> Response:
    """Return the queues: what is ready, who consumes it, and how many jobs of a pool are not due yet."""
    parts = parts_of(request)
    heard = await parts.store.workers(HEARD_WITHIN_S)
    pools = sorted({*parts.settings.pools, *(pool for row in heard for pool in row.beat.pools)})
    names = {jobs_queue(pool): pool for pool in pools}
    shared = (EVENTS, OUTCOMES, TIMERS, DEAD, UNROUTED)
    stats = await parts.broker.stats([*shared, *names])
    items = [_queue(name, None, stats.get(name)) for name in shared]
    for name, pool in names.items():
        items.append({**_queue(name, pool, stats.get(name)), **await _delayed(parts, pool)})
    return views.shown({"items": items})


def _queue(name: str, pool: str | None, stats: QueueStats | None) -> dict[str, Any]:
    return {
        "name": name,
        "pool": pool,
        "exists": stats is not None,
        "ready": 0 if stats is None else stats.ready,
        "consumers": 0 if stats is None else stats.consumers,
        "delayed": None,
        "delayed_is_more": False,
    }


async def _delayed(parts: Parts, pool: str) -> dict[str, Any]:
    found = await parts.store.jobs(JobFilter("delayed", pool), COUNTED)
    return {"delayed": len(found.items), "delayed_is_more": found.cursor is not None}
