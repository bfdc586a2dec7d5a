"""What goes into the store and what comes out of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Generic, Literal, TypeVar

from shared.contracts.events import Event
from shared.engine.turn import Decision

T = TypeVar("T")
JobStatus = Literal["queued", "leased", "completed", "dead", "cancelled"]
OVER = frozenset({"completed", "failed", "cancelled"})


@dataclass(frozen=True, slots=True)
class Page(Generic[T]):
    """Some of what was asked for, and where the rest begins; no cursor, if this is the end."""

    items: list[T]
    cursor: str | None = None


@dataclass(frozen=True, slots=True)
class NewPlaybook:
    """A playbook to register."""

    path: str
    source: str
    plan: dict[str, Any]
    digest: str
    name: str | None = None
    labels: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class PlaybookVersion:
    """One version of a registered playbook."""

    path: str
    version: int
    name: str | None
    source: str
    digest: str
    labels: dict[str, str]
    created_at: datetime


@dataclass(frozen=True, slots=True)
class NewExecution:
    """An execution to create; its fact says plan, workload, labels, parent and idempotency key."""

    requested: Event
    path: str
    version: int | None = None

    @property
    def execution_id(self) -> str:
        """Return the execution's identity."""
        return self.requested.execution_id


@dataclass(frozen=True, slots=True)
class Created:
    """The execution that answers a request; it existed, if its id or its idempotency key was used before."""

    execution_id: str
    existed: bool


@dataclass(frozen=True, slots=True)
class AppendResult:
    """Which facts are new, and which executions do not exist."""

    new: frozenset[str]
    unknown: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Head:
    """Where an execution stands: its status, and the version that a decision is taken at."""

    execution_id: str
    path: str
    playbook_version: int | None
    plan_digest: str
    status: str
    version: int
    snapshot_seq: int


@dataclass(frozen=True, slots=True)
class History:
    """What a state is made of: a snapshot, if there is one, and the events after it."""

    snapshot: dict[str, Any] | None
    events: list[Event]


@dataclass(frozen=True, slots=True)
class DecisionRecord:
    """What was decided about one execution in one batch, one decision for each stimulus, in order.

    `version` and `status` are the state's after the last event. `ignored` are facts that change nothing, `fired`
    are timers that did their work. `children` are the executions to create for the decisions' children, `facts` are
    further facts, such as one about a child that has no playbook.
    """

    version: int
    status: str
    decisions: tuple[Decision, ...] = ()
    snapshot: dict[str, Any] | None = None
    ignored: tuple[str, ...] = ()
    fired: tuple[str, ...] = ()
    children: tuple[NewExecution, ...] = ()
    facts: tuple[Event, ...] = ()


@dataclass(frozen=True, slots=True)
class ExecutionRow:
    """An execution as people see it."""

    execution_id: str
    path: str
    playbook_version: int | None
    plan_digest: str
    status: str
    version: int
    labels: dict[str, str]
    parent_execution_id: str | None
    idempotency_key: str | None
    failure: dict[str, Any] | None
    result: Any
    retries: int
    steps_started: int
    steps_ended: int
    created_at: datetime
    started_at: datetime | None
    finished_at: datetime | None
    updated_at: datetime


@dataclass(frozen=True, slots=True)
class JobRow:
    """A job as it stands; `message` is what a worker is sent."""

    job_id: str
    execution_id: str
    node: str
    kind: str
    pool: str
    role: str
    status: JobStatus
    attempt: int | None
    max_attempts: int
    available_at: datetime | None
    retry_delay_seconds: float
    last_error: str | None
    worker_id: str | None
    lease_until: datetime | None
    published_at: datetime | None
    message: dict[str, Any]
    meta: dict[str, Any]
    created_at: datetime
    updated_at: datetime


@dataclass(frozen=True, slots=True)
class OverduePool:
    """Published jobs of a pool that are past their time, and the latest due time of one that started nevertheless.

    A job that was due before `started_due` has been overtaken: that is the proof that it is not merely waiting.
    """

    pool: str
    jobs: int
    oldest_due: datetime
    started_due: datetime | None


@dataclass(frozen=True, slots=True)
class PoolLoad:
    """The jobs of a pool that are not over: due and not begun, not due yet, begun."""

    pool: str
    waiting: int
    delayed: int
    leased: int
    oldest_due: datetime | None = None


@dataclass(frozen=True, slots=True)
class ExecutionFilter:
    """Which executions are asked for; `q` is looked for in path, failure and id."""

    status: str | None = None
    path: str | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    since: datetime | None = None
    q: str | None = None


@dataclass(frozen=True, slots=True)
class JobFilter:
    """Which jobs are asked for; the state `delayed` is that of queued jobs whose time has not come."""

    state: JobStatus | Literal["delayed"] | None = None
    pool: str | None = None
    execution_id: str | None = None


@dataclass(frozen=True, slots=True)
class Beat:
    """A sign of life of a worker."""

    worker_id: str
    pools: tuple[str, ...]
    concurrency: int = 1
    running: int = 0
    host: str | None = None
    release: str | None = None


@dataclass(frozen=True, slots=True)
class WorkerRow:
    """A worker and when it was heard of first and last."""

    beat: Beat
    started_at: datetime
    seen_at: datetime


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """A message that died and that nobody could make anything of."""

    dead_letter_id: str
    message_id: str
    kind: str
    reason: str
    exchange: str
    routing_key: str
    queue: str | None
    content_type: str
    headers: dict[str, str]
    body: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class DeadLetterRow:
    """A dead letter and when it was kept."""

    letter: DeadLetter
    died_at: datetime


@dataclass(frozen=True, slots=True)
class SealedCredential:
    """A credential as it is kept: what it holds is sealed, and the key it was sealed with is named."""

    name: str
    kind: str
    sealed: bytes = field(repr=False)
    key_id: str


@dataclass(frozen=True, slots=True)
class CredentialRow:
    """A credential as people see it; `updated_at` is when its value was set last."""

    name: str
    kind: str
    key_id: str
    created_at: datetime
    updated_at: datetime


@dataclass(frozen=True, slots=True)
class AuditEntry:
    """Who did what to which thing; never a secret."""

    actor: str
    action: str
    subject: str
    details: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class AuditRow:
    """An entry and when it was written."""

    entry: AuditEntry
    occurred_at: datetime


@dataclass(frozen=True, slots=True)
class IteratorRow:
    """The progress of one loop."""

    node: str
    iterator_name: str | None
    total_iterations: int
    completed_iterations: int
    failed_iterations: int
    status: str


@dataclass(frozen=True, slots=True)
class RetryRow:
    """The progress of one sequence of attempts."""

    retry_sequence_id: str
    step_name: str
    current_attempt: int
    max_attempts: int
    last_error: str | None
    status: str
    available_at: datetime | None
