"""What every store promises about decisions: one batch, written whole or not at all."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from shared.contracts import payloads as p
from shared.contracts.ids import Address
from shared.engine.turn import Decision
from shared.errors import ConflictError, RejectedError
from shared.store.port import Store, UnknownReferenceError
from shared.store.records import DecisionRecord
from tests.support.storing import (
    apply_all,
    created,
    decide,
    decision,
    new_execution,
    new_id,
    new_job,
    processed,
    queued,
    record,
    signal,
    started,
)

pytest_plugins = ("tests.support.stores",)

FETCH = Address("fetch", 1, None, "run", 1, 1)


async def test_a_decision_is_written_with_its_facts_in_the_order_of_application(store: Store) -> None:
    execution = await created(store)
    late = signal(execution)
    await store.append_facts([late])

    async with store.deciding([execution]) as batch:
        request, given = batch.unapplied[execution]
        step = (p.StepStarted((1,)), Address("fetch"))
        record(batch, execution, request, p.ExecutionStarted("fetch"), step, given)

    events = await store.events(execution)
    assert [event.seq for event in events] == [1, 2, 3, 4]
    assert [event.type for event in events] == [
        "execution.requested", "execution.started", "step.started", "signal.received",
    ]  # fmt: skip
    assert events[3].event_id == late.event_id
    row = await store.execution(execution)
    assert row is not None
    assert (row.version, row.status, row.steps_started) == (4, "running", 1)
    assert row.started_at is not None
    assert (await apply_all(store, execution))[execution] == []


async def test_a_fact_gets_the_parent_and_sequence_it_was_applied_with(store: Store) -> None:
    execution = await created(store)
    await apply_all(store, execution)
    job, parent = new_job(execution), new_id()
    await store.append_facts([started(job)])

    async with store.deciding([execution]) as batch:
        fact = replace(batch.unapplied[execution][0], parent_event_id=parent, retry_sequence_id=job.address.sequence)
        record(batch, execution, fact)

    event = (await store.events(execution))[-1]
    assert (event.parent_event_id, event.retry_sequence_id) == (parent, "fetch~1.run")


async def test_the_time_of_a_batch_is_the_stores_and_goes_on(store: Store) -> None:
    execution = await created(store)

    async with store.deciding([execution]) as first:
        pass
    async with store.deciding([execution]) as second:
        pass

    assert first.now < second.now
    assert first.now.tzinfo is not None


async def test_an_ignored_fact_is_not_given_again_and_has_no_place_in_the_log(store: Store) -> None:
    execution = await created(store)
    await apply_all(store, execution)
    fact = signal(execution)
    await store.append_facts([fact])

    await decide(store, execution, ignored=(fact.identity,))

    assert (await apply_all(store, execution))[execution] == []
    assert len(await store.events(execution)) == 1
    assert await store.stale_facts(-60, 10) == []


async def test_a_fact_that_is_neither_applied_nor_ignored_is_given_again(store: Store) -> None:
    execution = await created(store)

    async with store.deciding([execution]) as first:
        pass
    async with store.deciding([execution]) as second:
        pass

    assert first.unapplied == second.unapplied
    assert len(second.unapplied[execution]) == 1


async def test_an_execution_that_nobody_knows_is_not_in_the_batch(store: Store) -> None:
    execution, nobody = await created(store), new_id()

    async with store.deciding([nobody, execution]) as batch:
        assert set(batch.executions) == {execution}
        with pytest.raises(RejectedError):
            batch.record(nobody, DecisionRecord(0, "running"))


async def test_a_batch_of_nothing_is_no_trouble(store: Store) -> None:
    async with store.deciding([]) as batch:
        assert batch.executions == {}
        assert batch.unapplied == {}


async def test_a_decision_taken_at_another_version_is_refused_and_nothing_is_written(store: Store) -> None:
    execution = await created(store)
    await apply_all(store, execution)

    async def attempt() -> None:
        async with store.deciding([execution]) as batch:
            taken = decision(batch, execution, p.ExecutionStarted("fetch"))
            old = replace(taken, events=tuple(replace(event, seq=1) for event in taken.events))
            batch.record(execution, DecisionRecord(1, "running", (old,)))

    with pytest.raises(ConflictError):
        await attempt()

    assert len(await store.events(execution)) == 1


@pytest.mark.parametrize(("seqs", "version"), [((2, 4), 4), ((2, 2), 2), ((3,), 3), ((2,), 5), ((), 2)])
async def test_a_gap_in_the_log_is_refused(store: Store, seqs: tuple[int, ...], version: int) -> None:
    execution = await created(store)
    await apply_all(store, execution)

    async def attempt() -> None:
        async with store.deciding([execution]) as batch:
            taken = decision(batch, execution, *[p.ExecutionStarted("a")] * len(seqs))
            events = tuple(replace(event, seq=seq) for event, seq in zip(taken.events, seqs, strict=True))
            batch.record(execution, DecisionRecord(version, "running", (replace(taken, events=events),)))

    with pytest.raises(ConflictError):
        await attempt()


async def test_a_fact_that_was_never_stored_cannot_be_applied(store: Store) -> None:
    execution, other = await created(store), await created(store)

    async def attempt() -> None:
        async with store.deciding([execution, other]) as batch:
            record(batch, other, p.ExecutionStarted("a"))
            record(batch, execution, signal(execution))

    with pytest.raises(ConflictError):
        await attempt()

    assert await store.events(other) == []


async def test_an_error_in_between_leaves_everything_as_it_was(store: Store) -> None:
    execution = await created(store)
    job = new_job(execution)

    async def attempt() -> None:
        async with store.deciding([execution]) as batch:
            record(batch, execution, *batch.unapplied[execution], jobs=[job], stored={"x": [1] * 10})
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await attempt()

    row = await store.execution(execution)
    assert row is not None
    assert (row.version, row.status) == (0, "new")
    assert await store.job(job.job_id) is None
    assert len((await apply_all(store, execution))[execution]) == 1


async def test_a_value_that_cannot_be_stored_leaves_everything_as_it_was(store: Store) -> None:
    execution, other = await created(store), await created(store)

    async def attempt() -> None:
        async with store.deciding([execution, other]) as batch:
            record(batch, other, p.ExecutionStarted("a"), jobs=[new_job(other)])
            record(batch, execution, p.ExecutionCompleted({"x": float("nan")}))

    with pytest.raises(RejectedError):
        await attempt()

    assert await store.events(other) == []
    assert (await store.jobs()).items == []


async def test_a_driver_like_error_of_the_caller_is_the_callers(store: Store) -> None:
    execution = await created(store)

    with pytest.raises(TimeoutError):
        async with store.deciding([execution]):
            raise TimeoutError


async def test_of_two_who_decide_at_once_the_second_finds_nothing(store: Store) -> None:
    execution = await created(store)
    inside, go_on = asyncio.Event(), asyncio.Event()

    async def first() -> int:
        async with store.deciding([execution]) as batch:
            inside.set()
            await go_on.wait()
            record(batch, execution, *batch.unapplied[execution])
            return len(batch.unapplied[execution])

    async def second() -> tuple[int, int]:
        await inside.wait()
        go_on.set()
        async with store.deciding([execution]) as batch:
            return len(batch.unapplied[execution]), batch.executions[execution].version

    one, other = await asyncio.gather(first(), second())

    assert one == 1
    assert other == (0, 1)


async def test_many_who_decide_about_the_same_executions_in_any_order_write_each_fact_once(store: Store) -> None:
    executions = [await created(store) for _ in range(10)]
    facts = [signal(execution) for execution in executions for _ in range(5)]

    async def someone(order: list[str]) -> int:
        return sum(len(found) for found in (await apply_all(store, *order)).values())

    await store.append_facts(facts)
    done = await asyncio.gather(*(someone(executions[i:] + executions[:i]) for i in range(10)))

    assert sum(done) == len(executions) + len(facts)
    for execution in executions:
        assert [event.seq for event in await store.events(execution)] == [1, 2, 3, 4, 5, 6]


async def test_a_batch_of_many_executions_is_written_together(store: Store) -> None:
    made = await store.create_executions([new_execution() for _ in range(300)])
    executions = [item.execution_id for item in made]

    async with store.deciding(executions) as batch:
        for execution in executions:
            started_step = (p.StepStarted((1,)), Address("fetch"))
            facts = batch.unapplied[execution]
            record(batch, execution, *facts, p.ExecutionStarted("fetch"), started_step, jobs=[new_job(execution)])

    async with store.deciding(executions) as batch:
        assert {head.version for head in batch.executions.values()} == {3}
        assert not any(batch.unapplied.values())
    assert len((await store.jobs(limit=1000)).items) == 300


async def test_a_state_is_made_of_its_snapshot_and_the_events_after_it(store: Store) -> None:
    execution, other = await created(store), await created(store)
    await apply_all(store, execution, other)
    await decide(store, execution, p.ExecutionStarted("fetch"), snapshot={"v": 1, "state": {"z": 1, "a": 2}})
    await decide(store, execution, (p.StepStarted((1,)), Address("fetch")))

    async with store.deciding([execution, other]) as batch:
        assert batch.executions[execution].snapshot_seq == 2
        found = await batch.histories([execution, other])
        after = await batch.events_after(execution, 1)

    history = found[execution]
    assert history.snapshot is not None
    assert list(history.snapshot["state"]) == ["z", "a"]
    assert [event.seq for event in history.events] == [3]
    assert [event.seq for event in after] == [2, 3]
    assert found[other].snapshot is None
    assert [event.seq for event in found[other].events] == [1]


async def test_a_job_is_kept_as_the_worker_will_see_it(store: Store) -> None:
    execution = await created(store)
    due = datetime.now(UTC) + timedelta(hours=1)
    job = new_job(
        execution, attempt=2, config={"z": 1, "a": 2}, pool="gpu", available_at=due, delay_s=3600.0, max_attempts=5,
        meta={"retry": {"attempt_number": 2}},
    )  # fmt: skip

    await queued(store, execution, job)

    row = await store.job(job.job_id)
    assert row is not None
    assert (row.status, row.node, row.pool, row.attempt, row.max_attempts) == ("queued", "fetch~1.run#2", "gpu", 2, 5)
    assert (row.available_at, row.retry_delay_seconds, row.published_at) == (due, 3600.0, None)
    assert row.message["config"] == {"z": 1, "a": 2}
    assert list(row.message["config"]) == ["z", "a"]
    assert row.meta == {"retry": {"attempt_number": 2}}


async def status(store: Store, job_id: str) -> str | None:
    row = await store.job(job_id)
    return None if row is None else row.status


async def test_a_job_is_leased_when_it_starts_and_completed_when_it_ends(store: Store) -> None:
    execution = await created(store)
    await apply_all(store, execution)
    job = new_job(execution)
    await queued(store, execution, job)
    lease = datetime.now(UTC) + timedelta(minutes=5)

    await store.append_facts([started(job, "w7", lease)])
    await apply_all(store, execution)
    row = await store.job(job.job_id)
    assert row is not None
    assert (row.status, row.worker_id, row.lease_until) == ("leased", "w7", lease)

    await store.append_facts([processed(job, 1, worker="w7")])
    await apply_all(store, execution)
    row = await store.job(job.job_id)
    assert row is not None
    assert (row.status, row.worker_id, row.lease_until, row.last_error) == ("completed", "w7", None, None)


async def test_started_and_processed_in_one_batch_leave_the_job_completed(store: Store) -> None:
    execution = await created(store)
    await apply_all(store, execution)
    job = new_job(execution)
    await queued(store, execution, job)

    await store.append_facts([started(job), processed(job)])
    await apply_all(store, execution)

    assert await status(store, job.job_id) == "completed"


@pytest.mark.parametrize(
    ("follows", "expected"),
    [
        ([p.TaskRetryExhausted(3, 3, "attempts", "fail")], "dead"),
        ([p.TaskAdvanced("fail")], "dead"),
        ([p.TaskAdvanced("continue")], "completed"),
        ([], "completed"),
    ],
)
async def test_a_failed_attempt_is_dead_when_nothing_follows_it(
    store: Store, follows: list[p.Payload], expected: str
) -> None:
    execution = await created(store)
    await apply_all(store, execution)
    job = new_job(execution)
    await queued(store, execution, job)
    await store.append_facts([processed(job, error="broken " * 200)])

    async with store.deciding([execution]) as batch:
        record(batch, execution, *batch.unapplied[execution], *[(said, job.address) for said in follows])

    row = await store.job(job.job_id)
    assert row is not None
    assert row.status == expected
    assert row.last_error is not None
    assert row.last_error.startswith("broken")
    assert len(row.last_error) == 500


async def test_a_cancelled_job_stays_cancelled_and_a_job_that_ended_stays_ended(store: Store) -> None:
    execution = await created(store)
    await apply_all(store, execution)
    waiting, ended = new_job(execution, "a"), new_job(execution, "b")
    await queued(store, execution, waiting, ended)
    await store.append_facts([processed(ended)])
    await apply_all(store, execution)

    await decide(store, execution, p.ExecutionCancelled(), status="cancelled", cancelled=(waiting.job_id, ended.job_id))

    assert await status(store, waiting.job_id) == "cancelled"
    assert await status(store, ended.job_id) == "completed"


async def test_a_job_made_and_cancelled_in_one_batch_is_cancelled(store: Store) -> None:
    execution = await created(store)
    job = new_job(execution)

    await decide(store, execution, p.ExecutionStarted("a"), jobs=[job], cancelled=(job.job_id,))

    assert await status(store, job.job_id) == "cancelled"


async def test_a_poisoned_job_is_dead_with_its_reason(store: Store) -> None:
    execution = await created(store)
    await apply_all(store, execution)
    job = new_job(execution)
    await queued(store, execution, job)
    poisoned = replace(processed(job), payload=p.JobPoisoned(job.job_id, "delivered 20 times"), event_id=new_id())
    await store.append_facts([poisoned])

    async with store.deciding([execution]) as batch:
        outcome = {"status": "error", "result": None, "error": {"kind": "worker_lost", "message": "lost"}, "meta": {}}
        emitted = (p.TaskProcessed(job.job_id, outcome), job.address)
        record(batch, execution, *batch.unapplied[execution], emitted)

    row = await store.job(job.job_id)
    assert row is not None
    assert (row.status, row.last_error) == ("dead", "delivered 20 times")


async def test_a_timer_that_fired_is_completed_even_if_nothing_follows(store: Store) -> None:
    execution = await created(store)
    timer = new_job(execution, role="timer")
    await queued(store, execution, timer)

    await decide(store, execution, fired=(timer.job_id,))

    assert await status(store, timer.job_id) == "completed"


async def test_results_that_a_decision_refers_to_are_stored_with_it(store: Store) -> None:
    execution = await created(store)
    reference = await store.put_result({"other": [1]})
    value = {"rows": ["é" * 100] * 1000, "z": 1}

    async with store.deciding([execution]) as batch:
        record(batch, execution, p.ExecutionStarted("a"), stored={"sha256:any": value})
        assert await batch.result(reference["_ref"]) == {"other": [1]}
        with pytest.raises(UnknownReferenceError):
            await batch.result("sha256:unknown")

    again = await store.put_result(value)
    assert await store.result(again["_ref"]) == value


async def test_children_are_created_with_their_requests(store: Store) -> None:
    execution = await created(store)
    child = new_execution(parent={"execution_id": execution, "job_id": new_id(), "node": "a~1.run#1"})

    await decide(store, execution, p.ExecutionStarted("a"), children=(child,))

    row = await store.execution(child.execution_id)
    assert row is not None
    assert (row.parent_execution_id, row.status) == (execution, "new")
    assert len((await apply_all(store, child.execution_id))[child.execution_id]) == 1


async def test_facts_for_other_executions_are_stored_once_and_left_out_where_nobody_is(store: Store) -> None:
    execution, other = await created(store), await created(store)
    await apply_all(store, execution, other)
    told = signal(other)

    await decide(store, execution, p.ExecutionStarted("a"), facts=(told, signal(new_id())))
    await decide(store, execution, p.ExecutionStarted("a"), facts=(told,))

    assert [fact.event_id for fact in (await apply_all(store, other))[other]] == [told.event_id]


async def test_how_an_execution_ended_is_kept_and_forgotten_when_it_begins_again(store: Store) -> None:
    execution = await created(store)
    await apply_all(store, execution)
    error = {"kind": "timeout", "message": "late", "retryable": True}

    await decide(store, execution, p.ExecutionFailed(error, "fetch", "fetch~1.run#3"), status="failed")
    failed = await store.execution(execution)
    await decide(store, execution, p.ExecutionRedriven("failed", ("fetch",), plan="newer"), status="running")
    redriven = await store.execution(execution)
    await decide(store, execution, p.ExecutionCompleted({"z": 1, "a": 2}), status="completed")
    done = await store.execution(execution)

    assert failed is not None
    assert redriven is not None
    assert done is not None
    assert failed.failure == {"error": error, "step": "fetch", "node": "fetch~1.run#3"}
    assert failed.finished_at is not None
    assert (redriven.failure, redriven.finished_at, redriven.plan_digest) == (None, None, "newer")
    assert done.result == {"z": 1, "a": 2}
    assert list(done.result) == ["z", "a"]
    assert done.finished_at is not None
    assert (done.plan_digest, done.failure) == ("newer", None)


async def test_a_later_batch_keeps_the_result(store: Store) -> None:
    execution = await created(store)
    await apply_all(store, execution)
    await decide(store, execution, p.ExecutionCompleted(42), status="completed")
    fact = signal(execution)
    await store.append_facts([fact])

    await decide(store, execution, status="completed", ignored=(fact.identity,))

    row = await store.execution(execution)
    assert row is not None
    assert row.result == 42


async def test_the_progress_of_a_loop_is_counted(store: Store) -> None:
    execution = await created(store)
    await apply_all(store, execution)
    loop = Address("each")
    said: list[Any] = [(p.LoopStarted("item", 4, "parallel", 2), loop)]
    said += [(p.IterationCompleted(i, i), Address("each", 1, i)) for i in range(2)]
    await decide(store, execution, *said)

    (half,) = await store.iterators(execution)
    failure = p.IterationFailed(3, {"kind": "x", "message": "y"})
    await decide(
        store, execution, (p.IterationCompleted(2), Address("each", 1, 2)), (failure, Address("each", 1, 3)),
        (p.LoopCompleted(4, 4, 3, 1, 0.75), loop),
    )  # fmt: skip
    (whole,) = await store.iterators(execution)

    assert (half.node, half.iterator_name, half.total_iterations, half.completed_iterations) == ("each~1", "item", 4, 2)
    assert half.status == "running"
    assert (whole.completed_iterations, whole.failed_iterations, whole.status) == (3, 1, "completed")


async def test_the_progress_of_attempts_is_kept(store: Store) -> None:
    execution = await created(store)
    await apply_all(store, execution)
    due = datetime.now(UTC) + timedelta(seconds=30)
    second = replace(FETCH, attempt=2)
    retry = p.TaskRetryScheduled(new_id(), 1, 2, 3, 30.0, {}, due.isoformat(), "broken")
    await decide(store, execution, (retry, second))
    (waiting,) = await store.retries(execution)

    await decide(store, execution, (p.TaskRetryExhausted(2, 3, "budget", "fail"), second))
    (ended,) = await store.retries(execution)

    assert (waiting.retry_sequence_id, waiting.step_name, waiting.status) == ("fetch~1.run", "fetch", "waiting")
    assert (waiting.current_attempt, waiting.max_attempts, waiting.last_error) == (2, 3, "broken")
    assert waiting.available_at == due
    assert (ended.status, ended.last_error, ended.available_at) == ("exhausted", "broken", None)
    row = await store.execution(execution)
    assert row is not None
    assert row.retries == 1


async def test_several_decisions_about_one_execution_are_one_record(store: Store) -> None:
    execution = await created(store)

    async with store.deciding([execution]) as batch:
        first = decision(batch, execution, *batch.unapplied[execution])
        second = decision(batch, execution, p.ExecutionStarted("a"))
        second = replace(second, events=tuple(replace(event, seq=2) for event in second.events))
        batch.record(execution, DecisionRecord(2, "running", (first, Decision(), second)))

    assert [event.seq for event in await store.events(execution)] == [1, 2]
