"""The Postgres store when the database goes away, comes back, is slow, or breaks in the middle."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Any

import pytest

from shared.contracts import payloads as p
from shared.errors import ConflictError, RedriveError, UnavailableError
from shared.runtime.embedded import PrivatePostgres
from shared.store.connecting import Limits
from shared.store.migrate import upgrade
from shared.store.postgres.store import PostgresStore
from shared.store.records import DecisionRecord
from tests.support.eventually import eventually
from tests.support.postgres import connect, execute, fetch, private_server
from tests.support.storing import apply_all, created, decide, new_execution, new_job, queued, record, signal

pytest_plugins = ("tests.support.stores",)

OTHERS = "FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
CUT = f"SELECT pg_terminate_backend(pid) {OTHERS}"


@pytest.fixture
async def store(database: str) -> AsyncIterator[PostgresStore]:
    found = PostgresStore.connect(database, limits=Limits(pool_size=4, pool_wait_s=0.5, statement_s=2, lock_s=0.5))
    yield found
    await found.close()


@pytest.fixture
def own_server() -> Iterator[PrivatePostgres]:
    """Give a server that a test may break."""
    with private_server() as server:
        yield server


async def test_a_connection_that_was_cut_while_idle_is_not_noticed(store: PostgresStore, database: str) -> None:
    execution = await created(store)

    for _ in range(3):
        await execute(database, CUT)
        await eventually(lambda: _quiet(database))
        await store.append_facts([signal(execution)])

    assert len((await apply_all(store, execution))[execution]) == 4


async def _quiet(database: str) -> bool:
    rows = await fetch(database, f"SELECT {OTHERS}")
    return not rows


async def test_a_connection_cut_before_the_commit_leaves_nothing_and_says_unavailable(
    store: PostgresStore, database: str
) -> None:
    execution = await created(store)

    async def attempt() -> None:
        async with store.deciding([execution]) as batch:
            record(batch, execution, *batch.unapplied[execution], jobs=[new_job(execution)])
            await execute(database, CUT)

    with pytest.raises(UnavailableError):
        await attempt()

    row = await store.execution(execution)
    assert row is not None
    assert row.version == 0
    assert (await store.jobs()).items == []


async def test_a_commit_whose_answer_was_lost_is_found_when_looked_for(
    store: PostgresStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    execution = await created(store)
    commit = asyncpg_transaction().commit

    async def commit_and_lose_the_answer(self: Any) -> None:
        await commit(self)
        self._connection.terminate()
        raise ConnectionResetError("the wire was cut")

    with monkeypatch.context() as patch:
        patch.setattr(asyncpg_transaction(), "commit", commit_and_lose_the_answer)
        with pytest.raises(UnavailableError):
            await apply_all(store, execution)

    row = await store.execution(execution)
    assert row is not None
    assert row.version == 1
    assert (await apply_all(store, execution))[execution] == []


def asyncpg_transaction() -> Any:
    from asyncpg.transaction import Transaction

    return Transaction


async def test_a_caller_that_is_cancelled_leaves_nothing_and_gives_its_connection_back(store: PostgresStore) -> None:
    execution = await created(store)
    inside = asyncio.Event()

    async def decide_forever() -> None:
        async with store.deciding([execution]) as batch:
            record(batch, execution, *batch.unapplied[execution])
            inside.set()
            await asyncio.Event().wait()

    for _ in range(10):
        inside.clear()
        task = asyncio.create_task(decide_forever())
        await inside.wait()
        task.cancel()
        await asyncio.wait([task])
        assert task.cancelled()

    assert len((await apply_all(store, execution))[execution]) == 1


async def test_callers_cancelled_at_any_moment_do_not_use_up_the_pool(store: PostgresStore) -> None:
    execution = await created(store)

    for turn in range(60):
        task = asyncio.create_task(apply_all(store, execution))
        for _ in range(turn % 20):
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait([task])

    await asyncio.gather(*(store.append_facts([signal(execution)]) for _ in range(20)))


async def test_a_lock_that_is_held_too_long_is_a_conflict(store: PostgresStore, database: str) -> None:
    execution = await created(store)
    other = await connect(database)
    transaction = other.transaction()
    await transaction.start()
    await other.execute("SELECT FROM redrive.execution FOR UPDATE")

    with pytest.raises(ConflictError):
        await apply_all(store, execution)

    await transaction.rollback()
    await other.close()
    assert len((await apply_all(store, execution))[execution]) == 1


async def test_a_statement_that_takes_too_long_is_unavailable(database: str) -> None:
    store = PostgresStore.connect(database, limits=Limits(statement_s=0.2, lock_s=30))
    execution = await created(store)
    other = await connect(database)
    await other.execute("BEGIN")
    await other.execute("LOCK TABLE redrive.event IN ACCESS EXCLUSIVE MODE")

    with pytest.raises(UnavailableError):
        await store.append_facts([signal(execution)])

    await other.close()
    await store.close()


async def test_a_pool_that_is_used_up_is_unavailable_and_recovers(store: PostgresStore) -> None:
    executions = [await created(store) for _ in range(5)]
    inside, go_on = asyncio.Semaphore(0), asyncio.Event()

    async def hold(execution: str) -> None:
        async with store.deciding([execution]):
            inside.release()
            await go_on.wait()

    holders = [asyncio.create_task(hold(execution)) for execution in executions[:4]]
    for _ in holders:
        await inside.acquire()
    with pytest.raises(UnavailableError):
        await store.append_facts([signal(executions[4])])
    go_on.set()
    await asyncio.gather(*holders)

    assert (await store.append_facts([signal(executions[4])])).new


async def test_a_decision_taken_beside_the_lock_is_refused_by_the_index(store: PostgresStore, database: str) -> None:
    execution = await created(store)
    await apply_all(store, execution)
    await decide(store, execution, p.ExecutionStarted("a"))
    await execute(database, "UPDATE redrive.execution SET version = 1")

    with pytest.raises(ConflictError):
        await decide(store, execution, p.ExecutionStarted("a"))


async def test_a_sweeper_waits_for_nobody(store: PostgresStore) -> None:
    execution = await created(store)
    await apply_all(store, execution)
    job = new_job(execution)
    await queued(store, execution, job)

    async with store.deciding([execution]) as batch:
        fired = DecisionRecord(batch.executions[execution].version, "running", fired=(job.job_id,))
        batch.record(execution, fired)
        began = time.monotonic()
        await batch.write()  # type: ignore[attr-defined]
        assert await store.take_unpublished(0, 60, 10) == []
        await store.mark_published([job.job_id])
        assert time.monotonic() - began < 0.4


async def kept_trying(work: Callable[[], Awaitable[Any]], until: float = 60.0) -> Any:
    """Return what the work returns, once the database is there."""
    deadline = time.monotonic() + until
    while True:
        try:
            return await work()
        except UnavailableError:
            assert time.monotonic() < deadline
            await asyncio.sleep(0.02)


async def test_a_database_that_crashes_again_and_again_loses_and_doubles_nothing(own_server: PrivatePostgres) -> None:
    await upgrade(own_server.url())
    store = PostgresStore.connect(own_server.url(), limits=Limits(pool_size=4))
    executions = [new_execution() for _ in range(4)]
    await store.create_executions(executions)
    facts = [signal(item.execution_id, f"s{i}") for i in range(100) for item in executions]
    done = asyncio.Event()

    async def ingest() -> None:
        for at in range(0, len(facts), 4):
            await kept_trying(lambda at=at: store.append_facts(facts[at : at + 4]))  # type: ignore[misc]
        done.set()

    async def orchestrate() -> None:
        ids = [item.execution_id for item in executions]
        while True:
            was_done = done.is_set()
            found = await kept_trying(lambda: apply_all(store, *ids))
            if was_done and not any(found.values()):
                return

    async def break_things() -> None:
        for _ in range(4):
            await asyncio.sleep(0.1)
            await asyncio.to_thread(own_server.kill)
            await asyncio.to_thread(own_server.start)

    await asyncio.gather(ingest(), orchestrate(), orchestrate(), break_things())

    for item in executions:
        events = await store.events(item.execution_id)
        assert [event.seq for event in events] == list(range(1, 102))
        names = [event.payload.name for event in events[1:] if isinstance(event.payload, p.SignalReceived)]
        assert names == [f"s{i}" for i in range(100)]
    await store.close()


async def test_a_database_that_is_stopped_is_unavailable_to_every_caller(own_server: PrivatePostgres) -> None:
    await upgrade(own_server.url())
    store = PostgresStore.connect(own_server.url())
    execution = await created(store)
    await asyncio.to_thread(own_server.stop)

    calls: list[Callable[[], Awaitable[Any]]] = [
        store.ping,
        lambda: store.append_facts([signal(execution)]),
        lambda: apply_all(store, execution),
        lambda: store.executions(),
        lambda: store.result("sha256:x"),
        lambda: store.stale_facts(1, 1),
        lambda: store.create_executions([new_execution()]),
    ]
    for call in calls:
        with pytest.raises(RedriveError) as caught:
            await call()
        assert isinstance(caught.value, UnavailableError)

    await asyncio.to_thread(own_server.start)
    assert len((await apply_all(store, execution))[execution]) == 1
    await store.close()
