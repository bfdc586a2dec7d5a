"""Deciding on Postgres: executions locked together, read together, and written together."""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from datetime import date
from typing import Any

from typing_extensions import override

from shared.contracts.events import Event
from shared.store.connecting import translated
from shared.store.encoding import body_of, checked_uuid
from shared.store.port import Batch, Writing
from shared.store.postgres import appending
from shared.store.postgres import statements as sql
from shared.store.postgres.connected import Connected, Driver
from shared.store.postgres.results import result_on
from shared.store.postgres.writing import write
from shared.store.projection import check_record, writes_of
from shared.store.records import AppendResult, Created, DecisionRecord, Head, History, NewExecution
from shared.store.rows import stored_event


class PostgresWriting(Connected, Writing):
    """Submissions, facts, commands and decisions."""

    @override
    async def create_executions(self, executions: Sequence[NewExecution]) -> list[Created]:
        async with self._driver() as driver:
            with translated():
                async with driver.transaction():
                    return await appending.create(driver, executions)

    @override
    async def append_facts(self, facts: Sequence[Event]) -> AppendResult:
        async with self._driver() as driver:
            with translated():
                return await appending.append(driver, facts)

    @override
    def deciding(self, execution_ids: Collection[str]) -> AbstractAsyncContextManager[Batch]:
        return self._deciding(execution_ids)

    @asynccontextmanager
    async def _deciding(self, execution_ids: Collection[str]) -> AsyncIterator[Batch]:
        identities = [checked_uuid(item, "execution_id") for item in execution_ids]
        async with self._driver() as driver:
            transaction = driver.transaction()
            with translated():
                await transaction.start()
            try:
                with translated():
                    batch = await _locked(driver, identities)
                yield batch
                with translated():
                    await batch.write()
            except BaseException:
                await _undo(driver, transaction)
                raise
            with translated():
                await transaction.commit()

    @override
    async def put_result(self, value: Any) -> dict[str, Any]:
        body = body_of(value)
        ref, size = body.reference["_ref"], body.reference["_size"]
        async with self._driver() as driver:
            with translated():
                await driver.execute(sql.ADD_RESULTS, [ref], [body.reference["_sha256"]], [size], [body.data])
        return body.reference


async def _undo(driver: Driver, transaction: Any) -> None:
    """Roll back; a connection on which that fails is of no use any more, and its end rolls back as well."""
    try:
        await transaction.rollback()
    except Exception:
        with suppress(Exception):
            driver.terminate()


async def _locked(driver: Driver, execution_ids: list[str]) -> PostgresBatch:
    batch = PostgresBatch(driver)
    for row in await driver.fetch(sql.LOCK, execution_ids):
        identity = str(row[0])
        batch.executions[identity] = Head(identity, *row[1:7])
        batch.buckets[identity] = row[7]
    batch.unapplied = {identity: [] for identity in batch.executions}
    known = list(batch.executions)
    clock, *facts = await driver.fetch(sql.UNAPPLIED, known, list(set(batch.buckets.values())))
    batch.now = clock["occurred_at"]
    for row in facts:
        event = stored_event(row[1:])
        batch.unapplied[event.execution_id].append(event)
    return batch


class PostgresBatch(Batch):
    """One transaction."""

    def __init__(self, driver: Driver) -> None:
        self._driver = driver
        self._records: dict[str, DecisionRecord] = {}
        self.executions = {}
        self.buckets: dict[str, date] = {}

    @override
    async def histories(self, execution_ids: Collection[str]) -> dict[str, History]:
        known = [item for item in execution_ids if item in self.executions]
        seqs = [self.executions[item].snapshot_seq for item in known]
        with translated():
            snapshots = {str(row[0]): row[1] for row in await self._driver.fetch(sql.SNAPSHOTS, known)}
            events = await self._after(known, seqs)
        return {item: History(snapshots.get(item), events[item]) for item in known}

    @override
    async def events_after(self, execution_id: str, seq: int) -> list[Event]:
        with translated():
            return (await self._after([execution_id], [seq]))[execution_id]

    async def _after(self, execution_ids: list[str], seqs: list[int]) -> dict[str, list[Event]]:
        out: dict[str, list[Event]] = {item: [] for item in execution_ids}
        buckets = [self.buckets[item] for item in execution_ids]
        for row in await self._driver.fetch(sql.EVENTS_AFTER, execution_ids, buckets, seqs):
            event = stored_event(row)
            out[event.execution_id].append(event)
        return out

    @override
    async def result(self, ref: str) -> Any:
        with translated():
            return await result_on(self._driver, ref)

    @override
    def record(self, execution_id: str, record: DecisionRecord) -> None:
        check_record(self, execution_id, record)
        self._records[execution_id] = record

    async def write(self) -> None:
        """Write every record."""
        if self._records:
            await write(self._driver, writes_of(self._records), self.buckets, self.now)
