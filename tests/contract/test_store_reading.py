"""What every store promises to those who look: executions, logs, jobs, results."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from shared.contracts import payloads as p
from shared.contracts.ids import Address
from shared.errors import RejectedError
from shared.store.port import Store, UnknownReferenceError
from shared.store.records import ExecutionFilter, JobFilter
from tests.support.storing import apply_all, created, decide, new_id, new_job, processed, queued

pytest_plugins = ("tests.support.stores",)


async def test_an_execution_is_shown_as_it_was_asked_for(store: Store) -> None:
    parent = new_id()
    execution = await created(store, labels={"team": "a"}, idempotency_key="k", parent={"execution_id": parent})

    row = await store.execution(execution)

    assert row is not None
    assert (row.path, row.playbook_version, row.plan_digest, row.status) == ("demo/flow", 1, "digest", "new")
    assert (row.labels, row.idempotency_key, row.parent_execution_id) == ({"team": "a"}, "k", parent)
    assert (row.version, row.retries, row.result, row.failure) == (0, 0, None, None)
    assert await store.execution(new_id()) is None


@pytest.mark.parametrize("nonsense", ["", "nope", "123", "\0"])
async def test_an_identity_that_is_none_is_refused(store: Store, nonsense: str) -> None:
    with pytest.raises(RejectedError):
        await store.execution(nonsense)
    with pytest.raises(RejectedError):
        await store.events(nonsense)
    with pytest.raises(RejectedError):
        await store.job(nonsense)


async def test_executions_are_listed_newest_first_page_by_page(store: Store) -> None:
    made = [await created(store) for _ in range(5)]

    found: list[str] = []
    cursor = None
    for size in (2, 2, 1):
        page = await store.executions(limit=2, cursor=cursor)
        assert len(page.items) == size
        found += [row.execution_id for row in page.items]
        cursor = page.cursor

    assert found == made[::-1]
    assert cursor is None


async def test_executions_are_found_by_what_is_known_of_them(store: Store) -> None:
    one = await created(store, path="etl/one", labels={"team": "a", "env": "prod"})
    two = await created(store, path="etl/two", labels={"team": "b", "env": "prod"})
    await apply_all(store, one)
    error = {"kind": "connection", "message": "Refused by 100%_host", "retryable": True}
    await decide(store, one, p.ExecutionFailed(error, "fetch"), status="failed")

    async def found(**wanted: Any) -> set[str]:
        return {row.execution_id for row in (await store.executions(ExecutionFilter(**wanted))).items}

    assert await found(status="failed") == {one}
    assert await found(path="etl/two") == {two}
    assert await found(labels={"env": "prod"}) == {one, two}
    assert await found(labels={"env": "prod", "team": "b"}) == {two}
    assert await found(labels={"team": "c"}) == set()
    assert await found(since=datetime.now(UTC) + timedelta(hours=1)) == set()
    assert await found(since=datetime.now(UTC) - timedelta(hours=1)) == {one, two}
    assert await found(q="refused") == {one}
    assert await found(q="100%_") == {one}
    assert await found(q="100__") == set()
    assert await found(q="ETL/T") == {two}
    assert await found(q=two[:13]) == {two}
    assert await found(status="failed", path="etl/two") == set()


@pytest.mark.parametrize("cursor", ["", "x", "bm9wZQ", "WzEsMl0", "WyJhIiwiYiJd", "é"])
async def test_a_cursor_that_was_not_given_out_is_refused(store: Store, cursor: str) -> None:
    for listing in (store.executions, store.jobs):
        with pytest.raises(RejectedError):
            await listing(cursor=cursor)
    with pytest.raises(RejectedError):
        await store.outstanding(60, 10, cursor)


async def logged(store: Store) -> str:
    execution = await created(store)
    await apply_all(store, execution)
    said: list[Any] = [p.ExecutionStarted("a")]
    for step in ("a", "b"):
        said += [(p.StepStarted((1,)), Address(step)), (p.StepCompleted(step), Address(step))]
    await decide(store, execution, *said)
    return execution


async def test_a_log_is_read_by_place_type_and_step(store: Store) -> None:
    execution = await logged(store)

    async def places(**wanted: Any) -> list[int | None]:
        return [event.seq for event in await store.events(execution, **wanted)]

    assert await places() == [1, 2, 3, 4, 5, 6]
    assert await places(after=4) == [5, 6]
    assert await places(limit=2) == [1, 2]
    assert await places(after=2, limit=2) == [3, 4]
    assert await places(types={"step.started"}) == [3, 5]
    assert await places(types=["step.started", "step.completed"], step="b") == [5, 6]
    assert await places(types=[]) == []
    assert await places(step="c") == []
    assert await store.events(new_id()) == []


async def test_events_come_back_with_address_payload_and_identity(store: Store) -> None:
    execution = await logged(store)

    event = (await store.events(execution, after=2, limit=1))[0]

    assert event.payload == p.StepStarted((1,))
    assert event.address == Address("a")
    assert event.source == "orchestrator"
    assert event.occurred_at is not None
    assert event.identity == (await store.events(execution, after=2, limit=1))[0].event_id


async def test_jobs_are_listed_by_due_time_with_those_without_a_time_last(store: Store) -> None:
    execution, other = await created(store), await created(store)
    await apply_all(store, execution, other)
    now = datetime.now(UTC)
    offsets = {"late": -60, "soon": 60, "far": 7200}
    jobs = {step: new_job(execution, step, available_at=now + timedelta(seconds=s)) for step, s in offsets.items()}
    jobs["never"] = new_job(execution, "never", available_at=None, role="signal")
    jobs["gpu"] = new_job(other, "gpu", pool="gpu", available_at=now + timedelta(seconds=90))
    await queued(store, execution, *(jobs[step] for step in ("never", "far", "late", "soon")))
    await queued(store, other, jobs["gpu"])
    await store.append_facts([processed(jobs["late"])])
    await apply_all(store, execution)

    async def listed(**wanted: Any) -> list[str]:
        found: list[str] = []
        cursor: str | None = None
        while True:
            page = await store.jobs(JobFilter(**wanted), limit=2, cursor=cursor)
            found += [row.node.partition("~")[0] for row in page.items]
            cursor = page.cursor
            if cursor is None:
                return found

    assert await listed() == ["late", "soon", "gpu", "far", "never"]
    assert await listed(state="delayed") == ["soon", "gpu", "far", "never"]
    assert await listed(state="completed") == ["late"]
    assert await listed(pool="gpu") == ["gpu"]
    assert await listed(state="queued", execution_id=execution) == ["soon", "far", "never"]
    assert await store.job(new_id()) is None


async def test_a_value_put_twice_is_one(store: Store) -> None:
    value = {"b": [1, 2.5, "é", None], "a": {}}

    first, second = await store.put_result(value), await store.put_result({"a": {}, "b": [1, 2.5, "é", None]})

    assert first == second
    assert set(first) == {"_ref", "_size", "_sha256", "_preview"}
    assert await store.result(first["_ref"]) == value


@pytest.mark.parametrize("value", [None, 0, "", [], {"a": None}])
async def test_small_and_empty_values_can_be_put_too(store: Store, value: Any) -> None:
    assert await store.result((await store.put_result(value))["_ref"]) == value


async def test_a_result_of_twenty_megabytes_comes_back_whole_and_in_parts(store: Store) -> None:
    value = ["x" * 1000] * 20_000

    reference = await store.put_result(value)

    assert reference["_size"] > 20_000_000
    assert len(reference["_preview"]) <= 512
    assert await store.result(reference["_ref"]) == value
    part = await store.result_bytes(reference["_ref"], start=2, length=5)
    assert part == (b"xxxxx", reference["_size"])
    whole = await store.result_bytes(reference["_ref"])
    assert whole is not None
    assert len(whole[0]) == reference["_size"]
    assert await store.result_bytes("sha256:none") is None


@pytest.mark.parametrize("value", [{"a": "x\0"}, float("nan"), ["\ud800"], {1, 2}])
async def test_a_value_that_cannot_be_stored_is_refused(store: Store, value: Any) -> None:
    with pytest.raises(RejectedError):
        await store.put_result(value)


@pytest.mark.parametrize(
    "ref", ["sha256:none", "loop:nope", "loop:6f0d7a52-3b0c-5e0e-9d3e-5a1d5e0a7c11/each~1", "", "loop:x/y~1"]
)
async def test_a_reference_to_nothing_is_refused(store: Store, ref: str) -> None:
    with pytest.raises(RejectedError):
        await store.result(ref)


async def looped(store: Store, total: int, failed: set[int]) -> str:
    execution = await created(store)
    await apply_all(store, execution)
    said: list[Any] = [
        (p.StepStarted((1,)), Address("each")),
        (p.LoopStarted("i", total, "parallel", 9), Address("each")),
    ]
    for index in reversed(range(total)):
        place = Address("each", 1, index)
        outcome = (
            p.IterationFailed(index, {"kind": "x"}) if index in failed else p.IterationCompleted(index, {"n": index})
        )
        said.append((outcome, place))
    said += [(p.StepStarted((2,)), Address("other")), (p.LoopStarted("i", 1, "parallel", 9), Address("other"))]
    said.append((p.IterationCompleted(0, "other"), Address("other", 1, 0)))
    await decide(store, execution, *said)
    return execution


async def test_a_loops_results_are_read_from_the_log_in_the_order_of_its_elements(store: Store) -> None:
    execution = await looped(store, 25, {3, 24})
    ref = f"loop:{execution}/each~1"

    whole = await store.result(ref)
    pages = [page async for page in store.loop_results(ref, 10)]

    assert whole == [None if index in (3, 24) else {"n": index} for index in range(25)]
    assert [len(page) for page in pages] == [10, 10, 3]
    assert [index for page in pages for index, _ in page] == [index for index in range(25) if index not in (3, 24)]
    async with store.deciding([execution]) as batch:
        assert await batch.result(ref) == whole
    assert await store.result(f"loop:{execution}/other~1") == ["other"]


async def test_a_loop_that_was_taken_up_again_has_the_results_of_both_runs(store: Store) -> None:
    execution = await looped(store, 4, {1, 2})
    again = (p.StepStarted((), resumes="each~1"), Address("each", 2))
    await decide(
        store, execution, again, (p.IterationCompleted(1, "new"), Address("each", 2, 1)),
        (p.IterationCompleted(2, "new"), Address("each", 2, 2)),
    )  # fmt: skip

    assert await store.result(f"loop:{execution}/each~2") == [{"n": 0}, "new", "new", {"n": 3}]
    assert await store.result(f"loop:{execution}/each~1") == [{"n": 0}, None, None, {"n": 3}]


async def test_a_loop_reference_that_names_no_loop_is_refused_page_by_page_too(store: Store) -> None:
    execution = await created(store)

    for ref in (f"loop:{execution}/none~1", "sha256:x"):
        with pytest.raises(UnknownReferenceError):
            await anext(aiter(store.loop_results(ref)))


async def test_what_a_reader_does_to_its_copy_changes_nothing(store: Store) -> None:
    execution = await created(store, workload={"a": [1]}, labels={"k": "v"})

    async with store.deciding([execution]) as batch:
        said = batch.unapplied[execution][0].payload
        assert isinstance(said, p.ExecutionRequested)
        said.workload["a"].append(2)
        row = await store.execution(execution)
        assert row is not None
        row.labels["k"] = "changed"

    async with store.deciding([execution]) as batch:
        said = batch.unapplied[execution][0].payload
        assert isinstance(said, p.ExecutionRequested)
        assert said.workload == {"a": [1]}
    row = await store.execution(execution)
    assert row is not None
    assert row.labels == {"k": "v"}
