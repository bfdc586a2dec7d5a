"""Ingest in one process with everything around it that a test needs: clients with keys, and a decider to play with."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import httpx
from fastapi import FastAPI

from services.ingest.app import create_app
from services.ingest.auth import parse_keys
from services.ingest.parts import Parts
from services.ingest.settings import Settings
from services.orchestrator.handler import Handler
from services.orchestrator.publish import Publisher
from shared.broker.memory import MemoryBroker
from shared.broker.port import Delivery
from shared.broker.topology import EVENTS, topology
from shared.contracts.messages import decode_wake
from shared.runtime.clock import ManualClock
from shared.store.memory.store import MemoryStore

SECRETS = {scope: f"{scope}-secret-of-the-tests" for scope in ("read", "run", "admin", "worker")}
KEYS = tuple(parse_keys("\n".join(f"{scope}er:{scope}:{secret}" for scope, secret in SECRETS.items())).keys)
NOOP = "metadata: {name: greet, path: tests/greet}\nworkflow:\n  - step: greet\n    tool: {kind: noop}\n"
RETRIED = """\
metadata: {name: fetch, path: tests/fetch}
workload: {url: "http://api", options: {size: 10, deep: true}}
workflow:
  - step: fetch
    tool: http
    url: "{{ workload.url }}"
    retry: {max_attempts: 3, initial_delay: 1, jitter: false}
"""
NOBODY = "00000000-0000-7000-8000-000000000000"


@dataclass(slots=True)
class Service:
    """Ingest, and what stands around it."""

    app: FastAPI
    store: MemoryStore
    broker: MemoryBroker
    clock: ManualClock
    handler: Handler

    @property
    def parts(self) -> Parts:
        """Return the parts of the application."""
        parts: Parts = self.app.state.parts
        return parts

    def client(self, scope: str | None = "admin") -> httpx.AsyncClient:
        """Return a client with the key of a scope, or with none."""
        headers = {} if scope is None else {"Authorization": f"Bearer {SECRETS[scope]}"}
        transport = httpx.ASGITransport(self.app, raise_app_exceptions=False)
        return httpx.AsyncClient(transport=transport, base_url="http://ingest", headers=headers)

    async def started(self, source: str = NOOP, **more: Any) -> str:
        """Start an execution of a playbook and return its id; nothing is decided yet."""
        async with self.client() as client:
            answer = await client.post("/api/v1/executions", json={"playbook": source, **more})
            assert answer.status_code == 202, answer.text
            execution_id: str = answer.json()["execution_id"]
            return execution_id

    async def decide(self, *executions: str) -> None:
        """Have everything decided that can be."""
        await self.handler.handle(executions)

    async def finished(self, source: str = NOOP, **more: Any) -> str:
        """Run a playbook whose only task is `greet` to its end."""
        execution_id = await self.started(source, **more)
        await self.decide(execution_id)
        await self.report(execution_id, "greet~1.greet#1", status="success", result={"hello": "world"})
        return execution_id

    async def report(self, execution_id: str, node: str, **more: Any) -> httpx.Response:
        """Report how a task ended, and have it decided what follows."""
        event = {"type": "task.processed", "execution_id": execution_id, "node": node, **more}
        async with self.client("worker") as client:
            answer = await client.post("/api/v1/events", json=event)
        assert answer.status_code == 202, answer.text
        await self.decide(execution_id)
        return answer

    async def woken(self) -> set[str]:
        """Return, and forget, which executions were woken."""
        await self.parts.waker.flushed()
        return {name for each in await self.taken(EVENTS) for name in decode_wake(each.body).executions}

    async def taken(self, queue: str) -> list[Delivery]:
        """Take everything out of a queue."""
        consumer = await self.broker.consume(queue, 10_000)
        found = await consumer.receive(10_000, 0)
        await consumer.ack([each.tag for each in found])
        await consumer.close()
        return found


def made(clock: ManualClock, settings: Settings) -> Service:
    """Return the service, without its consumers."""
    store, broker = MemoryStore(clock.now), MemoryBroker(clock)
    app = create_app(store, broker, settings, clock)
    return Service(app, store, broker, clock, Handler(store, Publisher(broker, store)))


@asynccontextmanager
async def serving(**changes: Any) -> AsyncIterator[Service]:
    """Give the service with its consumers at work."""
    service = made(ManualClock(), Settings(**{"keys": KEYS, "lanes": 1, **changes}))
    await service.broker.declare(topology(service.parts.settings.pools))
    async with service.app.router.lifespan_context(service.app):
        yield service
    await service.broker.close()
