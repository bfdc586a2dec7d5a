"""Whether the process lives, whether it can serve, and what it counted; for everybody."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from fastapi import Request, Response

from services.ingest import schemas
from services.ingest.guard import guarded_router
from services.ingest.parts import Parts, parts_of
from services.ingest.views import shown
from shared.broker.topology import OUTCOMES
from shared.runtime.telemetry import exposition

CHECK_WITHIN_S = 3.0

router = guarded_router("health")


@router.get("/healthz", response_model=schemas.Health)
async def show_health() -> Response:
    """Say that the process lives."""
    return shown({"status": "ok"})


@router.get("/readyz", response_model=schemas.Readiness, responses={503: {"model": schemas.Readiness}})
async def show_readiness(request: Request) -> Response:
    """Say whether requests can be served, with each dependency named."""
    parts = parts_of(request)
    found = dict(
        zip(
            ("database", "broker", "service"),
            await asyncio.gather(
                _looked(lambda: parts.store.ping()), _looked(lambda: _broker(parts)), _looked(lambda: _service(parts))
            ),
            strict=True,
        )
    )
    well = not any(found.values())
    body = {"status": "ready" if well else "not ready", "checks": {key: text or "ok" for key, text in found.items()}}
    return shown(body, 200 if well else 503)


@router.get("/metrics", response_class=Response, responses={200: {"content": {"text/plain": {}}}})
async def show_metrics(request: Request) -> Response:
    """Return what was counted, for Prometheus."""
    body, content_type = exposition(parts_of(request).metrics.registry)
    return Response(body, headers={"Content-Type": content_type})


async def _broker(parts: Parts) -> None:
    if parts.broker.is_blocked:
        raise RuntimeError("it asked publishers to wait")
    if OUTCOMES not in await parts.broker.stats([OUTCOMES]):
        raise RuntimeError("its queues are not declared")


async def _service(parts: Parts) -> None:
    if parts.stopping.is_set():
        raise RuntimeError("stopping")


async def _looked(check: Callable[[], Awaitable[None]]) -> str | None:
    try:
        async with asyncio.timeout(CHECK_WITHIN_S):
            await check()
    except TimeoutError:
        return "no answer in time"
    except Exception as problem:
        return str(problem)[:200] or type(problem).__name__
    return None
