"""Deciding in memory: executions locked in the order of their ids, written between two awaits."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Collection
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import replace
from datetime import datetime
from typing import Any

from typing_extensions import override

from shared.contracts.events import Event
from shared.contracts.jobs import Job, job_to_json
from shared.errors import ConflictError
from shared.store.encoding import body_of, checked_uuid, json_text
from shared.store.memory.appending import MemoryAppending
from shared.store.memory.kept import Kept, copied, event_of
from shared.store.memory.results import MemoryResults
from shared.store.port import Batch, Writing
from shared.store.projection import ExecutionChange, JobChange, LoopChange, Writes, check_record, writes_of
from shared.store.records import DecisionRecord, Head, History, JobRow
from shared.store.rows import EventRow, event_row, execution_row, fact_row


class MemoryWriting(MemoryAppending, MemoryResults, Writing):
    """Submissions, facts, commands and decisions."""

    @override
    def deciding(self, execution_ids: Collection[str]) -> AbstractAsyncContextManager[Batch]:
        return self._deciding(execution_ids)

    @asynccontextmanager
    async def _deciding(self, execution_ids: Collection[str]) -> AsyncIterator[Batch]:
        known = sorted({checked_uuid(item, "execution_id") for item in execution_ids} & self._executions.keys())
        async with AsyncExitStack() as locks:
            for identity in known:
                await locks.enter_async_context(self._executions[identity].lock)
            batch = MemoryBatch(self, known)
            yield batch
            self._write(writes_of(batch.records), batch.now)

    def head(self, identity: str) -> Head:
        """Return where an execution stands."""
        kept = self._executions[identity]
        row = kept.row
        return Head(
            identity, row.path, row.playbook_version, row.plan_digest, row.status, row.version, kept.snapshot_seq
        )

    def _write(self, writes: Writes, now: datetime) -> None:
        """Write everything; what can be refused is looked at before anything changes."""
        events = [event_row(event) for event in writes.events]
        facts = [Kept(fact_row(fact), now) for fact in writes.facts]
        bodies = [body_of(value) for value in writes.results]
        changes = dict(writes.job_changes)
        jobs = [_job_row(job, changes.pop(job.job_id, None), now) for job in writes.jobs]
        snapshots = {
            change.execution_id: None if change.snapshot is None else json_text(change.snapshot, "the snapshot")
            for change in writes.executions
        }
        for child in writes.children:
            execution_row(child)
        self._check(jobs)

        self._write_events(writes, events, now)
        for job in jobs:
            self._jobs[job.job_id] = job
        for job_id, change in changes.items():
            self._change_job(job_id, change, now)
        for body in {body.reference["_ref"]: body for body in bodies}.values():
            ref = body.reference["_ref"]
            self._results.setdefault(ref, body)
            self._references[ref] = self._references.get(ref, 0) + 1
        for child in writes.children:
            self._create(child, now)
        self._append(facts)
        for change_of_execution in writes.executions:
            self._change_execution(change_of_execution, snapshots[change_of_execution.execution_id], now)
        self._change_read_models(writes)

    def _check(self, jobs: list[JobRow]) -> None:
        if any(job.job_id in self._jobs for job in jobs):
            raise ConflictError("a job of the batch exists already")

    def _write_events(self, writes: Writes, events: list[EventRow], now: datetime) -> None:
        for row in events:
            self._event_ids.add(row.event_id)
            kept = Kept(row if row.occurred_at is not None else row._replace(occurred_at=now), now)
            self._executions[row.execution_id].log.append(kept)
        for event in writes.applied:
            execution = self._executions[event.execution_id]
            kept = execution.unapplied.pop(event.identity)
            row = kept.row._replace(
                seq=event.seq, parent_event_id=event.parent_event_id, retry_sequence_id=event.retry_sequence_id
            )
            execution.log.append(Kept(row, kept.stored_at))
        for execution_id, event_id in writes.ignored:
            del self._executions[execution_id].unapplied[event_id]
        for change in writes.executions:
            self._executions[change.execution_id].log.sort(key=lambda kept: kept.row.seq or 0)

    def _change_job(self, job_id: str, change: JobChange, now: datetime) -> None:
        row = self._jobs.get(job_id)
        if row is None or row.status not in ("queued", "leased"):
            return
        self._jobs[job_id] = replace(
            row,
            status=change.status,
            worker_id=change.worker_id or row.worker_id,
            lease_until=change.lease_until,
            last_error=change.last_error or row.last_error,
            updated_at=now,
        )

    def _change_execution(self, change: ExecutionChange, snapshot: str | None, now: datetime) -> None:
        kept = self._executions[change.execution_id]
        row = kept.row
        kept.row = replace(
            row,
            status=change.status,
            version=change.version,
            plan_digest=change.plan_digest or row.plan_digest,
            started_at=row.started_at or (now if change.is_started else None),
            finished_at=(row.finished_at or now) if change.is_over else None,
            failure=copied(change.failure) if change.is_turned else row.failure,
            result=copied(change.result) if change.is_turned else row.result,
            retries=row.retries + change.retries,
            steps_started=row.steps_started + change.steps_started,
            steps_ended=row.steps_ended + change.steps_ended,
            updated_at=now,
        )
        if snapshot is not None:
            kept.snapshot, kept.snapshot_seq = snapshot, change.version

    def _change_read_models(self, writes: Writes) -> None:
        for key, new in writes.loops.items():
            old = self._loops.get(key, LoopChange(total=0))
            self._loops[key] = LoopChange(
                iterator_name=new.iterator_name or old.iterator_name,
                total=max(old.total or 0, new.total or 0),
                completed=old.completed + new.completed,
                failed=old.failed + new.failed,
                status=new.status,
                is_over=new.is_over,
            )
        for key, now in writes.retries.items():
            before = self._retries.get(key)
            most = max(now.max_attempts or 1, (before.max_attempts or 1) if before is not None else 1)
            error = now.last_error or (before.last_error if before is not None else None)
            self._retries[key] = replace(now, max_attempts=most, last_error=error)


def _job_row(job: Job, change: JobChange | None, now: datetime) -> JobRow:
    message: dict[str, Any] = json.loads(json_text(job_to_json(job), "the job"))
    return JobRow(
        job_id=job.job_id,
        execution_id=job.execution_id,
        node=job.address.node,
        kind=job.kind,
        pool=job.pool,
        role=job.role,
        status="queued" if change is None else change.status,
        attempt=job.address.attempt,
        max_attempts=job.max_attempts,
        available_at=job.available_at,
        retry_delay_seconds=job.delay_s,
        last_error=None,
        worker_id=None,
        lease_until=None,
        published_at=None,
        message=message,
        meta=message["meta"],
        created_at=now,
        updated_at=now,
    )


class MemoryBatch(Batch):
    """Executions whose locks are held."""

    def __init__(self, store: MemoryWriting, known: list[str]) -> None:
        self._store = store
        self.records: dict[str, DecisionRecord] = {}
        self.now = store._now()
        self.executions = {item: store.head(item) for item in known}
        self.unapplied = {item: [event_of(k) for k in store._executions[item].unapplied.values()] for item in known}

    @override
    async def histories(self, execution_ids: Collection[str]) -> dict[str, History]:
        out: dict[str, History] = {}
        for item in execution_ids:
            if item in self.executions:
                kept = self._store._executions[item]
                events = await self.events_after(item, kept.snapshot_seq)
                out[item] = History(None if kept.snapshot is None else json.loads(kept.snapshot), events)
        return out

    @override
    async def events_after(self, execution_id: str, seq: int) -> list[Event]:
        return [event_of(kept) for kept in self._store._executions[execution_id].log[max(0, seq) :]]

    @override
    async def result(self, ref: str) -> Any:
        return await self._store.result(ref)

    @override
    def record(self, execution_id: str, record: DecisionRecord) -> None:
        check_record(self, execution_id, record)
        self.records[execution_id] = record
