"""Looking at what is kept in Postgres."""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection
from typing import Any

from sqlalchemy import ColumnElement, Row, Select, String, and_, cast, func, or_, select, tuple_
from typing_extensions import override

from shared.contracts.events import Event
from shared.store.connecting import translated
from shared.store.encoding import checked_text, checked_uuid, cursor_of, parts_of, time_and_id
from shared.store.port import Reading
from shared.store.postgres.connected import Connected
from shared.store.postgres.results import loop_pages, part_on, result_on
from shared.store.records import ExecutionFilter, ExecutionRow, IteratorRow, JobFilter, JobRow, Page, PoolLoad, RetryRow
from shared.store.rows import EVENT_COLUMNS, stored_event
from shared.store.tables import event, execution, iterator_state, job, retry_state

_EXECUTION = tuple(execution.c[name] for name in ExecutionRow.__slots__)
_EVENT = tuple(event.c[name] for name in EVENT_COLUMNS)
JOB = tuple(job.c[name] for name in JobRow.__slots__)
_ITERATOR = tuple(iterator_state.c[name] for name in IteratorRow.__slots__)
_RETRY = tuple(retry_state.c[name] for name in RetryRow.__slots__)


class PostgresReading(Connected, Reading):
    """Executions, events, jobs, results."""

    @override
    async def execution(self, execution_id: str) -> ExecutionRow | None:
        identity = checked_uuid(execution_id, "execution_id")
        found = await self._rows(select(*_EXECUTION).where(execution.c.execution_id == identity))
        return ExecutionRow(**found[0]._mapping) if found else None

    @override
    async def executions(
        self, wanted: ExecutionFilter | None = None, limit: int = 100, cursor: str | None = None
    ) -> Page[ExecutionRow]:
        newest = (execution.c.created_at.desc(), execution.c.execution_id.desc())
        query = select(*_EXECUTION).where(*_conditions(wanted or ExecutionFilter())).order_by(*newest).limit(limit + 1)
        if cursor is not None:
            query = query.where(tuple_(execution.c.created_at, execution.c.execution_id) < time_and_id(cursor))
        found = [ExecutionRow(**row._mapping) for row in await self._rows(query)]
        shown = found[:limit]
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
        identity = checked_uuid(execution_id, "execution_id")
        month = select(execution.c.bucket).where(execution.c.execution_id == identity).scalar_subquery()
        query = select(*_EVENT).where(
            event.c.execution_id == identity, event.c.bucket == month, event.c.seq > after
        ).order_by(event.c.seq).limit(limit)  # fmt: skip
        if types is not None:
            query = query.where(event.c.type.in_(types))
        if step is not None:
            query = query.where(event.c.step == step)
        return [stored_event(row) for row in await self._rows(query)]

    @override
    async def jobs(self, wanted: JobFilter | None = None, limit: int = 100, cursor: str | None = None) -> Page[JobRow]:
        query = select(*JOB).where(*_job_conditions(wanted or JobFilter())).limit(limit + 1)
        query = query.order_by(job.c.available_at.asc().nulls_last(), job.c.job_id)
        if cursor is not None:
            query = query.where(_after(cursor))
        found = [JobRow(**row._mapping) for row in await self._rows(query)]
        return page_of_jobs(found, limit)

    @override
    async def job(self, job_id: str) -> JobRow | None:
        found = await self._rows(select(*JOB).where(job.c.job_id == checked_uuid(job_id, "job_id")))
        return JobRow(**found[0]._mapping) if found else None

    @override
    async def pool_loads(self) -> list[PoolLoad]:
        is_queued, is_due = job.c.status == "queued", job.c.available_at <= func.now()
        query = (
            select(
                job.c.pool,
                func.count().filter(is_queued, is_due).label("waiting"),
                func.count().filter(is_queued, is_due.is_not(True)).label("delayed"),
                func.count().filter(job.c.status == "leased").label("leased"),
                func.min(job.c.available_at).filter(is_queued, is_due).label("oldest_due"),
            )
            .where(job.c.status.in_(("queued", "leased")))
            .group_by(job.c.pool)
        )
        return sorted((PoolLoad(**row._mapping) for row in await self._rows(query)), key=lambda load: load.pool)

    @override
    async def result(self, ref: str) -> Any:
        async with self._driver() as driver:
            with translated():
                return await result_on(driver, checked_text(ref, "the reference"))

    @override
    async def result_bytes(self, ref: str, start: int = 0, length: int | None = None) -> tuple[bytes, int] | None:
        async with self._driver() as driver:
            with translated():
                return await part_on(driver, checked_text(ref, "the reference"), start, length)

    @override
    async def loop_results(self, ref: str, page: int = 1000) -> AsyncIterator[list[tuple[int, Any]]]:
        async with self._driver() as driver:
            with translated():
                async for found in loop_pages(driver, ref, page):
                    yield found

    @override
    async def iterators(self, execution_id: str) -> list[IteratorRow]:
        identity = checked_uuid(execution_id, "execution_id")
        query = select(*_ITERATOR).where(iterator_state.c.execution_id == identity).order_by(iterator_state.c.node)
        return [IteratorRow(**row._mapping) for row in await self._rows(query)]

    @override
    async def retries(self, execution_id: str) -> list[RetryRow]:
        identity = checked_uuid(execution_id, "execution_id")
        query = select(*_RETRY).where(retry_state.c.execution_id == identity)
        rows = await self._rows(query.order_by(retry_state.c.retry_sequence_id))
        return [RetryRow(**row._mapping) for row in rows]

    async def _rows(self, query: Select[Any]) -> list[Row[Any]]:
        async with self._transaction() as connection:
            return list(await connection.execute(query))


