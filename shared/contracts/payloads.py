"""What each event says: one class per type, with the type's name and its older alias."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar, TypeAlias, TypeVar

Json: TypeAlias = Any


class Payload:
    """The contents of an event."""

    __slots__ = ()
    type: ClassVar[str]
    alias: ClassVar[str]
    source: ClassVar[str]


P = TypeVar("P", bound=type[Payload])
CATALOGUE: dict[str, type[Payload]] = {}
FACTS: set[str] = set()


def _event(name: str, alias: str = "", source: str = "orchestrator") -> Callable[[P], P]:
    def register(cls: P) -> P:
        cls.type, cls.alias, cls.source = name, alias or name.replace(".", "_"), source
        CATALOGUE[name] = cls
        if source != "orchestrator":
            FACTS.add(name)
        return cls

    return register


@_event("execution.requested", "playbook_execution_requested", "ingest")
@dataclass(frozen=True, slots=True)
class ExecutionRequested(Payload):
    """Someone asked for a playbook to run."""

    plan: str
    workload: Json = None
    parent: dict[str, Any] | None = None
    labels: dict[str, str] = field(default_factory=dict)
    requested_by: str | None = None
    idempotency_key: str | None = None


@_event("execution.started", "playbook_started")
@dataclass(frozen=True, slots=True)
class ExecutionStarted(Payload):
    """The first token was put at the entry step."""

    entry: str
    timer: str | None = None


@_event("step.started", "step_started")
@dataclass(frozen=True, slots=True)
class StepStarted(Payload):
    """Tokens arrived, were admitted, and are one run of the step now."""

    tokens: tuple[int, ...]
    args: Json = None
    groups: tuple[int, ...] = ()
    resumes: str | None = None
    joins: int | None = None
    timer: str | None = None


@_event("step.skipped", "step_skipped")
@dataclass(frozen=True, slots=True)
class StepSkipped(Payload):
    """Admission said no, or a join had run already."""

    tokens: tuple[int, ...]
    reason: str = "when"
    groups: tuple[int, ...] = ()
    joins: int | None = None
    decision: dict[str, Any] = field(default_factory=dict)


@_event("task.scheduled", "action_queued")
@dataclass(frozen=True, slots=True)
class TaskScheduled(Payload):
    """A first attempt was made ready."""

    job_id: str
    kind: str
    pool: str
    available_at: str | None = None
    delay_s: float = 0.0
    max_attempts: int = 1
    signal: str | None = None
    warnings: tuple[str, ...] = ()


@_event("task.started", "action_started", "worker")
@dataclass(frozen=True, slots=True)
class TaskStarted(Payload):
    """A worker began an attempt."""

    job_id: str
    worker: str | None = None
    delivery_count: int = 1
    retry: dict[str, Any] = field(default_factory=dict)
    lease_until: str | None = None


@_event("task.processed", "action_completed", "worker")
@dataclass(frozen=True, slots=True)
class TaskProcessed(Payload):
    """An attempt ended with an outcome."""

    job_id: str
    outcome: dict[str, Any]


@_event("task.retry_scheduled", "step_retry")
@dataclass(frozen=True, slots=True)
class TaskRetryScheduled(Payload):
    """The same task runs again after a delay."""

    job_id: str
    failed_attempt: int
    next_attempt: int
    max_attempts: int
    delay_s: float
    delay: dict[str, Any]
    available_at: str
    last_error: str | None = None
    kind: str | None = None
    retry_type: str = "on_error"
    signal: str | None = None
    strategy: str | None = None
    gathered: Json = None
    next_call: dict[str, Any] | None = None
    patches: dict[str, Any] = field(default_factory=dict)
    decision: dict[str, Any] = field(default_factory=dict)


@_event("task.retry_exhausted", "step_retry_exhausted")
@dataclass(frozen=True, slots=True)
class TaskRetryExhausted(Payload):
    """A rule wanted another attempt and none was left."""

    attempts: int
    max_attempts: int
    reason: str
    follows: str
    budget_s: float | None = None
    elapsed_s: float | None = None
    last_error: str | None = None
    decision: dict[str, Any] = field(default_factory=dict)


@_event("task.advanced", "task_advanced")
@dataclass(frozen=True, slots=True)
class TaskAdvanced(Payload):
    """A rule ended a task: on, elsewhere, out, or to failure."""

    directive: str
    patches: dict[str, Any] = field(default_factory=dict)
    to: str | None = None
    rule: str | None = None
    error: dict[str, Any] | None = None
    decision: dict[str, Any] = field(default_factory=dict)


@_event("task.sequence_completed", "retry_sequence_completed")
@dataclass(frozen=True, slots=True)
class TaskSequenceCompleted(Payload):
    """All pages or polls of a task were gathered."""

    total_attempts: int
    pages: int
    strategy: str
    aggregated_result: Json = None
    into: str | None = None


@_event("loop.started", "iterator_started")
@dataclass(frozen=True, slots=True)
class LoopStarted(Payload):
    """The elements of a loop are known, or a cursor that claims them is; their number is not known then."""

    iterator_name: str
    collection_size: int | None
    mode: str
    concurrency: int
    chunk_size: int | None = None
    tolerate: float = 0
    collection: Json = None
    sources: Json = None
    collect: str = "all"
    cursor: dict[str, Any] | None = None


@_event("loop.claimed", "iterator_claimed")
@dataclass(frozen=True, slots=True)
class LoopClaimed(Payload):
    """A claim brought rows and with them further iterations; no row, if nothing was left to claim."""

    rows: int
    first: int
    iterations: int
    elements: Json = None


@_event("loop.iteration_started", "iteration_started")
@dataclass(frozen=True, slots=True)
class IterationStarted(Payload):
    """One iteration began."""

    index: int
    source_index: int | None = None
    element: Json = None


@_event("loop.iteration_completed", "iteration_completed")
@dataclass(frozen=True, slots=True)
class IterationCompleted(Payload):
    """One iteration succeeded."""

    index: int
    result: Json = None
    status: str = "success"


@_event("loop.iteration_failed", "iteration_completed")
@dataclass(frozen=True, slots=True)
class IterationFailed(Payload):
    """One iteration failed; what a cursor's loop could run again is set aside when it becomes much."""

    index: int
    error: dict[str, Any]
    status: str = "failed"
    set_aside: Json = None


