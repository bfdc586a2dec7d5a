"""Every message delivered twice: each fact counts once, each decision is taken once."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from typing import Any

import httpx
import pytest
from typing_extensions import override

from services.ingest import __main__ as ingest
from services.ingest.settings import read_settings as ingest_settings
from services.orchestrator import __main__ as orchestrator
from services.orchestrator.settings import settings_from as orchestrator_settings
from services.worker import __main__ as worker
from services.worker.settings import read_settings as worker_settings
from services.worker.values import HttpValues
from shared.broker.port import Broker, Consumer, Message, QueueStats
from shared.broker.rabbit import RabbitBroker
from shared.broker.rabbit_link import RabbitSettings
from shared.broker.topology import Topology
from shared.runtime.clock import SystemClock
from shared.store.postgres.store import PostgresStore
from tests.fault.test_crashes import PLAYBOOK, expected, story
from tests.support.eventually import eventually
from tests.support.system import KEY, System, without_gaps

pytestmark = pytest.mark.timeout(240)


class DoublingBroker(Broker):
    """A broker on which everything that is published arrives twice."""

    def __init__(self, inner: Broker) -> None:
        self._inner = inner

    @override
    async def declare(self, topology: Topology) -> None:
        await self._inner.declare(topology)

    @override
    async def publish_many(self, messages: Sequence[Message]) -> list[Message]:
        return await self._inner.publish_many([message for message in messages for _ in range(2)])

    @override
    async def consume(self, queue: str, prefetch: int) -> Consumer:
        return await self._inner.consume(queue, prefetch)

    @override
    async def stats(self, queues: Iterable[str]) -> dict[str, QueueStats]:
        return await self._inner.stats(queues)

    @override
    async def purge(self, queue: str) -> int:
        return await self._inner.purge(queue)

    @override
    async def incarnation(self) -> str | None:
        return await self._inner.incarnation()

    @override
    async def mark_incarnation(self, mark: str) -> None:
        await self._inner.mark_incarnation(mark)

    @property
    @override
    def is_blocked(self) -> bool:
        return self._inner.is_blocked

    @override
    async def close(self) -> None:
        await self._inner.close()


async def test_every_message_delivered_twice_changes_nothing(system: System) -> None:
    stop, clock = asyncio.Event(), SystemClock()
    store = PostgresStore.connect(system.database_url)
    brokers = [DoublingBroker(await RabbitBroker.connect(RabbitSettings(system.rabbit.url))) for _ in range(4)]
    told = ingest_settings(system.environment("ingest"))
    deciding = orchestrator_settings(system.environment("orchestrator"))
    working = [worker_settings(system.environment("worker", REDRIVE_WORKER_NAME=f"w{n}")) for n in range(2)]
    values = [HttpValues(item.ingest_url, item.token) for item in working]
    services = [
        asyncio.create_task(ingest.listen(told, store, brokers[0], stop)),
        asyncio.create_task(orchestrator.orchestrate(deciding, store, brokers[1], clock, stop)),
        *(
            asyncio.create_task(worker.work(settings, broker, value, clock, stop))
            for settings, broker, value in zip(working, brokers[2:], values, strict=True)
        ),
    ]
    headers = {"Authorization": f"Bearer {KEY}"}
    async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{system.port}", headers=headers) as client:
        execution = await _submitted(client)

        async def ended() -> bool:
            assert not any(service.done() for service in services), [s for s in services if s.done()]
            found = (await client.get(f"/api/v1/executions/{execution}")).json()
            return found["status"] in ("completed", "failed", "cancelled")

        await eventually(ended, 90)
        answer = await client.get(f"/api/v1/executions/{execution}/events", params={"limit": 1000})
        events: list[dict[str, Any]] = answer.json()["items"]
    stop.set()
    await asyncio.wait_for(asyncio.gather(*services), 60)
    await asyncio.gather(*(item.close() for item in brokers), *(item.close() for item in values), store.close())

    assert without_gaps(events)
    assert story(events) == expected()


async def _submitted(client: httpx.AsyncClient) -> str:
    async def accepted() -> str:
        try:
            answer = await client.post("/api/v1/executions", json={"playbook": PLAYBOOK, "workload": {}})
        except httpx.TransportError:
            return ""
        return str(answer.json()["execution_id"]) if answer.status_code == 202 else ""

    return await eventually(accepted, 60)
