"""What every store promises to the sweep: it finds what was lost, gives it to one sweeper, and says what proves it."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from shared.contracts import payloads as p
from shared.contracts.events import Event
from shared.contracts.jobs import Job
from shared.store.port import Store
from shared.store.records import Beat, JobRow
from tests.support.eventually import eventually
from tests.support.storing import apply_all, created, decide, new_id, new_job, processed, queued, signal, started

pytest_plugins = ("tests.support.stores",)

HOUR = 3600.0
SOON, LONG_AGO = timedelta(seconds=30), timedelta(hours=-1)


def due(execution: str, step: str, offset: timedelta, **more: Any) -> Job:
    delay_s = max(0.0, offset.total_seconds())
    return new_job(execution, step, **{"available_at": datetime.now(UTC) + offset, "delay_s": delay_s, **more})


def steps(rows: list[JobRow]) -> list[str]:
    return [row.node.partition("~")[0] for row in rows]


async def begun(store: Store) -> str:
    execution = await created(store)
    await apply_all(store, execution)
    return execution


async def test_jobs_that_were_never_published_are_found_after_a_grace_and_by_one_sweeper(store: Store) -> None:
    execution = await begun(store)
    await queued(store, execution, due(execution, "now", timedelta()), due(execution, "soon", SOON))
    await queued(store, execution, due(execution, "out", timedelta()), published=True)
    await queued(store, execution, due(execution, "far", timedelta(hours=2)))
    await queued(store, execution, due(execution, "signal", timedelta(), available_at=None, role="signal"))

    assert await store.take_unpublished(HOUR, HOUR, 10) == []
    taken = await asyncio.gather(*(store.take_unpublished(0, HOUR, 10) for _ in range(4)))

    assert sorted(step for rows in taken for step in steps(rows)) == ["now", "soon"]
    assert await store.take_unpublished(0, HOUR, 10) == []


async def test_no_more_jobs_are_taken_than_asked_for(store: Store) -> None:
    execution = await begun(store)
    await queued(store, execution, *(due(execution, f"s{i}", timedelta(seconds=i)) for i in range(5)))

    first = await store.take_unpublished(0, HOUR, 3)
    second = await store.take_unpublished(0, HOUR, 3)

    assert (len(first), len(second)) == (3, 2)


async def test_a_published_or_started_job_is_not_unpublished_any_more(store: Store) -> None:
    execution = await begun(store)
    published, begun_job = due(execution, "a", timedelta()), due(execution, "b", timedelta())
    await queued(store, execution, published, begun_job)
    await store.append_facts([started(begun_job)])
    await apply_all(store, execution)

    await store.mark_published([published.job_id, begun_job.job_id, new_id()])

    row, other = await store.job(published.job_id), await store.job(begun_job.job_id)
    assert row is not None
    assert other is not None
    assert row.published_at is not None
    assert other.published_at is None
    assert await store.take_unpublished(0, HOUR, 10) == []


async def test_a_long_wait_is_let_in_when_it_comes_within_the_horizon(store: Store) -> None:
    execution = await begun(store)
    await queued(store, execution, due(execution, "far", timedelta(minutes=30)), due(execution, "near", SOON))

    assert await store.take_due_within(600, 10) == []
    assert steps(await store.take_unpublished(0, 600, 10)) == ["near"]
    # A horizon that the wait was beyond when it was made, and is within now.
    later = timedelta(minutes=30) - timedelta(milliseconds=300)
    found = await eventually(lambda: store.take_due_within(later.total_seconds(), 10))
    assert steps(found) == ["far"]


async def test_a_backlog_that_nothing_overtook_proves_nothing(store: Store) -> None:
    execution = await begun(store)
    jobs = [due(execution, f"s{i}", LONG_AGO + timedelta(seconds=i)) for i in range(10)]
    await queued(store, execution, *jobs, published=True)

    (pool,) = await store.overdue(2)

    assert (pool.pool, pool.jobs, pool.started_due) == ("default", 10, None)
    assert pool.oldest_due == jobs[0].available_at


async def test_a_job_that_was_due_later_and_started_proves_that_earlier_ones_are_stuck(store: Store) -> None:
    execution = await begun(store)
    jobs = [due(execution, f"s{i}", LONG_AGO + timedelta(seconds=i)) for i in range(6)]
    other = due(execution, "other", timedelta(), pool="gpu")
    await queued(store, execution, *jobs, other, published=True)
    await store.append_facts([started(jobs[1]), started(jobs[3]), processed(jobs[3]), started(other)])
    await apply_all(store, execution)

    (pool,) = await store.overdue(2)
    assert pool.started_due == jobs[3].available_at
    assert pool.started_due is not None
    taken = await store.take_overdue("default", pool.started_due, 2, 10)

    assert steps(taken) == ["s0", "s2"]
    assert await store.take_overdue("default", pool.started_due, 2, 10) == []


async def test_work_of_another_pool_or_work_due_earlier_proves_nothing(store: Store) -> None:
    execution = await begun(store)
    waiting = due(execution, "waiting", LONG_AGO)
    earlier = due(execution, "earlier", LONG_AGO - timedelta(hours=1))
    other = due(execution, "other", timedelta(), pool="gpu")
    await queued(store, execution, waiting, earlier, other, published=True)
    await store.append_facts([started(earlier), started(other)])
    await apply_all(store, execution)

    (pool,) = await store.overdue(2)

    assert (pool.pool, pool.jobs, pool.started_due) == ("default", 1, None)


async def test_what_is_not_published_or_not_yet_late_is_not_overdue(store: Store) -> None:
    execution = await begun(store)
    await queued(store, execution, due(execution, "unpublished", LONG_AGO))
    await queued(store, execution, due(execution, "now", timedelta()), due(execution, "soon", SOON), published=True)

    assert await store.overdue(2) == []
    assert await store.take_overdue("default", datetime.now(UTC) + timedelta(days=1), 2, 10) == []


async def test_a_job_of_which_a_fact_is_not_applied_yet_is_not_taken_for_stuck(store: Store) -> None:
    execution = await begun(store)
    job = due(execution, "slow", LONG_AGO)
    await queued(store, execution, job, published=True)
    await store.append_facts([started(job)])

    (pool,) = await store.overdue(1.0)
    assert await store.take_overdue(pool.pool, datetime.now(UTC), 1.0, 10) == []


async def test_overdue_jobs_are_taken_once_by_many_sweepers(store: Store) -> None:
    execution = await begun(store)
    jobs = [due(execution, f"s{i}", LONG_AGO + timedelta(seconds=i)) for i in range(40)]
    await queued(store, execution, *jobs, published=True)

    taken = await asyncio.gather(*(store.take_overdue("default", datetime.now(UTC), 2, 15) for _ in range(4)))

    found = [row.job_id for rows in taken for row in rows]
    assert len(found) == len(set(found)) == 40


async def leased(store: Store, until: timedelta | None, worker: str = "w1", step: str = "a") -> Job:
    execution = await begun(store)
    job = due(execution, step, timedelta())
    await queued(store, execution, job, published=True)
    await store.append_facts([started(job, worker, None if until is None else datetime.now(UTC) + until)])
    await apply_all(store, execution)
    return job


async def test_a_lapsed_lease_is_found_when_its_worker_is_silent(store: Store) -> None:
    lapsed = await leased(store, LONG_AGO)
    await leased(store, timedelta(hours=1))
    await leased(store, None)

    taken = await asyncio.gather(*(store.take_lapsed(30, 10) for _ in range(3)))

    assert [row.job_id for rows in taken for row in rows] == [lapsed.job_id]


async def test_a_lapsed_lease_of_a_worker_that_is_heard_of_is_left_alone(store: Store) -> None:
    await leased(store, LONG_AGO, "alive")
    await store.heartbeat(Beat("alive", ("default",)))

    assert await store.take_lapsed(30, 10) == []
    assert len(await store.take_lapsed(-1, 10)) == 1


async def test_a_lease_is_extended_for_its_worker_only(store: Store) -> None:
    mine, others = await leased(store, LONG_AGO, "me"), await leased(store, LONG_AGO, "you")

    held = await store.extend_leases("me", [mine.job_id, others.job_id, new_id()], 60)

    assert held == {mine.job_id}
    row = await store.job(mine.job_id)
    assert row is not None
    assert row.lease_until is not None
    assert row.lease_until > datetime.now(UTC) + timedelta(seconds=30)


async def test_a_lease_on_a_job_whose_start_was_not_applied_yet_is_given(store: Store) -> None:
    execution = await begun(store)
    job = due(execution, "a", timedelta())
    await queued(store, execution, job, published=True)

    assert await store.extend_leases("w1", [job.job_id], 60) == {job.job_id}

    row = await store.job(job.job_id)
    assert row is not None
    assert (row.status, row.worker_id) == ("leased", "w1")


async def test_a_lease_on_a_cancelled_job_is_refused(store: Store) -> None:
    job = await leased(store, timedelta(hours=1))
    await decide(store, job.execution_id, p.ExecutionCancelled(), status="cancelled", cancelled=(job.job_id,))

    assert await store.extend_leases("w1", [job.job_id], 60) == frozenset()


async def test_executions_with_old_unapplied_facts_are_found_the_oldest_first(store: Store) -> None:
    first, second, done = await created(store), await created(store), await begun(store)
    await store.append_facts([signal(first), signal(second)])

    assert await store.stale_facts(HOUR, 10) == []
    assert await store.stale_facts(-60, 10) == [first, second]
    assert await store.stale_facts(-60, 1) == [first]
    assert done not in await store.stale_facts(-60, 10)


async def test_a_paused_execution_is_woken_only_for_what_is_asked_of_it(store: Store) -> None:
    execution = await begun(store)
    await decide(store, execution, p.ExecutionPaused(), status="paused")
    await store.append_facts([signal(execution)])
    assert await store.stale_facts(-60, 10) == []

    resume = Event(execution, p.ControlRequested("resume"), event_id=new_id(), source="api")
    await store.append_facts([resume])

    assert await store.stale_facts(-60, 10) == [execution]


async def test_a_wiped_broker_is_refilled_in_due_order_page_by_page(store: Store) -> None:
    execution = await begun(store)
    jobs = [due(execution, f"s{i}", timedelta(seconds=i - 5)) for i in range(6)]
    await queued(store, execution, *jobs[::-1], published=True)
    await queued(store, execution, due(execution, "far", timedelta(hours=2)))
    await queued(store, execution, due(execution, "signal", timedelta(), available_at=None, role="signal"))
    done = due(execution, "done", timedelta())
    await queued(store, execution, done, published=True)
    await store.append_facts([processed(done), started(jobs[1]), started(jobs[2], "w", datetime.now(UTC) + SOON)])
    await apply_all(store, execution)

    found: list[JobRow] = []
    cursor = None
    while True:
        page = await store.outstanding(HOUR, 2, cursor)
        found += page.items
        cursor = page.cursor
        if cursor is None:
            break

    # s1 began without a lease: its message is not acknowledged and went with the broker. s2 has a lease.
    assert steps(found) == ["s0", "s1", "s3", "s4", "s5"]


async def test_the_incarnation_of_a_broker_is_remembered(store: Store) -> None:
    assert await store.broker_mark("rabbit") is None
    await store.set_broker_mark("rabbit", "one")
    await store.set_broker_mark("rabbit", "two")
    await store.set_broker_mark("other", "three")

    assert await store.broker_mark("rabbit") == "two"


async def test_workers_are_known_by_their_latest_sign_of_life(store: Store) -> None:
    first = Beat("w1", ("default", "gpu"), 4, 1, "host", "0.1")
    await store.heartbeat(first)
    await store.heartbeat(Beat("w2", ("default",)))
    await store.heartbeat(replace(first, running=3))

    one, two = await store.workers()

    assert (one.beat.worker_id, one.beat.pools, one.beat.running) == ("w1", ("default", "gpu"), 3)
    assert one.started_at < one.seen_at
    assert two.beat.worker_id == "w2"
    assert len(await store.workers(60)) == 2
    assert await store.workers(-60) == []


async def test_one_at_a_time_is_alone_and_the_next_comes_when_it_has_gone(store: Store) -> None:
    order: list[str] = []

    async def come(name: str) -> None:
        async with store.alone("a place"):
            order.append(name)

    async with store.alone("a place"), store.alone("another place"):
        others = [asyncio.create_task(come(name)) for name in ("b", "c")]
        done, _ = await asyncio.wait(others, timeout=0.1)
        order.append("a")
    await asyncio.gather(*others)

    assert not done
    assert order[0] == "a"
    assert sorted(order) == ["a", "b", "c"]
