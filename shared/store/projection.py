"""What a batch of decisions means for the tables: rows to add and rows to change, for every adapter alike."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from shared.contracts import payloads as p
from shared.contracts.events import MAX_ERROR_TEXT, Event
from shared.contracts.ids import job_id
from shared.contracts.jobs import Job
from shared.errors import ConflictError, RejectedError
from shared.store.port import Batch
from shared.store.records import OVER, DecisionRecord, JobStatus, NewExecution


@dataclass(slots=True)
class JobChange:
    """How a job's row changes."""

    status: JobStatus
    worker_id: str | None = None
    lease_until: datetime | None = None
    last_error: str | None = None


@dataclass(slots=True)
class ExecutionChange:
    """How an execution's row changes; `failure` and `result` count only where it ended or began again."""

    execution_id: str
    status: str
    version: int
    snapshot: dict[str, Any] | None
    plan_digest: str | None = None
    is_started: bool = False
    is_turned: bool = False
    failure: dict[str, Any] | None = None
    result: Any = None
    retries: int = 0
    steps_started: int = 0
    steps_ended: int = 0

    @property
    def is_over(self) -> bool:
        """Say whether the execution has ended."""
        return self.status in OVER


@dataclass(slots=True)
class LoopChange:
    """How the progress of a loop changes; counts are added to what is there."""

    iterator_name: str | None = None
    total: int | None = None
    completed: int = 0
    failed: int = 0
    status: str = "running"
    is_over: bool = False


@dataclass(slots=True)
class RetryChange:
    """How a sequence of attempts stands now."""

    step_name: str
    status: str
    current_attempt: int
    max_attempts: int | None = None
    last_error: str | None = None
    last_result: Any = None
    available_at: datetime | None = None


@dataclass(slots=True)
class Writes:
    """Everything that one batch writes."""

    events: list[Event] = field(default_factory=list)
    applied: list[Event] = field(default_factory=list)
    ignored: list[tuple[str, str]] = field(default_factory=list)
    jobs: list[Job] = field(default_factory=list)
    job_changes: dict[str, JobChange] = field(default_factory=dict)
    results: list[Any] = field(default_factory=list)
    children: list[NewExecution] = field(default_factory=list)
    facts: list[Event] = field(default_factory=list)
    executions: list[ExecutionChange] = field(default_factory=list)
    loops: dict[tuple[str, str], LoopChange] = field(default_factory=dict)
    retries: dict[tuple[str, str], RetryChange] = field(default_factory=dict)


def check_record(batch: Batch, execution_id: str, record: DecisionRecord) -> None:
    """Raise ConflictError unless the record goes on where the execution stands, without a gap, with facts at hand."""
    head = batch.executions.get(execution_id)
    if head is None:
        raise RejectedError(f"the execution {execution_id} is not part of this batch")
    expected = head.version
    heard = list(record.ignored)
    for decision in record.decisions:
        for event in decision.events:
            expected += 1
            if event.seq != expected or event.execution_id != execution_id:
                raise ConflictError(f"{event.type} is event {event.seq}, but {execution_id} goes on with {expected}")
            if event.event_id is not None:
                heard.append(event.event_id)
    if record.version != expected:
        raise ConflictError(f"{execution_id} would be at version {expected}, not {record.version}")
    unheard = {fact.event_id for fact in batch.unapplied[execution_id]}
    if len(set(heard)) < len(heard) or not unheard.issuperset(heard):
        raise ConflictError(f"a fact is not there, or was applied before, or is applied twice to {execution_id}")


def writes_of(records: Mapping[str, DecisionRecord]) -> Writes:
    """Return what the records of a batch write."""
    writes = Writes()
    for execution_id, record in records.items():
        change = ExecutionChange(execution_id, record.status, record.version, record.snapshot)
        writes.executions.append(change)
        writes.ignored.extend((execution_id, event_id) for event_id in record.ignored)
        writes.children.extend(record.children)
        writes.facts.extend(record.facts)
        for decision in record.decisions:
            writes.jobs.extend(decision.jobs)
            writes.facts.extend(decision.facts)
            writes.results.extend(decision.stored.values())
            for job in decision.cancelled:
                writes.job_changes.setdefault(job, JobChange("cancelled"))
            for event in decision.events:
                _take_up(writes, change, event)
        for job in record.fired:
            writes.job_changes[job] = JobChange("completed")
    return writes


def _take_up(writes: Writes, change: ExecutionChange, event: Event) -> None:
    if event.event_id is None:
        writes.events.append(event)
    else:
        writes.applied.append(event)
    said = event.payload
    match said:
        case p.TaskStarted():
            writes.job_changes[said.job_id] = JobChange("leased", said.worker, _time(said.lease_until))
        case p.TaskProcessed():
            _processed(writes, event, said)
        case p.JobPoisoned():
            writes.job_changes[said.job_id] = JobChange("dead", last_error=said.reason[:MAX_ERROR_TEXT])
        case (
            p.TaskRetryScheduled()
            | p.TaskRetryExhausted()
            | p.TaskSequenceCompleted()
            | p.TaskAdvanced()
            | p.JobRescheduled()
        ):
            _tried(writes, change, event)
        case p.LoopStarted() | p.LoopClaimed() | p.IterationCompleted() | p.IterationFailed() | p.LoopCompleted():
            _looped(writes, event)
        case _:
            _moved(change, said)


