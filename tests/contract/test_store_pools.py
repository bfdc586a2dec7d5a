"""What every store promises about pools: what there is to do in each, and which jobs nobody is there to take."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from shared.store.port import Store
from tests.support.storing import apply_all, created, new_job, queued, started

pytest_plugins = ("tests.support.stores",)

LONG_AGO, LATER = timedelta(hours=-1), timedelta(hours=1)


async def with_jobs(store: Store) -> tuple[str, list[str]]:
    """Store jobs of the pool gpu: two that are overdue, one that is begun, one that is due later."""
    execution = await created(store)
    await apply_all(store, execution)
    now = datetime.now(UTC)
    offsets = {"second": LONG_AGO + timedelta(seconds=1), "first": LONG_AGO, "begun": LONG_AGO, "later": LATER}
    jobs = [
        new_job(execution, step, pool="gpu", available_at=now + offset, delay_s=max(0.0, offset.total_seconds()))
        for step, offset in offsets.items()
    ]
    await queued(store, execution, *jobs, published=True)
    await store.append_facts([started(jobs[2])])
    await apply_all(store, execution)
    return execution, [jobs[1].job_id, jobs[0].job_id]


async def test_a_pool_has_what_waits_what_is_delayed_and_what_is_begun(store: Store) -> None:
    assert await store.pool_loads() == []
    await with_jobs(store)

    (load,) = await store.pool_loads()

    assert (load.pool, load.waiting, load.delayed, load.leased) == ("gpu", 2, 1, 1)
    assert load.oldest_due is not None
    assert load.oldest_due < datetime.now(UTC)


async def test_a_job_without_a_time_is_delayed_and_belongs_to_its_own_pool(store: Store) -> None:
    execution, _ = await with_jobs(store)
    await queued(store, execution, new_job(execution, "signal", pool="default", available_at=None))

    loads = await store.pool_loads()

    assert [(load.pool, load.waiting, load.delayed, load.oldest_due is None) for load in loads] == [
        ("default", 0, 1, True),
        ("gpu", 2, 1, False),
    ]


async def test_overdue_jobs_are_found_in_due_order_until_they_are_marked(store: Store) -> None:
    _, overdue = await with_jobs(store)

    assert [row.job_id for row in await store.unserved("gpu", 2, 10)] == overdue
    assert [row.job_id for row in await store.unserved("gpu", 2, 1)] == overdue[:1]
    assert await store.unserved("default", 2, 10) == []

    await store.mark_unserved(overdue[:1])
    await store.mark_unserved(overdue[:1])

    assert [row.job_id for row in await store.unserved("gpu", 2, 10)] == overdue[1:]
