"""What every store promises: playbooks, submissions and facts."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from shared.contracts import payloads as p
from shared.contracts.events import Event
from shared.contracts.ids import Address
from shared.errors import RejectedError
from shared.store.port import Store
from shared.store.records import NewPlaybook
from tests.support.storing import apply_all, created, new_execution, new_id, new_job, record, signal, started

pytest_plugins = ("tests.support.stores",)


def playbook(path: str = "demo/flow", source: str = "one", **more: Any) -> NewPlaybook:
    return NewPlaybook(path, source, {"v": 1, "plan": {"z": 1, "a": source}}, f"digest of {source}", **more)


async def test_an_unchanged_text_keeps_its_version_and_a_changed_one_gets_the_next(store: Store) -> None:
    first = await store.register(playbook(name="Flow", labels={"team": "a"}))
    again = await store.register(playbook(name="Flow", labels={"team": "a"}))
    second = await store.register(playbook(source="two"))
    back = await store.register(playbook(source="one"))

    assert (first.version, second.version, back.version) == (1, 2, 3)
    assert again == first
    assert (first.name, first.labels, first.source) == ("Flow", {"team": "a"}, "one")


async def test_two_who_register_the_same_path_at_once_get_versions_in_a_row(store: Store) -> None:
    found = await asyncio.gather(*(store.register(playbook(source=f"text {i}")) for i in range(8)))

    assert sorted(item.version for item in found) == list(range(1, 9))


async def test_a_playbook_is_found_by_its_latest_or_a_named_version(store: Store) -> None:
    for source in ("one", "two"):
        await store.register(playbook(source=source))

    latest, first = await store.playbook("demo/flow"), await store.playbook("demo/flow", 1)
    assert latest is not None
    assert first is not None
    assert (latest.version, first.version) == (2, 1)
    assert await store.playbook("demo/flow", 3) is None
    assert await store.playbook("no/such") is None
    assert [item.version for item in await store.versions("demo/flow")] == [2, 1]


async def test_a_plan_comes_back_by_its_digest_with_its_keys_in_order(store: Store) -> None:
    await store.register(playbook())

    plan = await store.plan("digest of one")
    assert plan == {"v": 1, "plan": {"z": 1, "a": "one"}}
    assert list(plan["plan"]) == ["z", "a"]
    assert await store.plan("no such digest") is None


async def test_playbooks_are_listed_by_path_page_by_page_in_their_latest_version(store: Store) -> None:
    for path in ("c", "a", "b"):
        await store.register(playbook(path))
    await store.register(playbook("a", "two"))

    first = await store.playbooks(limit=2)
    second = await store.playbooks(limit=2, cursor=first.cursor)
    assert [(item.path, item.version) for item in first.items] == [("a", 2), ("b", 1)]
    assert [(item.path, item.version) for item in second.items] == [("c", 1)]
    assert second.cursor is None


async def test_a_text_with_nul_is_refused(store: Store) -> None:
    with pytest.raises(RejectedError, match="NUL"):
        await store.register(playbook(source="a\0b"))


async def test_executions_are_created_with_their_requests_unapplied(store: Store) -> None:
    workload = {"b": 1, "a": [1.0, 1e16, 10**400, "é \\u0000"]}
    wanted = [new_execution(workload=workload), new_execution(labels={"k": "v"}, parent={"execution_id": new_id()})]

    made = await store.create_executions(wanted)

    assert [item.execution_id for item in made] == [item.execution_id for item in wanted]
    assert not any(item.existed for item in made)
    async with store.deciding([item.execution_id for item in wanted]) as batch:
        (fact,) = batch.unapplied[wanted[0].execution_id]
        assert isinstance(fact.payload, p.ExecutionRequested)
        assert fact.payload.workload == workload
        assert list(fact.payload.workload) == ["b", "a"]
        assert [type(item) for item in fact.payload.workload["a"]] == [float, float, int, str]
        assert fact.seq is None
        assert batch.executions[wanted[0].execution_id].version == 0


async def test_an_execution_that_was_created_before_is_not_created_again(store: Store) -> None:
    wanted = new_execution()
    await store.create_executions([wanted])

    (again,) = await store.create_executions([wanted])

    assert again.existed
    assert len((await apply_all(store, wanted.execution_id))[wanted.execution_id]) == 1


async def test_an_idempotency_key_gives_the_first_execution(store: Store) -> None:
    first, second, third = (new_execution(idempotency_key="key") for _ in range(3))

    (made,) = await store.create_executions([first])
    again, other = await store.create_executions([second, new_execution(idempotency_key="other")])

    assert (made.existed, again.existed, other.existed) == (False, True, False)
    assert again.execution_id == first.execution_id
    assert await store.execution(second.execution_id) is None
    assert (await store.create_executions([third, third]))[1].execution_id == first.execution_id


async def test_one_key_twice_in_one_request_is_one_execution(store: Store) -> None:
    first, second = (new_execution(idempotency_key="key") for _ in range(2))

    made = await store.create_executions([first, second])

    assert {item.execution_id for item in made} == {first.execution_id}
    assert [item.existed for item in made] == [False, True]


async def test_of_many_who_use_one_key_at_once_one_creates(store: Store) -> None:
    made = await asyncio.gather(
        *(store.create_executions([new_execution(idempotency_key="key"), new_execution()]) for _ in range(8))
    )

    assert len({answers[0].execution_id for answers in made}) == 1
    assert sum(not answers[0].existed for answers in made) == 1
    assert not any(answers[1].existed for answers in made)


async def test_executions_of_one_request_are_created_all_or_none(store: Store) -> None:
    good = new_execution()

    with pytest.raises(RejectedError):
        await store.create_executions([good, new_execution(workload={"x": float("nan")})])

    assert await store.execution(good.execution_id) is None


async def test_a_request_that_is_no_request_is_refused(store: Store) -> None:
    wrong = replace(new_execution(), requested=signal(new_id()))

    with pytest.raises(RejectedError, match=r"execution\.requested"):
        await store.create_executions([wrong])


async def test_a_fact_said_twice_is_stored_once(store: Store) -> None:
    execution = await created(store)
    fact = signal(execution)

    first = await store.append_facts([fact, fact])
    second = await store.append_facts([fact, signal(execution)])

    assert first.new == {fact.event_id}
    assert len(second.new) == 1
    assert fact.event_id not in second.new
    assert len((await apply_all(store, execution))[execution]) == 3


async def test_a_fact_that_was_applied_or_ignored_is_not_new_again(store: Store) -> None:
    execution = await created(store)
    applied, ignored = signal(execution), signal(execution)
    await apply_all(store, execution)
    await store.append_facts([applied, ignored])
    async with store.deciding([execution]) as batch:
        record(batch, execution, batch.unapplied[execution][0], ignored=(ignored.identity,))

    assert (await store.append_facts([applied, ignored])).new == frozenset()
    assert (await apply_all(store, execution))[execution] == []


async def test_facts_are_given_in_the_order_they_were_stored(store: Store) -> None:
    execution = await created(store)
    await apply_all(store, execution)
    facts = [signal(execution, f"s{i}") for i in range(50)]

    await store.append_facts(facts[:30])
    await store.append_facts(facts[30:])

    given = (await apply_all(store, execution))[execution]
    assert [fact.event_id for fact in given] == [fact.event_id for fact in facts]


async def test_facts_of_executions_that_nobody_knows_are_named_and_left_out(store: Store) -> None:
    execution, nobody = await created(store), new_id()
    known = signal(execution)

    answer = await store.append_facts([signal(nobody), known, signal(nobody)])

    assert answer.new == {known.event_id}
    assert answer.unknown == {nobody}


async def test_no_facts_are_no_trouble(store: Store) -> None:
    assert (await store.append_facts([])).new == frozenset()
    assert await store.create_executions([]) == []


async def test_the_same_facts_stored_by_many_at_once_in_any_order_are_stored_once(store: Store) -> None:
    execution = await created(store)
    facts = [signal(execution, f"s{i}") for i in range(60)]
    orders = [facts, facts[::-1], facts[30:] + facts[:30], facts[::2] + facts[1::2]] * 3

    answers = await asyncio.gather(*(store.append_facts(order) for order in orders))

    assert sum(len(answer.new) for answer in answers) == len(facts)


async def test_every_part_of_a_fact_comes_back(store: Store) -> None:
    execution = await created(store)
    address = Address("fetch", 2, 17, "run", 3, 4)
    when = datetime(2024, 2, 29, 12, 30, 15, 123456, tzinfo=UTC)
    fact = replace(
        started(new_job(execution, address=address), "wörker"),
        occurred_at=when,
        parent_event_id=new_id(),
        retry_sequence_id="fetch~2[17].run@3",
        meta={"queue_meta": {"job_id": "x"}, "context": {"workload": {"a": 1}}, "trace": {"traceparent": "00-1"}},
    )

    await store.append_facts([fact])

    assert (await apply_all(store, execution))[execution][1] == fact


async def test_a_fact_without_a_time_gets_the_time_it_was_stored_at(store: Store) -> None:
    execution = await created(store)
    before = datetime.now(UTC)

    await store.append_facts([signal(execution)])

    given = (await apply_all(store, execution))[execution][1]
    assert given.occurred_at is not None
    assert abs((given.occurred_at - before).total_seconds()) < 60


def facts_that_cannot_be_stored(execution: str) -> dict[str, Event]:
    good = signal(execution)
    return {
        "NUL": signal(execution, payload={"a": ["b", {"c": "x\0y"}]}),
        "NUL in a key": signal(execution, payload={"x\0y": 1}),
        "half of a surrogate": signal(execution, payload="\ud800"),
        "NaN": signal(execution, payload=float("nan")),
        "Infinity": signal(execution, payload=[float("-inf")]),
        "no JSON": signal(execution, payload={1, 2}),
        "too large a number": signal(execution, payload=10**5000),
        "too deep": signal(execution, payload=nested(10_000)),
        "no id": replace(good, event_id=None),
        "an id that is none": replace(good, event_id="e1"),
        "an execution that is none": replace(good, execution_id="nope"),
        "a parent that is none": replace(good, parent_event_id="nope"),
        "a time without a zone": replace(good, occurred_at=datetime(2024, 1, 1)),  # noqa: DTZ001
        "a source with NUL": replace(good, source="a\0"),
        "too large an iteration": replace(good, address=Address("a", 1, 2**40)),
        "a sequence with half a surrogate": replace(good, retry_sequence_id="\udfff"),
        "meta with NaN": replace(good, meta={"x": float("nan")}),
    }


def nested(depth: int) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = [value]
    return value


@pytest.mark.parametrize("what", facts_that_cannot_be_stored(new_id()))
async def test_what_cannot_be_stored_is_refused_and_nothing_of_its_batch_is_stored(store: Store, what: str) -> None:
    execution = await created(store)
    bad = facts_that_cannot_be_stored(execution)[what]

    with pytest.raises(RejectedError):
        await store.append_facts([signal(execution), bad])

    assert len((await apply_all(store, execution))[execution]) == 1


@pytest.mark.parametrize(
    "value", [10**400, -(10**400), 1e308, 5e-324, 1.0, -0.0, "\\u0000", "\x01\x1f", "𝕏", {"": {}}, [[]], nested(500)]
)
async def test_whatever_json_holds_comes_back_the_same(store: Store, value: Any) -> None:
    execution = await created(store)

    await store.append_facts([signal(execution, payload=value)])

    said = (await apply_all(store, execution))[execution][1].payload
    assert isinstance(said, p.SignalReceived)
    assert said.payload == value
    assert type(said.payload) is type(value)


async def test_a_store_that_is_there_can_be_pinged_and_prepared(store: Store) -> None:
    await store.ping()
    await store.prepare(6)
    await store.prepare(6)
