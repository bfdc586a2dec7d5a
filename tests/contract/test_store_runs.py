"""Whole executions over every store: what is loaded decides the same as what was never put away."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

import pytest

from shared.contracts.events import Event, event_to_json
from shared.contracts.ids import parse_node
from shared.contracts.jobs import Job
from shared.contracts.outcomes import Outcome, failure, success
from shared.contracts.payloads import TaskProcessed, TaskStarted
from shared.engine.chance import SeededChance
from shared.engine.decide import decide
from shared.engine.evolve import evolve
from shared.engine.program import Program
from shared.engine.replay import replay
from shared.engine.snapshot import restore, snapshot
from shared.engine.state import State
from shared.engine.world import KnownValues, MissingValueError, World
from shared.language.compile import compile_playbook
from shared.store.port import Batch, Store
from shared.store.records import DecisionRecord, History, JobFilter, JobRow
from tests.support.storing import created, processed, started

pytest_plugins = ("tests.support.stores",)

PLAYBOOK = """
apiVersion: redrive.io/v1
workload: { items: 30 }
workflow:
  - step: fetch
    tool: { kind: noop }
    retry: { max_attempts: 3, initial_delay: 0.001, jitter: false }
    next: each
  - step: each
    loop: { in: "{{ workload.items }}", iterator: item, mode: parallel, max_in_flight: 7, tolerate: 5 }
    tool: { kind: noop, input: { n: "{{ iter.item }}" } }
    next: last
  - step: last
    tool: { kind: noop, input: { total: "{{ each | length }}" } }
"""

Respond = Callable[[JobRow], Outcome]


def program() -> Program:
    compiled = compile_playbook(PLAYBOOK)
    assert compiled.plan is not None, compiled
    return Program(compiled.plan)


def respond(row: JobRow) -> Outcome:
    address = parse_node(row.node)
    assert address is not None
    if address.step == "fetch" and (row.attempt or 1) < 3:
        return failure("connection", "refused")
    if address.step == "each" and address.iteration in (3, 17):
        return failure("client_error", "no such thing")
    return success({"z": row.node, "big": "x" * 3000, "a": 1.0e16})


async def decide_once(store: Store, program: Program, execution: str) -> bool:
    """Load, decide, commit, without a cache: every decision starts from what is stored."""
    async with store.deciding([execution]) as batch:
        if not batch.unapplied[execution]:
            return False
        history = (await batch.histories([execution]))[execution]
        batch.record(execution, await decided(program, batch, execution, history, KnownValues()))
        return True


async def decided(
    program: Program, batch: Batch, execution: str, history: History, values: KnownValues
) -> DecisionRecord:
    while True:
        state = restore(history.snapshot) if history.snapshot else State(execution)
        for event in history.events:
            evolve(state, event)
        try:
            return told(program, state, batch, values)
        except MissingValueError as missing:
            values.by_ref[missing.ref] = await batch.result(missing.ref)


def told(program: Program, state: State, batch: Batch, values: KnownValues) -> DecisionRecord:
    world = World(batch.now, SeededChance(state.execution_id), values)
    decisions, ignored = [], []
    for fact in batch.unapplied[state.execution_id]:
        decision = decide(program, state, fact, world)
        if decision.is_nothing:
            ignored.append(fact.identity)
        values.by_ref.update(decision.stored)
        decisions.append(decision)
    kept = snapshot(state) if state.seq % 3 == 0 else None
    return DecisionRecord(state.seq, state.status, tuple(decisions), kept, tuple(ignored))


async def work(store: Store, execution: str, respond: Respond) -> None:
    """Run what is queued, as a worker would that hears of everything twice."""
    page = await store.jobs(JobFilter("queued", execution_id=execution), limit=1000)
    facts: list[Event] = []
    for row in page.items:
        job = Job(row.job_id, row.execution_id, parse_node(row.node) or pytest.fail(row.node), row.kind)
        outcome = respond(row)
        facts.append(started(job))
        end = processed(job)
        assert isinstance(end.payload, TaskProcessed)
        facts.append(
            Event(end.execution_id, TaskProcessed(job.job_id, outcome.as_json()), job.address, event_id=end.event_id)
        )
    await store.append_facts(facts)
    await store.append_facts(facts[::-1])


async def run(store: Store, execution: str, deciders: int = 1) -> list[Event]:
    playbook = program()
    for _ in range(200):
        await asyncio.gather(*(decide_once(store, playbook, execution) for _ in range(deciders)))
        row = await store.execution(execution)
        assert row is not None
        if row.finished_at is not None:
            return await store.events(execution, limit=100_000)
        await work(store, execution, respond)
    pytest.fail("the execution did not end")


@pytest.mark.parametrize("deciders", [1, 3])
async def test_an_execution_runs_to_its_end_from_what_is_stored_alone(store: Store, deciders: int) -> None:
    execution = await created(store, plan="x", workload={"items": 30})

    log = await run(store, execution, deciders)

    assert [event.seq for event in log] == list(range(1, len(log) + 1))
    row = await store.execution(execution)
    assert row is not None
    assert (row.status, row.retries, row.version) == ("completed", 2, len(log))
    assert (row.steps_started, row.steps_ended) == (3, 3)
    (loop,) = await store.iterators(execution)
    assert (loop.total_iterations, loop.completed_iterations, loop.failed_iterations) == (30, 28, 2)
    (retry,) = await store.retries(execution)
    assert (retry.step_name, retry.status, retry.current_attempt, retry.max_attempts) == ("fetch", "completed", 3, 3)
    assert not (await store.jobs(JobFilter("queued"))).items
    assert not (await store.jobs(JobFilter("leased"))).items


async def test_every_decision_of_a_stored_log_is_taken_the_same_again(store: Store) -> None:
    execution = await created(store, plan="x", workload={"items": 30})
    log = await run(store, execution)
    values = KnownValues()

    for _ in range(100):
        try:
            differences = replay(program(), log, values)
            break
        except MissingValueError as missing:
            values.by_ref[missing.ref] = await store.result(missing.ref)
    else:
        pytest.fail("values are missing")

    assert [str(item) for item in differences] == []


async def test_a_log_is_the_same_text_whenever_it_is_read(store: Store) -> None:
    execution = await created(store, plan="x", workload={"items": 30})
    log = await run(store, execution)

    def text(events: list[Event]) -> list[Any]:
        return [json.dumps(event_to_json(event)) for event in events]

    assert text(await store.events(execution, limit=100_000)) == text(log)
    kinds = {type(event.payload) for event in log}
    assert {TaskStarted, TaskProcessed} <= kinds
