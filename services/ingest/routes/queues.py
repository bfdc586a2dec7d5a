"""What waits for whom: every pool with its work and its workers, and the queues of the services themselves."""

from __future__ import annotations

from collections import Counter
from typing import Any

from fastapi import Request, Response

from services.ingest import schemas, views
from services.ingest.auth import needs
from services.ingest.guard import guarded_router
from services.ingest.openapi import problems
from services.ingest.parts import parts_of
from shared.broker.port import QueueStats
from shared.broker.topology import DEAD, EVENTS, OUTCOMES, TIMERS, TIMERS_POOL, UNROUTED, jobs_queue
from shared.store.records import PoolLoad

HEARD_WITHIN_S = 120.0
INTERNAL = (EVENTS, OUTCOMES, TIMERS, DEAD, UNROUTED)

router = guarded_router("workers", "/api/v1")


@router.get("/queues", response_model=schemas.Queues, responses=problems())
@needs("read", "run")
async def list_queues(request: Request) -> Response:
    """Return the queues; a pool with work and no consumer is there too, though nobody serves it."""
    parts = parts_of(request)
    heard = await parts.store.workers(HEARD_WITHIN_S)
    workers = Counter(pool for row in heard for pool in set(row.beat.pools))
    loads = {load.pool: load for load in await parts.store.pool_loads() if load.pool != TIMERS_POOL}
    pools = sorted({*parts.settings.pools, *workers, *loads})
    stats = await parts.broker.stats([*INTERNAL, *map(jobs_queue, pools)])
    items = [_queue(name, stats.get(name)) for name in INTERNAL]
    for pool in pools:
        items.append(_pool(pool, stats.get(jobs_queue(pool)), loads.get(pool), workers[pool]))
    return views.shown({"items": items})


def _queue(name: str, stats: QueueStats | None) -> dict[str, Any]:
    return {
        "name": name,
        "pool": None,
        "exists": stats is not None,
        "served": stats is not None and stats.consumers > 0,
        "ready": 0 if stats is None else stats.ready,
        "consumers": 0 if stats is None else stats.consumers,
        "waiting": None,
        "unrouted": None,
        "delayed": None,
        "leased": None,
        "workers": None,
        "oldest_due": None,
    }


def _pool(pool: str, stats: QueueStats | None, load: PoolLoad | None, workers: int) -> dict[str, Any]:
    load = load or PoolLoad(pool, 0, 0, 0)
    return {
        **_queue(jobs_queue(pool), stats),
        "pool": pool,
        "waiting": load.waiting,
        "unrouted": load.waiting if stats is None else 0,
        "delayed": load.delayed,
        "leased": load.leased,
        "workers": workers,
        "oldest_due": views.time_text(load.oldest_due),
    }