@_event("loop.completed", "iterator_completed")
@dataclass(frozen=True, slots=True)
class LoopCompleted(Payload):
    """All iterations ended."""

    total_iterations: int
    completed_iterations: int
    successful: int
    failed: int
    success_rate: float
    results: Json = None
    errors: Json = None


@_event("step.completed", "step_completed")
@dataclass(frozen=True, slots=True)
class StepCompleted(Payload):
    """A run of a step ended well."""

    result: Json = None
    patches: dict[str, Any] = field(default_factory=dict)
    tasks: dict[str, Any] = field(default_factory=dict)
    stats: dict[str, Any] | None = None
    errors: Json = None


@_event("step.failed", "step_failed_terminal")
@dataclass(frozen=True, slots=True)
class StepFailed(Payload):
    """A run of a step failed."""

    error: dict[str, Any]
    handled: bool = False
    node: str | None = None
    tasks: dict[str, Any] = field(default_factory=dict)


@_event("next.evaluated", "next_evaluated")
@dataclass(frozen=True, slots=True)
class NextEvaluated(Payload):
    """The guards of a step's arcs were looked at, and tokens went on."""

    about: str
    mode: str
    arcs: tuple[dict[str, Any], ...] = ()
    group: int | None = None
    groups: tuple[int, ...] = ()
    patches: dict[str, Any] = field(default_factory=dict)


@_event("execution.completed", "playbook_completed")
@dataclass(frozen=True, slots=True)
class ExecutionCompleted(Payload):
    """Nothing is left to do."""

    result: Json = None