def _processed(writes: Writes, event: Event, said: p.TaskProcessed) -> None:
    """Note that an attempt ended: well, or with an error that a later event may call the last."""
    before = writes.job_changes.get(said.job_id)
    error = (said.outcome.get("error") or {}).get("message")
    text = None if error is None else str(error)[:MAX_ERROR_TEXT]
    if before is None or before.status != "dead":
        worker = before.worker_id if before is not None else None
        writes.job_changes[said.job_id] = JobChange("completed", worker or _worker(event.source), last_error=text)
    key = _sequence(event)
    if event.address is not None and (event.address.attempt or 1) > 1 and key is not None:
        status = "completed" if said.outcome.get("status") == "success" else "failed"
        writes.retries[key] = RetryChange(event.address.step, status, event.address.attempt or 1, last_error=text)


def _worker(source: str) -> str | None:
    return source.removeprefix("worker:") if source.startswith("worker:") else None


def _tried(writes: Writes, change: ExecutionChange, event: Event) -> None:
    key = _sequence(event)
    address = event.address
    if key is None or address is None:
        return
    match event.payload:
        case p.TaskRetryScheduled() as said:
            change.retries += said.retry_type == "on_error"
            writes.retries[key] = RetryChange(
                address.step, "waiting", said.next_attempt, said.max_attempts, said.last_error,
                available_at=_time(said.available_at),
            )  # fmt: skip
        case p.TaskRetryExhausted() as said:
            _end_badly(writes, event)
            writes.retries[key] = RetryChange(
                address.step, "exhausted", address.attempt or 1, said.max_attempts, said.last_error
            )
        case p.TaskSequenceCompleted() as said:
            writes.retries[key] = RetryChange(
                address.step, "completed", said.total_attempts, last_result=said.aggregated_result
            )
        case p.JobRescheduled() as said if (address.attempt or 1) > 1:
            writes.retries[key] = RetryChange(
                address.step, "waiting", address.attempt or 1, available_at=_time(said.available_at)
            )
        case p.TaskAdvanced() as said if said.directive == "fail":
            _end_badly(writes, event)
        case _:
            pass


def _end_badly(writes: Writes, event: Event) -> None:
    """Call the attempt dead that an event ends for good."""
    assert event.address is not None
    ended = writes.job_changes.get(job_id(event.execution_id, event.address))
    if ended is not None and ended.status == "completed":
        ended.status = "dead"


def _sequence(event: Event) -> tuple[str, str] | None:
    address = event.address
    return None if address is None or address.task is None else (event.execution_id, address.sequence)


def _looped(writes: Writes, event: Event) -> None:
    address = event.address
    if address is None:
        return
    loop = writes.loops.setdefault((event.execution_id, f"{address.step}~{address.visit}"), LoopChange())
    match event.payload:
        case p.LoopStarted() as said:
            loop.iterator_name, loop.total = said.iterator_name, said.collection_size
        case p.LoopClaimed() as said:
            loop.total = said.first + said.iterations
        case p.IterationCompleted():
            loop.completed += 1
        case p.IterationFailed():
            loop.failed += 1
        case p.LoopCompleted() as said:
            loop.status, loop.is_over, loop.total = "completed", True, said.total_iterations
        case _:
            pass


def _moved(change: ExecutionChange, said: p.Payload) -> None:
    match said:
        case p.ExecutionStarted():
            change.is_started = True
        case p.StepStarted():
            change.steps_started += 1
        case p.StepCompleted() | p.StepFailed() | p.StepSkipped():
            change.steps_ended += 1
            change.steps_started += isinstance(said, p.StepSkipped)
        case p.ExecutionCompleted():
            change.is_turned, change.result, change.failure = True, said.result, None
        case p.ExecutionFailed():
            change.is_turned, change.result = True, None
            change.failure = {"error": said.error, "step": said.step, "node": said.node}
        case p.ExecutionCancelled():
            change.is_turned, change.result, change.failure = True, None, None
        case p.ExecutionRedriven():
            change.is_turned, change.result, change.failure = True, None, None
            change.plan_digest = said.plan or change.plan_digest
        case _:
            pass


def _time(text: str | None) -> datetime | None:
    """Return the time a text says; nothing for a text that says none, for a worker may have written it."""
    try:
        found = datetime.fromisoformat(text or "")
    except ValueError:
        return None
    return found if found.tzinfo is not None else found.replace(tzinfo=UTC)
