"""The worker as a process of its own, on a real RabbitMQ: started, stopped, killed where it hurts."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

import httpx
import pytest

from shared.broker.port import Consumer, Message
from shared.broker.rabbit import RabbitBroker
from shared.broker.rabbit_link import RabbitSettings
from shared.broker.topology import JOBS, OUTCOMES, jobs_queue, topology
from shared.contracts.events import Event
from shared.contracts.ids import Address, fact_id, job_id
from shared.contracts.jobs import Job
from shared.contracts.messages import decode_facts, encode_job
from shared.contracts.payloads import TaskStarted
from shared.runtime.embedded_rabbit import free_ports
from tests.support import rabbit
from tests.support.eventually import eventually
from tests.support.repository import ROOT

CRASH_POINTS = ("worker.after_receive", "worker.after_run", "worker.before_ack", "worker.after_ack")


@dataclass
class Stage:
    """A pool of this test alone, and what is said of its jobs."""

    broker: RabbitBroker
    ingest: Consumer
    pool: str
    heard: dict[str, Event]

    @asynccontextmanager
    async def worker(self, **environment: str) -> AsyncIterator[Process]:
        given = {
            "PATH": os.environ["PATH"],
            "REDRIVE_AMQP_URL": rabbit.shared_node().url,
            "REDRIVE_INGEST_URL": "http://127.0.0.1:9",
            "REDRIVE_WORKER_TOKEN": "a-token-of-this-test",
            "REDRIVE_POOLS": self.pool,
            "REDRIVE_HEALTH_PORT": "0",
            "REDRIVE_HEALTH_HOST": "127.0.0.1",
            **environment,
        }
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "services.worker", cwd=ROOT, env=given, stdin=DEVNULL, stderr=PIPE
        )
        try:
            yield process
        finally:
            if process.returncode is None:
                process.kill()
            await process.communicate()

    async def send(self, count: int, kind: str = "noop", **more: object) -> list[Job]:
        jobs = [self._job(number, kind, more) for number in range(count)]
        assert await self.broker.publish_many([Message(JOBS, self.pool, encode_job(j), j.job_id) for j in jobs]) == []
        return jobs

    def _job(self, number: int, kind: str, config: dict[str, object]) -> Job:
        address = Address("fetch", iteration=number, task="get", attempt=1)
        return Job(job_id(self.pool, address), self.pool, address, kind, config, pool=self.pool)

    async def facts_of(self, jobs: list[Job]) -> list[Event]:
        """Return the facts of these jobs, as soon as all of them ended."""
        return await self.hear(*[fact_id(job.job_id, kind) for job in jobs for kind in ("started", "processed")])

    async def hear(self, *wanted: str) -> list[Event]:
        """Return these facts, as soon as all of them were said."""

        async def all_heard() -> bool:
            deliveries = await self.ingest.receive(1000, 0.05)
            for delivery in deliveries:
                if delivery.routing_key == "facts":
                    self.heard.update({fact.identity: fact for fact in decode_facts(delivery.body)})
            await self.ingest.ack([delivery.tag for delivery in deliveries])
            return set(wanted) <= set(self.heard)

        await eventually(all_heard, 60)
        return [self.heard[identity] for identity in wanted]

    async def is_drained(self) -> bool:
        """Say whether nothing of the pool is left, nor held by anybody: a consumer of ours gets nothing."""
        stats = (await self.broker.stats([jobs_queue(self.pool)]))[jobs_queue(self.pool)]
        return (stats.ready, stats.consumers) == (0, 0)


@pytest.fixture
async def stage() -> AsyncIterator[Stage]:
    broker = await RabbitBroker.connect(RabbitSettings(rabbit.shared_node().url))
    pool = f"p{uuid4().hex[:8]}"
    await broker.declare(topology([pool]))
    yield Stage(broker, await broker.consume(OUTCOMES, 1000), pool, {})
    await broker.close()


async def test_a_worker_works_until_it_is_asked_to_stop(stage: Stage) -> None:
    async with stage.worker() as process:
        await stage.facts_of(await stage.send(200))
        process.send_signal(signal.SIGTERM)
        _, said = await asyncio.wait_for(process.communicate(), 30)

    assert process.returncode == 0, said.decode()
    assert b'"event": "worker_stopped"' in said
    assert b"Traceback" not in said
    await eventually(stage.is_drained)


@pytest.mark.parametrize("place", CRASH_POINTS)
async def test_a_worker_killed_anywhere_loses_no_job(stage: Stage, place: str) -> None:
    jobs = await stage.send(20)
    async with stage.worker(REDRIVE_CRASH_AT=place) as process:
        await asyncio.wait_for(process.communicate(), 30)
        assert process.returncode == 137
    async with stage.worker() as process:
        facts = await stage.facts_of(jobs)
        process.send_signal(signal.SIGTERM)
        await asyncio.wait_for(process.communicate(), 30)

    assert len(facts) == 40
    await eventually(stage.is_drained)


async def test_an_unfinished_job_is_handed_back_when_the_grace_is_over(stage: Stage) -> None:
    (job,) = await stage.send(1, "python", code="import time\ntime.sleep(600)")
    async with stage.worker(REDRIVE_GRACE="200ms") as process:
        await stage.hear(fact_id(job.job_id, "started"))
        process.send_signal(signal.SIGTERM)
        _, said = await asyncio.wait_for(process.communicate(), 30)

    assert process.returncode == 0, said.decode()
    assert b"job_handed_back" in said

    async def is_back() -> bool:
        return (await stage.broker.stats([jobs_queue(stage.pool)]))[jobs_queue(stage.pool)].ready == 1

    await eventually(is_back)


async def test_a_job_held_by_a_lease_keeps_no_other_from_other_workers(stage: Stage, tmp_path: Path) -> None:
    end = tmp_path / "end"
    waiting = f"import os, time\nwhile not os.path.exists({str(end)!r}):\n    time.sleep(0.01)"
    queue = jobs_queue(stage.pool)
    (long,) = await stage.send(1, "python", code=waiting)
    _, short = await stage.send(2)
    async with stage.worker(REDRIVE_CONCURRENCY="1", REDRIVE_LEASE_AFTER="100ms"):
        await stage.hear(fact_id(long.job_id, "leased"))

        async def is_left_to_others() -> bool:
            return (await stage.broker.stats([queue]))[queue].ready == 2

        await eventually(is_left_to_others)
        end.touch()
        await stage.facts_of([long])
        facts = await stage.facts_of([short])

    assert {fact.payload.delivery_count for fact in facts if isinstance(fact.payload, TaskStarted)} == {1}


async def test_a_worker_says_that_it_is_ready_and_counts(stage: Stage) -> None:
    port = free_ports(1)[0]
    async with (
        stage.worker(REDRIVE_HEALTH_PORT=str(port)),
        httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", trust_env=False) as client,
    ):

        async def ready() -> bool:
            try:
                return (await client.get("/readyz")).status_code == 200
            except httpx.TransportError:
                return False

        await eventually(ready, 30)
        await stage.facts_of(await stage.send(3))
        figures = (await client.get("/metrics")).text

    assert 'redrive_worker_jobs_total{kind="noop",status="success"} 3.0' in figures


async def test_a_worker_without_settings_does_not_start() -> None:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "services.worker", cwd=ROOT, env={"PATH": os.environ["PATH"]}, stderr=PIPE
    )
    _, said = await asyncio.wait_for(process.communicate(), 30)

    assert process.returncode == 2
    assert b"REDRIVE_AMQP_URL (or REDRIVE_AMQP_URL_FILE) is not set" in said
    assert b"REDRIVE_WORKER_TOKEN" in said
