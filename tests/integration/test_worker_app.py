"""A whole worker on the broker in memory, with a clock that the test moves."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from typing_extensions import override

from services.worker.app import HEARTBEAT_KEY, Worker
from services.worker.metrics import WorkerMetrics
from services.worker.runner import Runner
from services.worker.settings import Settings
from services.worker.tools.noop import NoopTool
from services.worker.tools.registry import Registry
from services.worker.values import MemoryValues
from shared.broker.memory import MemoryBroker
from shared.broker.port import Consumer, Delivery, Message
from shared.broker.topology import DEAD, JOBS, OUTCOMES, jobs_queue, topology
from shared.contracts.events import Event
from shared.contracts.ids import fact_id
from shared.contracts.jobs import Job
from shared.contracts.messages import MAX_MESSAGE_BYTES, decode_facts, encode_job
from shared.contracts.outcomes import Outcome, success
from shared.contracts.payloads import TaskProcessed, TaskStarted
from shared.errors import UnavailableError
from shared.runtime.clock import ManualClock
from shared.runtime.telemetry import new_registry
from tests.support.eventually import eventually
from tests.unit.worker.given import HeldTool, ToldTool, a_job

SETTINGS = Settings("", "", "", "w1", concurrency=4, grace_s=10.0, lease_after_s=30.0, lease_s=60.0, heartbeat_s=20.0)


class FlakyBroker(MemoryBroker):
    """A broker that cannot be reached for its first publications."""

    failures = 0

    @override
    async def publish_many(self, messages: Sequence[Message]) -> list[Message]:
        if self.failures:
            self.failures -= 1
            raise UnavailableError("not now")
        return await super().publish_many(messages)


@dataclass
class Stage:
    """A broker, what ingest hears, and workers that come and go."""

    clock: ManualClock
    broker: FlakyBroker
    ingest: Consumer
    held: HeldTool = field(default_factory=HeldTool)
    settings: Settings = SETTINGS
    more: list[ToldTool] = field(default_factory=list)
    bodies: list[Delivery] = field(default_factory=list)
    stop: asyncio.Event = field(default_factory=asyncio.Event)

    async def send(self, *jobs: Job) -> None:
        messages = [Message(JOBS, job.pool, encode_job(job), job.job_id) for job in jobs]
        assert await self.broker.publish_many(messages) == []

    @asynccontextmanager
    async def worker(self) -> AsyncIterator[asyncio.Task[None]]:
        tools = Registry([NoopTool(), self.held, *self.more])
        runner = Runner(tools, MemoryValues(), worker=self.settings.name, clock=self.clock)
        worker = Worker(self.settings, self.broker, runner, self.clock, WorkerMetrics(new_registry()))
        task = asyncio.create_task(worker.run(self.stop))
        try:
            yield task
        finally:
            task.cancel()
            await asyncio.wait([task])

    async def listen(self) -> None:
        self.bodies += await self.ingest.receive(1000, 0)

    async def facts(self, count: int) -> list[Event]:
        """Return the facts, as soon as there are so many."""

        async def enough() -> list[Event]:
            await self.listen()
            found = self.heard
            return found if len(found) >= count else []

        return await eventually(enough)

    @property
    def said(self) -> list[Event]:
        """Return the facts of all messages, however often they were said."""
        return [fact for body in self.bodies if body.routing_key == "facts" for fact in decode_facts(body.body)]

    @property
    def heard(self) -> list[Event]:
        """Return each fact once, as a store keeps them."""
        return list({fact.identity: fact for fact in reversed(self.said)}.values())[::-1]

    @property
    def heartbeats(self) -> list[dict[str, Any]]:
        beats = [json.loads(body.body) for body in self.bodies if body.routing_key == HEARTBEAT_KEY]
        assert all(beat["v"] == 1 for beat in beats)
        return [beat["heartbeat"] for beat in beats]

    async def ready(self, pool: str = "default") -> int:
        return (await self.broker.stats([jobs_queue(pool)]))[jobs_queue(pool)].ready

    async def settle(self) -> None:
        """Let everything happen that needs no time to pass."""
        await self.clock.advance(0)
        await self.listen()


@pytest.fixture
async def stage() -> AsyncIterator[Stage]:
    clock = ManualClock()
    broker = FlakyBroker(clock)
    await broker.declare(topology(["default", "gpu"]))
    yield Stage(clock, broker, await broker.consume(OUTCOMES, 10_000))
    await broker.close()


def kinds(facts: list[Event]) -> list[str]:
    return [fact.type for fact in facts]


def outcome_of(fact: Event) -> dict[str, Any]:
    assert isinstance(fact.payload, TaskProcessed)
    return fact.payload.outcome


def jobs(count: int, kind: str = "noop", **more: Any) -> list[Job]:
    return [a_job(kind, task=f"t{number}", **more) for number in range(count)]


async def test_a_job_comes_in_and_its_two_facts_go_out_together(stage: Stage) -> None:
    job = a_job(attempt=2, max_attempts=3)
    async with stage.worker():
        await stage.send(job)
        began, ended = await stage.facts(2)
        await stage.settle()

    assert len([body for body in stage.bodies if body.routing_key == "facts"]) == 1
    assert (began.type, ended.type) == ("task.started", "task.processed")
    assert began.event_id == fact_id(job.job_id, "started")
    assert ended.event_id == fact_id(job.job_id, "processed")
    assert began.address == ended.address == job.address
    assert began.source == "worker:w1"
    assert began.payload == TaskStarted(job.job_id, "w1", 1, {"attempt": 2, "max_attempts": 3, "is_retry": True})
    assert outcome_of(ended)["status"] == "success"
    assert outcome_of(ended)["meta"]["worker"] == "w1"
    assert ended.meta["queue_meta"] == {"job_id": job.job_id, "worker_id": "w1", "delivery_count": 1}
    assert await stage.ready() == 0


async def test_a_job_is_given_up_only_when_its_outcome_is_safe(stage: Stage) -> None:
    async with stage.worker():
        await stage.send(a_job("held"))
        await stage.held.begun.wait()
        await stage.settle()
        stage.broker.block()
        stage.held.let_go.set()
        await stage.settle()
    assert await stage.ready() == 1

    stage.broker.unblock()
    async with stage.worker():
        await stage.facts(2)
        await stage.settle()
    assert await stage.ready() == 0
    assert len(stage.held.calls) == 2


async def test_a_redelivered_job_says_how_often_it_came(stage: Stage) -> None:
    await stage.send(a_job())
    lost = await stage.broker.consume(jobs_queue("default"), 1)
    await lost.receive(1, 0)
    await lost.close()
    async with stage.worker():
        began, _ = await stage.facts(2)

    assert isinstance(began.payload, TaskStarted)
    assert began.payload.delivery_count == 2


async def test_an_outcome_is_published_again_until_the_broker_has_it(stage: Stage) -> None:
    async with stage.worker():
        await stage.settle()
        await stage.send(a_job())
        stage.broker.failures = 3
        for _ in range(4):
            await stage.clock.advance(5)
        facts = await stage.facts(2)
        await stage.settle()

    assert kinds(facts) == ["task.started", "task.processed"]
    assert await stage.ready() == 0


async def test_a_second_copy_of_a_running_job_is_not_run_and_is_settled_with_the_first(stage: Stage) -> None:
    async with stage.worker():
        await stage.send(a_job("held"))
        await stage.held.begun.wait()
        await stage.send(a_job("held"))
        await stage.settle()
    assert await stage.ready() == 2

    stage.held.begun.clear()
    async with stage.worker():
        await stage.held.begun.wait()
        stage.held.let_go.set()
        await stage.facts(2)
        await stage.settle()
    assert await stage.ready() == 0
    assert len(stage.held.calls) == 2
    assert len(stage.heard) == 2


async def test_a_copy_of_a_job_that_ran_lately_is_dropped(stage: Stage) -> None:
    async with stage.worker():
        await stage.send(a_job())
        await stage.facts(2)
        await stage.send(a_job(), a_job())
        await stage.settle()
        await stage.settle()

    assert len(stage.heard) == 2
    assert await stage.ready() == 0


@pytest.mark.parametrize("body", [b"\xff", b"[]", b'{"v": 9}', b'{"v": 1, "node": "?"}'])
async def test_a_message_that_cannot_be_read_goes_to_the_dead_letters_and_is_logged(
    stage: Stage, body: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    async with stage.worker():
        await stage.broker.publish_many([Message(JOBS, "default", body, "m1")])
        await stage.send(a_job())
        await stage.facts(2)

    assert (await stage.broker.stats([DEAD]))[DEAD].ready == 1
    (record,) = [each for each in caplog.records if each.getMessage() == "message_rejected"]
    assert record.redrive_fields["message_id"] == "m1"  # type: ignore[attr-defined]


async def test_what_is_ready_travels_together(stage: Stage) -> None:
    stage.settings = replace(SETTINGS, concurrency=100)
    await stage.send(*jobs(100))
    async with stage.worker():
        facts = await stage.facts(200)

    assert len({fact.event_id for fact in facts}) == 200
    assert len([body for body in stage.bodies if body.routing_key == "facts"]) <= 3


async def test_messages_stay_below_their_limit(stage: Stage) -> None:
    async def large(_: object) -> Outcome:
        return success("x" * 60_000)

    stage.more.append(ToldTool(large))
    stage.settings = replace(SETTINGS, concurrency=20)
    await stage.send(*jobs(20, "told"))
    async with stage.worker():
        await stage.facts(40)

    sizes = [len(body.body) for body in stage.bodies]
    assert max(sizes) < MAX_MESSAGE_BYTES + 1024
    assert len(sizes) > 4


async def test_no_more_jobs_run_than_the_concurrency_allows(stage: Stage) -> None:
    stage.settings = replace(SETTINGS, concurrency=2)
    await stage.send(*jobs(5, "held"))
    async with stage.worker():
        await stage.held.begun.wait()
        await stage.settle()

        assert len(stage.held.calls) == 2
        stage.held.let_go.set()
        await stage.facts(10)
    assert await stage.ready() == 0


async def test_several_pools_are_served_within_one_concurrency(stage: Stage) -> None:
    stage.settings = replace(SETTINGS, pools=("default", "gpu"), concurrency=3)
    await stage.send(*jobs(3, "held"), *[a_job("held", task=f"g{number}", pool="gpu") for number in range(3)])
    async with stage.worker():
        await stage.held.begun.wait()
        await stage.settle()

        assert len(stage.held.calls) == 3
        stage.held.let_go.set()
        await stage.facts(12)


async def test_a_job_that_takes_a_while_is_announced_at_once(stage: Stage) -> None:
    async with stage.worker():
        await stage.send(a_job("held"))
        await stage.held.begun.wait()
        await stage.clock.advance(0.04)
        await stage.listen()
        assert stage.heard == []

        await stage.clock.advance(0.04)
        assert kinds(await stage.facts(1)) == ["task.started"]
        stage.held.let_go.set()
        facts = await stage.facts(2)

    assert kinds(facts) == ["task.started", "task.processed"]
    assert facts[0].occurred_at == stage.clock._start


async def test_an_announced_start_is_said_again_with_the_end_and_is_the_same_fact(stage: Stage) -> None:
    async with stage.worker():
        await stage.send(a_job("held"))
        await stage.held.begun.wait()
        await stage.clock.advance(0.08)
        stage.held.let_go.set()
        await stage.facts(2)

    assert kinds(stage.said) == ["task.started", "task.started", "task.processed"]
    assert stage.said[0] == stage.said[1]


async def test_a_long_job_is_held_by_a_lease_instead_of_the_broker(stage: Stage) -> None:
    job = a_job("held")
    async with stage.worker():
        await stage.send(job)
        await stage.held.begun.wait()
        await stage.clock.advance(31)
        _, leased = await stage.facts(2)
        await stage.settle()
    assert await stage.ready() == 0

    assert isinstance(leased.payload, TaskStarted)
    assert leased.payload.lease_until is not None
    assert leased.payload.lease_until.startswith("2024-01-01T00:01:30")
    assert leased.event_id != fact_id(job.job_id, "started")


async def test_without_a_confirmed_lease_the_broker_keeps_a_long_job(stage: Stage) -> None:
    await stage.send(a_job("held"))
    stage.broker.block()
    async with stage.worker():
        await stage.held.begun.wait()
        await stage.clock.advance(100)

    assert await stage.ready() == 1


async def test_a_leased_job_takes_up_room_and_keeps_nothing_else_waiting(stage: Stage) -> None:
    stage.settings = replace(SETTINGS, concurrency=1)
    async with stage.worker():
        await stage.send(a_job("held"))
        await stage.held.begun.wait()
        await stage.clock.advance(31)
        await stage.facts(2)
        await stage.send(a_job(task="next"))
        await stage.clock.advance(1)

        assert await stage.ready() == 1
        stage.held.let_go.set()
        facts = await stage.facts(5)
        await stage.settle()

    assert kinds(facts) == ["task.started", "task.started", "task.processed", "task.started", "task.processed"]
    assert await stage.ready() == 0


async def test_heartbeats_extend_the_leases_of_those_jobs_that_the_broker_does_not_hold(stage: Stage) -> None:
    job = a_job("held")
    async with stage.worker():
        await stage.settle()
        await stage.send(job)
        await stage.held.begun.wait()
        await stage.clock.advance(45)
        await stage.listen()

    first, second, third = stage.heartbeats
    assert (first["worker"], first["pools"], first["concurrency"]) == ("w1", ["default"], 4)
    assert [beat["busy"] for beat in stage.heartbeats] == [0, 1, 1]
    assert [beat["running"] for beat in (first, second, third)] == [[], [], [job.job_id]]
    assert third["lease_until"].startswith("2024-01-01T00:01:40")
    assert third["lease_s"] == 60.0


async def test_a_worker_that_is_asked_to_stop_finishes_what_it_has(stage: Stage) -> None:
    stage.settings = replace(SETTINGS, concurrency=1)
    async with stage.worker() as task:
        await stage.send(a_job("held"), a_job("held", task="later"))
        await stage.held.begun.wait()
        stage.stop.set()
        await stage.settle()
        assert await stage.ready() == 1

        stage.held.let_go.set()
        await asyncio.wait_for(task, 10)

    assert len(await stage.facts(2)) == 2
    assert await stage.ready() == 1


async def test_what_was_taken_but_not_begun_is_handed_back_at_once(stage: Stage) -> None:
    stage.settings = replace(SETTINGS, pools=("default", "gpu"), concurrency=1)
    await stage.send(a_job("held"), a_job("held", task="other", pool="gpu"))
    async with stage.worker():
        await stage.held.begun.wait()
        stage.stop.set()
        await stage.settle()

        assert await stage.ready() + await stage.ready("gpu") == 1
        assert len(stage.held.calls) == 1


async def test_what_is_not_finished_within_the_grace_is_handed_back(stage: Stage) -> None:
    async with stage.worker() as task:
        await stage.send(a_job("held"))
        await stage.held.begun.wait()
        stage.stop.set()
        await stage.clock.advance(9)
        assert not task.done()
        await stage.clock.advance(2)
        await asyncio.wait_for(task, 10)

    assert stage.held.cancelled == 1
    assert await stage.ready() == 1
    assert kinds(await stage.facts(1)) == ["task.started"]


async def test_a_leased_job_that_is_not_finished_in_time_ends_as_lost(stage: Stage) -> None:
    async with stage.worker() as task:
        await stage.send(a_job("held"))
        await stage.held.begun.wait()
        await stage.clock.advance(31)
        stage.stop.set()
        await stage.clock.advance(11)
        await asyncio.wait_for(task, 10)

    facts = await stage.facts(3)
    error = outcome_of(facts[2])["error"]
    assert (error["kind"], error["retryable"]) == ("worker_lost", True)
    assert await stage.ready() == 0


async def test_a_worker_stops_even_if_the_broker_takes_nothing_more(stage: Stage) -> None:
    async with stage.worker() as task:
        await stage.send(a_job("held"))
        await stage.held.begun.wait()
        stage.broker.block()
        stage.held.let_go.set()
        stage.stop.set()
        await stage.clock.advance(30)
        await asyncio.wait_for(task, 10)

    assert await stage.ready() == 1
