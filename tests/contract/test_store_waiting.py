"""What every store promises about work that waits, and about messages that died."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta

import pytest

from shared.contracts.jobs import Job, job_from_json
from shared.store.port import Store
from shared.store.records import DeadLetter
from tests.support.storing import apply_all, created, new_id, new_job, queued, started

pytest_plugins = ("tests.support.stores",)

HOUR = timedelta(hours=1)


async def waiting(store: Store, *offsets: timedelta, is_published: bool = True) -> list[Job]:
    execution = await created(store)
    await apply_all(store, execution)
    now = datetime.now(UTC)
    jobs = [
        new_job(execution, f"s{n}", available_at=now + offset, delay_s=max(0.0, offset.total_seconds()))
        for n, offset in enumerate(offsets)
    ]
    await queued(store, execution, *jobs, published=is_published)
    return jobs


@pytest.mark.parametrize("offset", [timedelta(seconds=30), 5 * HOUR])
async def test_a_job_that_waits_gets_another_time_and_is_no_longer_published(store: Store, offset: timedelta) -> None:
    (job,) = await waiting(store, HOUR)
    when = (await store.now()) + offset

    row = await store.retime(job.job_id, when, 1.0)

    assert row is not None
    assert (row.available_at, row.published_at) == (when, None)
    sent = job_from_json(row.message)
    assert sent.available_at == when
    assert sent.delay_s == pytest.approx(offset.total_seconds(), abs=5)
    assert await store.job(job.job_id) == row


async def test_a_job_without_a_time_is_never_due_and_can_be_given_one(store: Store) -> None:
    (job,) = await waiting(store, HOUR)

    never = await store.retime(job.job_id, None, 1.0)
    assert never is not None
    assert (never.available_at, job_from_json(never.message).delay_s) == (None, 0.0)
    assert await store.take_due_within(24 * 3600, 10) == []
    again = await store.retime(job.job_id, (await store.now()) + HOUR, 1.0)

    assert again is not None


async def test_a_job_that_is_due_or_has_begun_keeps_its_time(store: Store) -> None:
    due, begun, soon = await waiting(store, -HOUR, HOUR, timedelta(seconds=5))
    await store.append_facts([started(begun)])
    await apply_all(store, begun.execution_id)

    for job, margin in ((due, 0.0), (begun, 0.0), (soon, 10.0)):
        before = await store.job(job.job_id)
        assert await store.retime(job.job_id, None, margin) is None
        assert await store.job(job.job_id) == before
    assert await store.retime(new_id(), None, 0.0) is None


async def test_only_jobs_that_nobody_has_begun_are_queued_and_each_is_taken_once(store: Store) -> None:
    first, begun, second = await waiting(store, -2 * HOUR, -HOUR, -HOUR)
    await store.append_facts([started(begun)])
    await apply_all(store, begun.execution_id)
    names = [second.job_id, begun.job_id, first.job_id, new_id()]

    assert [row.job_id for row in await store.queued_jobs(names)] == [first.job_id, second.job_id]
    taken = await asyncio.gather(*(store.take_queued(names, 10.0) for _ in range(3)))
    assert sorted(name for some in taken for name in some) == sorted([first.job_id, second.job_id])
    assert await store.queued_jobs([]) == []
    assert await store.take_queued([], 10.0) == frozenset()


def letter(name: str) -> DeadLetter:
    return DeadLetter(new_id(), name, "unreadable", "why", "e", "k", None, "application/json", {"a": "b"}, b"\0\xff")


async def test_dead_letters_are_kept_once_and_come_back_as_they_were(store: Store) -> None:
    one, two = letter("one"), letter("two")

    assert [await store.keep_dead_letters(some) for some in ([], [one], [one, two])] == [0, 1, 1]

    found = await store.dead_letter(one.dead_letter_id)
    assert found is not None
    assert found.letter == one
    assert [await store.discard_dead_letter(one.dead_letter_id) for _ in "12"] == [True, False]
    assert [row.letter for row in (await store.dead_letters()).items] == [two]


async def test_dead_letters_are_read_in_pages_the_newest_first(store: Store) -> None:
    letters = [letter(f"m{number}") for number in range(5)]
    for each in letters:
        await store.keep_dead_letters([each])

    first = await store.dead_letters(3)
    rest = await store.dead_letters(3, first.cursor)

    assert [row.letter.message_id for row in [*first.items, *rest.items]] == ["m4", "m3", "m2", "m1", "m0"]
    assert rest.cursor is None


async def test_the_oldest_dead_letters_make_room(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("memory", "postgres"):
        monkeypatch.setattr(f"shared.store.{module}.dead_letters.MAX_DEAD_LETTERS", 2)
    for number in range(4):
        await store.keep_dead_letters([letter(f"m{number}")])

    assert [row.letter.message_id for row in (await store.dead_letters()).items] == ["m3", "m2"]