@_event("execution.failed", "execution_failed")
@dataclass(frozen=True, slots=True)
class ExecutionFailed(Payload):
    """A failure that nothing took up ended the execution."""

    error: dict[str, Any]
    step: str | None = None
    node: str | None = None


@_event("execution.cancelled", "execution_cancelled")
@dataclass(frozen=True, slots=True)
class ExecutionCancelled(Payload):
    """Someone ended the execution."""

    by: str | None = None
    reason: str | None = None


@_event("execution.paused", "execution_paused")
@dataclass(frozen=True, slots=True)
class ExecutionPaused(Payload):
    """No decision is taken until it is resumed."""

    by: str | None = None
    reason: str | None = None


@_event("execution.resumed", "execution_resumed")
@dataclass(frozen=True, slots=True)
class ExecutionResumed(Payload):
    """Decisions are taken again."""

    by: str | None = None
    reason: str | None = None


@_event("execution.redriven", "execution_redriven")
@dataclass(frozen=True, slots=True)
class ExecutionRedriven(Payload):
    """What failed, or a named step, runs again."""

    mode: str
    steps: tuple[str, ...] = ()
    by: str | None = None
    reason: str | None = None
    workload: Json = None
    plan: str | None = None
    timer: str | None = None


@_event("control.requested", "control_requested", "ingest")
@dataclass(frozen=True, slots=True)
class ControlRequested(Payload):
    """Someone asked for the execution to be cancelled, paused, resumed or redriven."""

    command: str
    by: str | None = None
    reason: str | None = None
    step: str | None = None
    workload: Json = None
    plan: str | None = None


@_event("timer.fired", "timer_fired")
@dataclass(frozen=True, slots=True)
class TimerElapsed(Payload):
    """A time that the orchestrator waited for has come: a step's timeout, a child's start."""

    job_id: str


@_event("job.poisoned", "job_dead", "ingest")
@dataclass(frozen=True, slots=True)
class JobPoisoned(Payload):
    """A job could not be handed to any worker; rules see it as an outcome."""

    job_id: str
    reason: str
    deliveries: int = 0


@_event("job.republished", "job_republished", "sweep")
@dataclass(frozen=True, slots=True)
class JobRepublished(Payload):
    """A job was handed to the broker again, because it was proven that the broker did not have it any more."""

    job_id: str
    proof: str
    overdue_s: float = 0.0


@_event("job.waiting", "job_waiting", "sweep")
@dataclass(frozen=True, slots=True)
class JobWaiting(Payload):
    """A job is due and nobody serves its pool: no consumer at its queue, no worker that was heard of names it."""

    job_id: str
    pool: str
    since: str
    proof: str


@_event("job.rescheduled", "job_rescheduled", "ingest")
@dataclass(frozen=True, slots=True)
class JobRescheduled(Payload):
    """Someone gave a job that waits another time, or had it run at once."""

    job_id: str
    available_at: str
    was: str | None = None
    by: str | None = None
    reason: str | None = None


@_event("signal.received", "signal_received", "ingest")
@dataclass(frozen=True, slots=True)
class SignalReceived(Payload):
    """Someone sent a signal."""

    name: str
    payload: Json = None


@_event("breaker.opened", "breaker_opened")
@dataclass(frozen=True, slots=True)
class BreakerOpened(Payload):
    """Too many failures: calls of this key wait."""

    key: str
    failures: int = 0
    until: str | None = None


@_event("breaker.half_opened", "breaker_half_opened")
@dataclass(frozen=True, slots=True)
class BreakerHalfOpened(Payload):
    """One call of this key may try."""

    key: str


@_event("breaker.closed", "breaker_closed")
@dataclass(frozen=True, slots=True)
class BreakerClosed(Payload):
    """Calls of this key go on as usual."""

    key: str


@_event("budget.denied", "budget_denied")
@dataclass(frozen=True, slots=True)
class BudgetDenied(Payload):
    """A retry was refused because the budget of its key is spent."""

    key: str
    limit: float = 0
    spent: float = 0
