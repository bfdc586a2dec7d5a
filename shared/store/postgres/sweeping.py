"""The sweep on Postgres: what was lost on the way, taken by one sweeper at a time."""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import ColumnElement, Select, and_, exists, func, or_, select, tuple_, union_all, update
from sqlalchemy.dialects.postgresql import insert
from typing_extensions import override

from shared.store.connecting import translated
from shared.store.encoding import checked_text, checked_uuid, retimed_message, time_and_id
from shared.store.port import TAKEN_S, Sweeping
from shared.store.postgres.connected import Connected
from shared.store.postgres.reading import JOB, page_of_jobs
from shared.store.records import Beat, JobRow, OverduePool, Page, WorkerRow
from shared.store.tables import broker_mark, event, execution, job, worker

# The jobs are found by their keys and looked at afterwards: a condition on their status would tempt the planner to go
# through the index of everything that waits. What someone else is changing has started: nothing to wait for.
# Nobody waits for the disk: a note that a crash loses has its job published once more, and once more counts once.
_MARK_PUBLISHED = """
WITH quick AS MATERIALIZED (
    SELECT set_config('synchronous_commit', 'off', true)
), mine AS MATERIALIZED (
    SELECT job_id, status, published_at FROM redrive.job WHERE job_id = ANY($1::uuid[]) FOR UPDATE SKIP LOCKED
)
UPDATE redrive.job AS j SET published_at = now() FROM mine, quick
WHERE j.job_id = mine.job_id AND mine.status = 'queued' AND mine.published_at IS NULL
"""

# In the order of their ids: two sweeps that mark the same jobs wait for one another in one direction only.
_MARK_UNSERVED = """
WITH mine AS MATERIALIZED (
    SELECT job_id FROM redrive.job WHERE job_id = ANY($1::uuid[]) ORDER BY job_id FOR UPDATE
)
UPDATE redrive.job AS j SET unserved_at = now() FROM mine WHERE j.job_id = mine.job_id
"""

_EXTEND_LEASES = """
WITH mine AS MATERIALIZED (
    SELECT job_id, status, worker_id FROM redrive.job WHERE job_id = ANY($2::uuid[]) ORDER BY job_id FOR UPDATE
)
UPDATE redrive.job AS j
SET status = 'leased', worker_id = $1::text, lease_until = now() + make_interval(secs => $3::float8), updated_at = now()
FROM mine
WHERE j.job_id = mine.job_id
    AND (mine.status = 'queued' OR mine.status = 'leased' AND coalesce(mine.worker_id, $1::text) = $1::text)
RETURNING j.job_id
"""