def _conditions(wanted: ExecutionFilter) -> list[ColumnElement[bool]]:
    out: list[ColumnElement[bool]] = []
    if wanted.status is not None:
        out.append(execution.c.status == checked_text(wanted.status, "status"))
    if wanted.path is not None:
        out.append(execution.c.path == checked_text(wanted.path, "path"))
    if wanted.labels:
        out.append(execution.c.labels.contains(dict(wanted.labels)))
    if wanted.since is not None:
        out.append(execution.c.created_at >= wanted.since)
    if wanted.q is not None:
        searched = (execution.c.path, cast(execution.c.failure, String), cast(execution.c.execution_id, String))
        out.append(or_(*(column.icontains(checked_text(wanted.q, "q"), autoescape=True) for column in searched)))
    return out


def _job_conditions(wanted: JobFilter) -> list[ColumnElement[bool]]:
    out: list[ColumnElement[bool]] = []
    if wanted.state == "delayed":
        out += [job.c.status == "queued", or_(job.c.available_at > func.now(), job.c.available_at.is_(None))]
    elif wanted.state is not None:
        out.append(job.c.status == wanted.state)
    if wanted.pool is not None:
        out.append(job.c.pool == checked_text(wanted.pool, "pool"))
    if wanted.execution_id is not None:
        out.append(job.c.execution_id == checked_uuid(wanted.execution_id, "execution_id"))
    return out


def _after(cursor: str) -> ColumnElement[bool]:
    if parts_of(cursor, 2)[0] is None:
        identity = checked_uuid(parts_of(cursor, 2)[1], "cursor")
        return and_(job.c.available_at.is_(None), job.c.job_id > identity)
    return or_(tuple_(job.c.available_at, job.c.job_id) > time_and_id(cursor), job.c.available_at.is_(None))


def page_of_jobs(found: list[JobRow], limit: int) -> Page[JobRow]:
    """Return a page of the jobs that were found, one more than the page holds if there are more."""
    shown = found[:limit]
    return Page(shown, cursor_of(shown[-1].available_at, shown[-1].job_id) if len(found) > limit else None)
