"""The application: endpoints, consumers beside them, and the order in which they begin and end."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from fastapi import FastAPI

from services.ingest import openapi, problems
from services.ingest.append import Append
from services.ingest.auth import Keys
from services.ingest.consuming import Feed, Patience, Publishing, wait_for
from services.ingest.dead import DeadLetters
from services.ingest.lending import Lending
from services.ingest.metrics import IngestMetrics
from services.ingest.middleware import Observed
from services.ingest.parts import Parts, Plans
from services.ingest.routes import (
    control,
    credentials,
    dead_letters,
    docs,
    events,
    executions,
    health,
    jobs,
    playbooks,
    queues,
    results,
    schema,
    simulate,
    timeline,
    workers,
)
from services.ingest.settings import Settings
from services.ingest.unrouted import Unrouted
from services.ingest.wake import Waker
from shared.broker.port import Broker
from shared.broker.topology import DEAD, OUTCOMES, UNROUTED, topology
from shared.errors import RedriveError
from shared.runtime.clock import Clock
from shared.runtime.logs import Log
from shared.runtime.telemetry import new_registry
from shared.store.port import Store

PREPARE_EVERY_S = 6 * 3600.0
FLUSH_S = 2.0
# Given as they are: a router that is included builds each of its routes once more.
ROUTES = [
    route
    for module in (
        playbooks,
        schema,
        executions,
        control,
        events,
        timeline,
        simulate,
        results,
        jobs,
        dead_letters,
        workers,
        queues,
        credentials,
        docs,
        health,
    )
    for route in module.router.routes
]

_log = Log("redrive.ingest")


def create_app(store: Store, broker: Broker, settings: Settings, clock: Clock) -> FastAPI:
    """Return ingest on a store and a broker; its consumers run as long as its lifespan."""
    metrics = IngestMetrics(new_registry())
    keys = Keys(settings.keys, is_open=settings.is_dev)
    plans = Plans(store)
    lending = Lending(store, plans.of, settings.keyring, clock)
    parts = Parts(store, broker, settings, clock, metrics, keys, Waker(broker, metrics), plans, lending)

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        async with running(parts):
            yield

    app = FastAPI(
        title=openapi.TITLE,
        version=openapi.VERSION,
        openapi_url="/api/v1/openapi.json",
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        routes=list(ROUTES),
        lifespan=lifespan,
    )
    app.state.parts = parts
    app.state.accesses = openapi.accesses_of(ROUTES)
    problems.install(app)
    openapi.install(app)
    app.add_middleware(Observed, metrics=metrics, clock=clock)
    return app


@asynccontextmanager
async def running(parts: Parts) -> AsyncIterator[None]:
    """Consume while the body runs; at the end finish the batches in hand and put back the rest."""
    stop = asyncio.Event()
    waking = asyncio.create_task(parts.waker.run(), name="waker")
    consuming = [asyncio.create_task(work) for work in _consumers(parts, stop)]
    for task in consuming:
        task.add_done_callback(_complain)
    _log.info("ingest_started", pools=parts.settings.pools, lanes=parts.settings.lanes)
    try:
        yield
    finally:
        parts.stopping.set()
        stop.set()
        await _within(parts.settings.stop_within_s, consuming)
        await _within(FLUSH_S, [asyncio.create_task(parts.waker.flushed())])
        await _cancelled([waking, *consuming])
        _log.info("ingest_stopped")


def _consumers(parts: Parts, stop: asyncio.Event) -> list[Any]:
    broker, settings, metrics = parts.broker, parts.settings, parts.metrics
    shape = topology(settings.pools)
    patience = Patience(parts.clock, stop)
    append = Append(parts.store, Publishing(broker, shape, patience), patience, parts.clock, metrics)
    dead = DeadLetters(parts.store, append, patience, metrics)
    unrouted = Unrouted(parts.store, broker, patience, metrics)

    async def declare() -> None:
        await broker.declare(shape)

    def feed(queue: str) -> Feed:
        return Feed(broker, queue, settings.batch, patience)

    return [
        *(feed(OUTCOMES).run(append.take, stop, declare) for _ in range(settings.lanes)),
        feed(DEAD).run(dead.take, stop, declare),
        feed(UNROUTED).run(unrouted.take, stop, declare),
        unrouted.run(stop),
        _prepare(parts, stop),
    ]


async def _prepare(parts: Parts, stop: asyncio.Event) -> None:
    """Make room for the months to come, again and again."""
    while not stop.is_set():
        try:
            await parts.store.prepare()
        except RedriveError as problem:
            _log.warning("prepare_failed", reason=str(problem)[:300])
        await wait_for(stop, parts.clock, PREPARE_EVERY_S)


def _complain(task: asyncio.Task[Any]) -> None:
    if not task.cancelled() and (problem := task.exception()) is not None:
        _log.error("consumer_broke", problem)


async def _within(seconds: float, tasks: list[asyncio.Task[Any]]) -> None:
    """Wait for tasks, but by the wall's clock not longer: a test's clock may stand still."""
    if tasks:
        await asyncio.wait(tasks, timeout=seconds)


async def _cancelled(tasks: list[asyncio.Task[Any]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks)
