"""Writing a batch of decisions: a constant number of statements, however many executions it holds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date, datetime
from typing import Any

from shared.contracts.jobs import Job, job_to_json
from shared.errors import ConflictError
from shared.store.encoding import body_of, json_text
from shared.store.postgres import appending
from shared.store.postgres import statements as sql
from shared.store.postgres.connected import Driver, columns, count_of
from shared.store.projection import ExecutionChange, JobChange, Writes
from shared.store.rows import EventRow, event_row


async def write(driver: Driver, writes: Writes, buckets: Mapping[str, date], now: datetime) -> None:
    """Write everything of a batch, inside its transaction."""
    await _write_others(driver, writes)
    await _write_read_models(driver, writes, now)
    if writes.ignored:
        ignored = [(event_id, buckets[execution_id]) for execution_id, event_id in writes.ignored]
        _check_count(count_of(await driver.execute(sql.IGNORE_FACTS, *columns(ignored, 2))), len(ignored))
    values = [*_events(writes, buckets), *_jobs(writes), *columns(map(_execution_row, writes.executions), 13)]
    _check_count(await driver.fetchval(sql.WRITE, now, *values), len(writes.applied))


def _check_count(done: int, expected: int) -> None:
    if done != expected:
        raise ConflictError(f"{expected - done} of {expected} facts are not there")


def _events(writes: Writes, buckets: Mapping[str, date]) -> list[Sequence[Any]]:
    added = [(*event_row(event), buckets[event.execution_id]) for event in writes.events]
    applied = [
        (event.event_id, buckets[event.execution_id], event.seq, event.parent_event_id, event.retry_sequence_id)
        for event in writes.applied
    ]
    return columns(added, len(EventRow._fields) + 1) + columns(applied, 5)


def _jobs(writes: Writes) -> list[Sequence[Any]]:
    changes = dict(writes.job_changes)
    added = [_job_row(job, changes.pop(job.job_id, None)) for job in writes.jobs]
    changed = [
        (job_id, change.status, change.worker_id, change.lease_until, change.last_error)
        for job_id, change in sorted(changes.items())
    ]
    return columns(added, 13) + columns(changed, 5)


def _job_row(job: Job, change: JobChange | None) -> tuple[Any, ...]:
    return (
        job.job_id,
        job.execution_id,
        job.address.node,
        job.kind,
        job.pool,
        job.role,
        "queued" if change is None else change.status,
        job.address.attempt,
        job.max_attempts,
        job.available_at,
        job.delay_s,
        json_text(job_to_json(job), "the job"),
        json_text(job.meta, "meta"),
    )


async def _write_others(driver: Driver, writes: Writes) -> None:
    """Write what concerns other executions, and the values that events refer to."""
    if writes.results:
        bodies = {body.reference["_ref"]: body for body in map(body_of, writes.results)}
        rows = [(ref, b.reference["_sha256"], b.reference["_size"], b.data) for ref, b in sorted(bodies.items())]
        await driver.execute(sql.ADD_RESULTS, *columns(rows, 4))
    await appending.create(driver, writes.children)
    await appending.append(driver, writes.facts)


async def _write_read_models(driver: Driver, writes: Writes, now: datetime) -> None:
    if writes.loops:
        loops = [
            (*key, it.iterator_name, it.total, it.completed, it.failed, it.status, it.is_over)
            for key, it in writes.loops.items()
        ]
        await driver.execute(sql.CHANGE_LOOPS, *columns(loops, 8), now)
    if writes.retries:
        retries = [
            (
                *key, it.step_name, it.status, it.current_attempt, it.max_attempts, it.last_error,
                None if it.last_result is None else json_text(it.last_result, "result"), it.available_at,
            )
            for key, it in writes.retries.items()
        ]  # fmt: skip
        await driver.execute(sql.CHANGE_RETRIES, *columns(retries, 9), now)


def _execution_row(change: ExecutionChange) -> tuple[Any, ...]:
    return (
        change.execution_id,
        change.status,
        change.version,
        None if change.snapshot is None else json_text(change.snapshot, "the snapshot"),
        change.plan_digest,
        change.is_started,
        change.is_over,
        change.is_turned,
        None if change.failure is None else json_text(change.failure, "the failure"),
        json_text(change.result, "the result") if change.is_turned else None,
        change.retries,
        change.steps_started,
        change.steps_ended,
    )
