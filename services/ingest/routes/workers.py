"""Who works: workers by their signs of life."""

from __future__ import annotations

from typing import Annotated

from fastapi import Query, Request, Response

from services.ingest import schemas, views
from services.ingest.auth import needs
from services.ingest.guard import guarded_router
from services.ingest.openapi import problems
from services.ingest.parts import parts_of

router = guarded_router("workers", "/api/v1")


@router.get("/workers", response_model=schemas.Workers, responses=problems())
@needs("read", "run")
async def list_workers(
    request: Request,
    silent: Annotated[float | None, Query(gt=0, le=1e8, description="Heard of within so many seconds.")] = None,
) -> Response:
    """Return the workers and when they were heard of."""
    found = await parts_of(request).store.workers(silent)
    return views.shown({"items": [views.worker(row) for row in found]})
