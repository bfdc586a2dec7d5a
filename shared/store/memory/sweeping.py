"""The sweep in memory."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Collection
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import replace
from datetime import datetime, timedelta
from itertools import groupby

from typing_extensions import override

from shared.store.encoding import checked_text, checked_uuid, retimed_message, time_and_id
from shared.store.memory.kept import Memory
from shared.store.memory.reading import due, page_of_jobs
from shared.store.port import TAKEN_S, Sweeping
from shared.store.records import Beat, JobRow, OverduePool, Page, WorkerRow

STARTED = ("leased", "completed", "dead")


class MemorySweeping(Memory, Sweeping):
    """Publications, leases, recoveries, signs of life."""

    @override
    async def mark_published(self, job_ids: Collection[str]) -> None:
        for job_id in job_ids:
            row = self._jobs.get(job_id)
            if row is not None and row.status == "queued" and row.published_at is None:
                self._jobs[job_id] = replace(row, published_at=self._now())

    @override
    async def extend_leases(self, worker_id: str, job_ids: Collection[str], lease_s: float) -> frozenset[str]:
        checked_text(worker_id, "worker")
        held = []
        for job_id in {checked_uuid(item, "job_id") for item in job_ids}:
            row = self._jobs.get(job_id)
            if row is None or row.status not in ("queued", "leased"):
                continue
            if row.status == "leased" and row.worker_id not in (None, worker_id):
                continue
            now = self._now()
            lease = self._ahead(lease_s)
            self._jobs[job_id] = replace(row, status="leased", worker_id=worker_id, lease_until=lease, updated_at=now)
            held.append(job_id)
        return frozenset(held)

    @override
    async def take_unpublished(self, older_than_s: float, horizon_s: float, limit: int) -> list[JobRow]:
        horizon = timedelta(seconds=horizon_s)
        before, now = self._ago(older_than_s), self._now()
        at_work = {
            (row.execution_id, row.created_at)
            for row in self._jobs.values()
            if row.published_at is not None and row.published_at > before
        }

        def is_lost(row: JobRow) -> bool:
            return (
                row.status == "queued"
                and (row.execution_id, row.created_at) not in at_work
                and row.published_at is None
                and row.created_at < before
                and row.available_at is not None
                and (row.available_at <= row.created_at + horizon or row.available_at <= now)
            )

        return self._take(is_lost, _due_time, TAKEN_S, limit)

    @override
    async def take_due_within(self, horizon_s: float, limit: int) -> list[JobRow]:
        horizon, end = timedelta(seconds=horizon_s), self._ahead(horizon_s)

        def is_near(row: JobRow) -> bool:
            return (
                row.status == "queued"
                and row.published_at is None
                and row.available_at is not None
                and row.created_at + horizon < row.available_at <= end
            )

        return self._take(is_near, _due_time, TAKEN_S, limit)

    @override
    async def overdue(self, grace_s: float) -> list[OverduePool]:
        late = sorted((row for row in self._jobs.values() if self._is_late(row, grace_s)), key=lambda row: row.pool)
        out = []
        for pool, group in groupby(late, key=lambda row: row.pool):
            times = [_due_time(row) for row in group]
            started = [
                row.available_at
                for row in self._jobs.values()
                if row.pool == pool and row.status in STARTED and row.available_at and row.available_at >= min(times)
            ]
            out.append(OverduePool(pool, len(times), min(times), max(started, default=None)))
        return out

    def _is_late(self, row: JobRow, grace_s: float) -> bool:
        is_out = row.status == "queued" and row.published_at is not None
        return is_out and row.available_at is not None and row.available_at < self._ago(grace_s)

    @override
    async def take_overdue(self, pool: str, due_before: datetime, grace_s: float, limit: int) -> list[JobRow]:
        def is_stuck(row: JobRow) -> bool:
            is_told_of = bool(self._executions[row.execution_id].unapplied)
            return row.pool == pool and self._is_late(row, grace_s) and _due_time(row) < due_before and not is_told_of

        return self._take(is_stuck, _due_time, grace_s, limit)

    @override
    async def queued_jobs(self, job_ids: Collection[str]) -> list[JobRow]:
        rows = [self._jobs[job_id] for job_id in set(job_ids) if job_id in self._jobs]
        return sorted((row for row in rows if row.status == "queued"), key=due)

    @override
    async def take_queued(self, job_ids: Collection[str], for_s: float) -> frozenset[str]:
        wanted = {row.job_id for row in await self.queued_jobs(job_ids)}
        taken = self._take(lambda row: row.job_id in wanted, _due_time, for_s, len(wanted))
        return frozenset(row.job_id for row in taken)

    @override
    async def retime(self, job_id: str, available_at: datetime | None, at_least_s: float) -> JobRow | None:
        row = self._jobs.get(checked_uuid(job_id, "job_id"))
        if row is None or row.status != "queued" or due(row)[0] <= self._ahead(at_least_s):
            return None
        now = self._now()
        message = retimed_message(row.message, available_at, now)
        row = replace(row, available_at=available_at, published_at=None, message=message, updated_at=now)
        self._jobs[row.job_id] = row
        self._swept[row.job_id] = now
        return row

    @override
    async def unserved(self, pool: str, grace_s: float, limit: int) -> list[JobRow]:
        late = [row for row in self._jobs.values() if row.pool == pool and self._is_late(row, grace_s)]
        return sorted((row for row in late if row.job_id not in self._unserved), key=due)[:limit]

    @override
    async def mark_unserved(self, job_ids: Collection[str]) -> None:
        self._unserved.update(self._jobs.keys() & set(job_ids))

    @override
    async def take_lapsed(self, silent_s: float, limit: int) -> list[JobRow]:
        heard = {name for name, (_, _, seen_at) in self._workers.items() if seen_at > self._ago(silent_s)}
        now = self._now()

        def is_lapsed(row: JobRow) -> bool:
            is_out = row.status == "leased" and row.lease_until is not None and row.lease_until < now
            return is_out and row.worker_id not in heard

        return self._take(is_lapsed, lambda row: row.lease_until or now, TAKEN_S, limit)

    def _take(
        self, is_wanted: Callable[[JobRow], bool], order: Callable[[JobRow], datetime], for_s: float, limit: int
    ) -> list[JobRow]:
        free_since = self._ago(for_s)
        free = [
            row for row in self._jobs.values() if row.job_id not in self._swept or self._swept[row.job_id] < free_since
        ]
        found = sorted((row for row in free if is_wanted(row)), key=order)[:limit]
        self._swept.update({row.job_id: self._now() for row in found})
        return sorted(found, key=due)

    @override
    async def stale_facts(self, older_than_s: float, limit: int) -> list[str]:
        before = self._ago(older_than_s)
        found: list[tuple[datetime, str]] = []
        for identity, execution in self._executions.items():
            old = [
                kept.stored_at
                for kept in execution.unapplied.values()
                if kept.stored_at < before
                and (execution.row.status != "paused" or kept.row.type == "control.requested")
            ]
            if old:
                found.append((min(old), identity))
        return [identity for _, identity in sorted(found)[:limit]]

    @override
    async def outstanding(self, horizon_s: float, limit: int, cursor: str | None = None) -> Page[JobRow]:
        end = self._ahead(horizon_s)
        place = None if cursor is None else time_and_id(cursor)
        found = [
            row
            for row in sorted(self._jobs.values(), key=due)
            if (row.status == "queued" or (row.status == "leased" and row.lease_until is None))
            and row.available_at is not None
            and row.available_at <= end
            and (place is None or due(row) > place)
        ]
        return page_of_jobs(found, limit)

    @override
    def alone(self, name: str) -> AbstractAsyncContextManager[None]:
        return self._alone(name)

    @asynccontextmanager
    async def _alone(self, name: str) -> AsyncIterator[None]:
        async with self._locks.setdefault(name, asyncio.Lock()):
            yield

    @override
    async def broker_mark(self, name: str) -> str | None:
        return self._marks.get(name)

    @override
    async def set_broker_mark(self, name: str, incarnation: str) -> None:
        self._marks[name] = incarnation

    @override
    async def heartbeat(self, beat: Beat) -> None:
        _, started_at, _ = self._workers.get(beat.worker_id, (beat, self._now(), self._now()))
        self._workers[beat.worker_id] = (beat, started_at, self._now())

    @override
    async def workers(self, silent_s: float | None = None) -> list[WorkerRow]:
        since = None if silent_s is None else self._ago(silent_s)
        rows = [WorkerRow(*self._workers[name]) for name in sorted(self._workers)]
        return [row for row in rows if since is None or row.seen_at > since]


def _due_time(row: JobRow) -> datetime:
    return due(row)[0]
