"""Looking at what is kept in memory."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from datetime import UTC, datetime

from typing_extensions import override

from shared.contracts.events import Event
from shared.store.encoding import checked_text, checked_uuid, cursor_of, json_text, parts_of, time_and_id
from shared.store.memory.kept import copied, event_of
from shared.store.memory.results import MemoryResults
from shared.store.port import Reading
from shared.store.records import ExecutionFilter, ExecutionRow, IteratorRow, JobFilter, JobRow, Page, PoolLoad, RetryRow

NEVER = datetime.max.replace(tzinfo=UTC)


class MemoryReading(MemoryResults, Reading):
    """Executions, events, jobs, results."""

    @override
    async def execution(self, execution_id: str) -> ExecutionRow | None:
        kept = self._executions.get(checked_uuid(execution_id, "execution_id"))
        return None if kept is None else _own(kept.row)

    @override
    async def executions(
        self, wanted: ExecutionFilter | None = None, limit: int = 100, cursor: str | None = None
    ) -> Page[ExecutionRow]:
        wanted = wanted or ExecutionFilter()
        for text in (wanted.status, wanted.path, wanted.q):
            checked_text(text or "", "the filter")
        found = [kept.row for kept in self._executions.values() if _matches(kept.row, wanted)]
        found.sort(key=lambda row: (row.created_at, row.execution_id), reverse=True)
        if cursor is not None:
            place = time_and_id(cursor)
            found = [row for row in found if (row.created_at, row.execution_id) < place]
        shown = [_own(row) for row in found[:limit]]
        more = len(found) > limit
        return Page(shown, cursor_of(shown[-1].created_at, shown[-1].execution_id) if more else None)

    @override
    async def events(
        self,
        execution_id: str,
        *,
        types: Collection[str] | None = None,
        step: str | None = None,
        after: int = 0,
        limit: int = 1000,
    ) -> list[Event]:
        kept = self._executions.get(checked_uuid(execution_id, "execution_id"))
        log = kept.log[max(0, after) :] if kept is not None else []
        found = [k for k in log if (types is None or k.row.type in types) and (step is None or k.row.step == step)]
        return [event_of(item) for item in found[:limit]]

    @override
    async def jobs(self, wanted: JobFilter | None = None, limit: int = 100, cursor: str | None = None) -> Page[JobRow]:
        wanted = wanted or JobFilter()
        if wanted.execution_id is not None:
            checked_uuid(wanted.execution_id, "execution_id")
        found = sorted((row for row in self._jobs.values() if self._is_wanted(row, wanted)), key=due)
        if cursor is not None:
            last = parts_of(cursor, 2)
            place = (NEVER, checked_uuid(last[1], "cursor")) if last[0] is None else time_and_id(cursor)
            found = [row for row in found if due(row) > place]
        return page_of_jobs(found, limit)

    @override
    async def job(self, job_id: str) -> JobRow | None:
        return self._jobs.get(checked_uuid(job_id, "job_id"))

    @override
    async def pool_loads(self) -> list[PoolLoad]:
        now, out = self._now(), []
        alive = [row for row in self._jobs.values() if row.status in ("queued", "leased")]
        for pool in sorted({row.pool for row in alive}):
            mine = [row for row in alive if row.pool == pool]
            leased = sum(row.status == "leased" for row in mine)
            waiting = [due(row)[0] for row in mine if row.status == "queued" and due(row)[0] <= now]
            delayed = len(mine) - leased - len(waiting)
            out.append(PoolLoad(pool, len(waiting), delayed, leased, min(waiting, default=None)))
        return out

    @override
    async def iterators(self, execution_id: str) -> list[IteratorRow]:
        identity = checked_uuid(execution_id, "execution_id")
        return [
            IteratorRow(node, it.iterator_name, it.total or 0, it.completed, it.failed, it.status)
            for (owner, node), it in sorted(self._loops.items())
            if owner == identity
        ]

    @override
    async def retries(self, execution_id: str) -> list[RetryRow]:
        identity = checked_uuid(execution_id, "execution_id")
        return [
            RetryRow(
                sequence, it.step_name, it.current_attempt, it.max_attempts or 1, it.last_error, it.status,
                it.available_at,
            )
            for (owner, sequence), it in sorted(self._retries.items())
            if owner == identity
        ]  # fmt: skip

    def _is_wanted(self, row: JobRow, wanted: JobFilter) -> bool:
        is_delayed = row.status == "queued" and (row.available_at or NEVER) > self._now()
        return (
            (wanted.state is None or (is_delayed if wanted.state == "delayed" else row.status == wanted.state))
            and wanted.pool in (None, row.pool)
            and wanted.execution_id in (None, row.execution_id)
        )


def due(row: JobRow) -> tuple[datetime, str]:
    """Return a job's place in the order of due times."""
    return row.available_at or NEVER, row.job_id


def page_of_jobs(found: list[JobRow], limit: int) -> Page[JobRow]:
    """Return the first jobs and where the others begin."""
    shown = found[:limit]
    return Page(shown, cursor_of(shown[-1].available_at, shown[-1].job_id) if len(found) > limit else None)


def _own(row: ExecutionRow) -> ExecutionRow:
    return replace(row, labels=dict(row.labels), failure=copied(row.failure), result=copied(row.result))


def _matches(row: ExecutionRow, wanted: ExecutionFilter) -> bool:
    searched = (row.path, "" if row.failure is None else json_text(row.failure, "failure"), row.execution_id)
    return (
        wanted.status in (None, row.status)
        and wanted.path in (None, row.path)
        and all(row.labels.get(key) == value for key, value in wanted.labels.items())
        and (wanted.since is None or row.created_at >= wanted.since)
        and (wanted.q is None or any(wanted.q.lower() in text.lower() for text in searched))
    )