class PostgresSweeping(Connected, Sweeping):
    """Publications, leases, recoveries, signs of life."""

    @override
    async def mark_published(self, job_ids: Collection[str]) -> None:
        async with self._driver() as driver:
            with translated():
                await driver.execute(_MARK_PUBLISHED, list(job_ids))

    @override
    async def extend_leases(self, worker_id: str, job_ids: Collection[str], lease_s: float) -> frozenset[str]:
        identities = [checked_uuid(item, "job_id") for item in job_ids]
        async with self._driver() as driver:
            with translated():
                rows = await driver.fetch(_EXTEND_LEASES, checked_text(worker_id, "worker"), identities, lease_s)
        return frozenset(str(row[0]) for row in rows)

    @override
    async def take_unpublished(self, older_than_s: float, horizon_s: float, limit: int) -> list[JobRow]:
        horizon = timedelta(seconds=horizon_s)
        sibling = job.alias("sibling")
        is_being_published = exists().where(
            sibling.c.execution_id == job.c.execution_id,
            sibling.c.created_at == job.c.created_at,
            sibling.c.published_at > _ago(older_than_s),
        )
        return await self._take(
            limit, TAKEN_S, job.c.available_at,
            job.c.status == "queued", job.c.published_at.is_(None), job.c.available_at <= func.now() + horizon,
            job.c.created_at < _ago(older_than_s), ~is_being_published,
            or_(job.c.available_at <= job.c.created_at + horizon, job.c.available_at <= func.now()),
        )  # fmt: skip

    @override
    async def take_due_within(self, horizon_s: float, limit: int) -> list[JobRow]:
        horizon = timedelta(seconds=horizon_s)
        return await self._take(
            limit, TAKEN_S, job.c.available_at,
            job.c.status == "queued", job.c.published_at.is_(None),
            job.c.available_at > job.c.created_at + horizon, job.c.available_at <= func.now() + horizon,
        )  # fmt: skip

    @override
    async def overdue(self, grace_s: float) -> list[OverduePool]:
        late = and_(job.c.status == "queued", job.c.published_at.is_not(None), job.c.available_at < _ago(grace_s))
        pools = (
            select(job.c.pool, func.count().label("jobs"), func.min(job.c.available_at).label("oldest_due"))
            .where(late).group_by(job.c.pool).subquery()
        )  # fmt: skip
        other = job.alias()
        started = (
            select(func.max(other.c.available_at))
            .where(other.c.pool == pools.c.pool, other.c.status.in_(("leased", "completed", "dead")))
            .where(other.c.available_at >= pools.c.oldest_due)
            .scalar_subquery()
        )
        query = select(pools.c.pool, pools.c.jobs, pools.c.oldest_due, started).order_by(pools.c.pool)
        async with self._transaction() as connection:
            return [OverduePool(*row) for row in await connection.execute(query)]

    @override
    async def take_overdue(self, pool: str, due_before: datetime, grace_s: float, limit: int) -> list[JobRow]:
        return await self._take(
            limit, grace_s, job.c.available_at,
            job.c.status == "queued", job.c.published_at.is_not(None), job.c.pool == pool,
            job.c.available_at < _ago(grace_s), job.c.available_at < due_before, ~_has_unapplied_facts(),
        )  # fmt: skip

    @override
    async def queued_jobs(self, job_ids: Collection[str]) -> list[JobRow]:
        identities = [checked_uuid(item, "job_id") for item in job_ids]
        query = select(*JOB).where(job.c.job_id.in_(identities), job.c.status == "queued")
        async with self._transaction() as connection:
            rows = [JobRow(**row._mapping) for row in await connection.execute(query)]
        return _in_due_order(rows)

    @override
    async def take_queued(self, job_ids: Collection[str], for_s: float) -> frozenset[str]:
        identities = [checked_uuid(item, "job_id") for item in job_ids]
        conditions = (job.c.job_id.in_(identities), job.c.status == "queued")
        taken = await self._take(len(identities), for_s, job.c.available_at, *conditions)
        return frozenset(row.job_id for row in taken)

    @override
    async def retime(self, job_id: str, available_at: datetime | None, at_least_s: float) -> JobRow | None:
        mine = job.c.job_id == checked_uuid(job_id, "job_id")
        waits = or_(job.c.available_at.is_(None), job.c.available_at > func.now() + timedelta(seconds=at_least_s))
        query = select(job.c.message, func.now()).where(mine, job.c.status == "queued", waits).with_for_update()
        async with self._transaction() as connection:
            found = (await connection.execute(query)).first()
            if found is None:
                return None
            change = update(job).where(mine).values(
                available_at=available_at, message=retimed_message(found[0], available_at, found[1]),
                published_at=None, swept_at=func.now(), updated_at=func.now(),
            ).returning(*JOB)  # fmt: skip
            return JobRow(**(await connection.execute(change)).one()._mapping)

    @override
    async def unserved(self, pool: str, grace_s: float, limit: int) -> list[JobRow]:
        query = select(*JOB).where(
            job.c.status == "queued", job.c.published_at.is_not(None), job.c.pool == pool,
            job.c.available_at < _ago(grace_s), job.c.unserved_at.is_(None),
        ).order_by(job.c.available_at, job.c.job_id).limit(limit)  # fmt: skip
        async with self._transaction() as connection:
            return [JobRow(**row._mapping) for row in await connection.execute(query)]

    @override
    async def mark_unserved(self, job_ids: Collection[str]) -> None:
        async with self._driver() as driver:
            with translated():
                await driver.execute(_MARK_UNSERVED, list(job_ids))

    @override
    async def take_lapsed(self, silent_s: float, limit: int) -> list[JobRow]:
        heard = select(worker.c.worker_id).where(
            worker.c.worker_id == job.c.worker_id, worker.c.seen_at > _ago(silent_s)
        )
        return await self._take(
            limit, TAKEN_S, job.c.lease_until,
            job.c.status == "leased", job.c.lease_until < func.now(), ~heard.exists(),
        )  # fmt: skip

    async def _take(
        self, limit: int, for_s: float, order: ColumnElement[datetime], *conditions: ColumnElement[bool]
    ) -> list[JobRow]:
        free = or_(job.c.swept_at.is_(None), job.c.swept_at < _ago(for_s))
        chosen = (
            select(job.c.job_id).where(*conditions, free).order_by(order).limit(limit)
            .with_for_update(skip_locked=True).cte("chosen").prefix_with("MATERIALIZED")
        )  # fmt: skip
        taken = update(job).where(job.c.job_id == chosen.c.job_id).values(swept_at=func.now()).returning(*JOB)
        async with self._transaction() as connection:
            rows = [JobRow(**row._mapping) for row in await connection.execute(taken)]
        return _in_due_order(rows)

    @override
    async def stale_facts(self, older_than_s: float, limit: int) -> list[str]:
        open_to_it = or_(execution.c.status != "paused", event.c.type == "control.requested")
        query = (
            select(event.c.execution_id)
            .join(execution, execution.c.execution_id == event.c.execution_id)
            .where(
                event.c.seq.is_(None), event.c.ignored_at.is_(None), event.c.stored_at < _ago(older_than_s), open_to_it
            )
            .group_by(event.c.execution_id)
            .order_by(func.min(event.c.stored_at))
        )
        async with self._transaction() as connection:
            return list((await connection.execute(query.limit(limit))).scalars())

    @override
    async def outstanding(self, horizon_s: float, limit: int, cursor: str | None = None) -> Page[JobRow]:
        after = None if cursor is None else time_and_id(cursor)

        def first(*conditions: ColumnElement[bool]) -> Select[Any]:
            """Return the first of some jobs, each kind by an index of its own."""
            query = select(*JOB).where(job.c.available_at <= func.now() + timedelta(seconds=horizon_s), *conditions)
            if after is not None:
                query = query.where(tuple_(job.c.available_at, job.c.job_id) > after)
            return select(query.order_by(job.c.available_at, job.c.job_id).limit(limit + 1).subquery())

        both = union_all(
            first(job.c.status == "queued"), first(job.c.status == "leased", job.c.lease_until.is_(None))
        ).subquery()
        query = select(both).order_by(both.c.available_at, both.c.job_id).limit(limit + 1)
        async with self._transaction() as connection:
            found = [JobRow(**row._mapping) for row in await connection.execute(query)]
        return page_of_jobs(found, limit)

    @override
    def alone(self, name: str) -> AbstractAsyncContextManager[None]:
        return self._alone(name)

    @asynccontextmanager
    async def _alone(self, name: str) -> AsyncIterator[None]:
        async with self._driver() as driver:
            with translated():
                await driver.execute("SELECT pg_advisory_lock(hashtextextended($1, 0))", f"redrive.{name}")
            try:
                yield
            finally:
                # A connection that is gone has let go already.
                with suppress(Exception):
                    await driver.execute("SELECT pg_advisory_unlock(hashtextextended($1, 0))", f"redrive.{name}")

    @override
    async def broker_mark(self, name: str) -> str | None:
        async with self._transaction() as connection:
            found = await connection.execute(select(broker_mark.c.incarnation).where(broker_mark.c.name == name))
            mark: str | None = found.scalar()
        return mark

    @override
    async def set_broker_mark(self, name: str, incarnation: str) -> None:
        new = insert(broker_mark).values(name=name, incarnation=incarnation)
        changes = {"incarnation": new.excluded.incarnation, "seen_at": func.now()}
        async with self._transaction() as connection:
            await connection.execute(new.on_conflict_do_update(index_elements=["name"], set_=changes))

    @override
    async def heartbeat(self, beat: Beat) -> None:
        values = {
            "pools": list(beat.pools),
            "concurrency": beat.concurrency,
            "running": beat.running,
            "host": beat.host,
            "release": beat.release,
        }
        new = insert(worker).values(worker_id=beat.worker_id, **values)
        changes = {**values, "seen_at": func.now()}
        async with self._transaction() as connection:
            await connection.execute(new.on_conflict_do_update(index_elements=["worker_id"], set_=changes))

    @override
    async def workers(self, silent_s: float | None = None) -> list[WorkerRow]:
        query = select(worker).order_by(worker.c.worker_id)
        if silent_s is not None:
            query = query.where(worker.c.seen_at > _ago(silent_s))
        async with self._transaction() as connection:
            rows = list(await connection.execute(query))
        return [
            WorkerRow(
                Beat(row.worker_id, tuple(row.pools), row.concurrency, row.running, row.host, row.release),
                row.started_at,
                row.seen_at,
            )
            for row in rows
        ]


def _in_due_order(rows: list[JobRow]) -> list[JobRow]:
    return sorted(rows, key=lambda row: (row.available_at or row.created_at, row.job_id))


def _has_unapplied_facts() -> ColumnElement[bool]:
    """Say that something is known of the job's execution that its row does not show yet."""
    unapplied = (event.c.seq.is_(None), event.c.ignored_at.is_(None))
    return exists().where(event.c.execution_id == job.c.execution_id, *unapplied)


def _ago(seconds: float) -> ColumnElement[datetime]:
    return func.now() - timedelta(seconds=seconds)
