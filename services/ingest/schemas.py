"""The shapes of answers, for the OpenAPI document."""

from __future__ import annotations

from typing import Any

from pydantic import AwareDatetime, BaseModel, ConfigDict

Time = AwareDatetime


class Answer(BaseModel):
    """An answer: every field is there, and no other."""

    model_config = ConfigDict(extra="forbid")


class Finding(Answer):
    """Something found in a playbook, and where."""

    file: str
    line: int
    column: int
    severity: str
    code: str
    message: str
    hint: str | None


class Playbook(Answer):
    """A version of a playbook."""

    path: str
    version: int
    name: str | None
    digest: str
    labels: dict[str, str]
    created_at: Time


class RegisteredPlaybook(Playbook):
    """A version that a text was registered as, and what is to be said about the text."""

    created: bool
    warnings: list[Finding]


class PlaybookInFull(Playbook):
    """A version of a playbook with its text and its Plan."""

    source: str
    plan: dict[str, Any] | None


class PlaybookPage(Answer):
    """Playbooks, by path."""

    items: list[Playbook]
    cursor: str | None


class PlaybookVersions(Answer):
    """The versions of a playbook, the latest first."""

    items: list[Playbook]


class Validation(Answer):
    """What was found in a playbook that was not stored."""

    valid: bool
    path: str | None
    digest: str | None
    errors: list[Finding]
    warnings: list[Finding]


class Accepted(Answer):
    """An execution that was accepted, or the one that a request stands for since it came first."""

    execution_id: str
    existed: bool
    path: str
    playbook_version: int | None
    status: str


class AcceptedBatch(Answer):
    """Executions that were accepted together, in the order of the request."""

    items: list[Accepted]


class Progress(Answer):
    """How far an execution is."""

    steps_started: int
    steps_ended: int


class Execution(Answer):
    """An execution as lists show it."""

    execution_id: str
    path: str
    playbook_version: int | None
    plan_digest: str
    status: str
    seq: int
    labels: dict[str, str]
    parent_execution_id: str | None
    idempotency_key: str | None
    failure: dict[str, Any] | None
    retries: int
    progress: Progress
    created_at: Time
    started_at: Time | None
    finished_at: Time | None
    updated_at: Time


class ExecutionPage(Answer):
    """Executions, the newest first."""

    items: list[Execution]
    cursor: str | None


class Loop(Answer):
    """The progress of a loop."""

    node: str
    iterator_name: str | None
    total_iterations: int
    completed_iterations: int
    failed_iterations: int
    status: str


class Retry(Answer):
    """A sequence of attempts that had more than one."""

    node: str
    step: str
    attempt: int
    max_attempts: int
    last_error: str | None
    status: str
    available_at: Time | None


class ExecutionInFull(Execution):
    """An execution with its result, loops and attempts."""

    result: Any
    loops: list[Loop]
    retrying: list[Retry]


class LoggedEvent(Answer):
    """An event of the log, by its name and by its older one."""

    v: int
    event_id: str
    execution_id: str
    seq: int | None
    type: str
    alias: str
    status: str
    occurred_at: Time | None
    source: str
    node: str | None
    step: str | None
    visit: int | None
    iteration: int | None
    task: str | None
    attempt: int | None
    parent_event_id: str | None
    retry_sequence_id: str | None
    payload: dict[str, Any]
    meta: dict[str, Any]
    context: dict[str, Any] | None


class EventPage(Answer):
    """Events in the order of the log, and the place after which the rest follows."""

    items: list[LoggedEvent]
    after: int | None


class Sentence(Answer):
    """A decision in words."""

    seq: int
    node: str
    text: str


class Explanation(Answer):
    """The decisions of an execution in words; truncated, if there were more events than are looked at."""

    items: list[Sentence]
    truncated: bool


class Requested(Answer):
    """Something that was asked of an execution and will be decided on."""

    execution_id: str
    event_id: str
    new: bool
    status: str


class EmittedItem(Answer):
    """What became of one event."""

    event_id: str
    execution_id: str
    type: str
    new: bool


class Emitted(Answer):
    """What became of events that were reported."""

    accepted: int
    new: int
    events: list[EmittedItem]


class Reference(BaseModel):
    """A reference to a stored value."""

    model_config = ConfigDict(extra="allow")


class Job(Answer):
    """A job as it stands."""

    job_id: str
    execution_id: str
    node: str
    kind: str
    pool: str
    role: str
    status: str
    attempt: int | None
    max_attempts: int
    available_at: Time | None
    retry_delay_seconds: float
    last_error: str | None
    worker_id: str | None
    lease_until: Time | None
    published_at: Time | None
    meta: dict[str, Any]
    created_at: Time
    updated_at: Time


class JobPage(Answer):
    """Jobs by the time they are due."""

    items: list[Job]
    cursor: str | None


class Worker(Answer):
    """A worker and when it was heard of."""

    worker_id: str
    pools: list[str]
    concurrency: int
    running: int
    host: str | None
    release: str | None
    started_at: Time
    seen_at: Time


class Workers(Answer):
    """The workers that were heard of."""

    items: list[Worker]


class Queue(Answer):
    """A queue from outside and, of a pool, its jobs: due and not begun, not due yet, begun.

    Nobody serves a queue without consumers; `unrouted` are jobs that are due in a pool that has no queue yet.
    """

    name: str
    pool: str | None
    exists: bool
    served: bool
    ready: int
    consumers: int
    waiting: int | None
    unrouted: int | None
    delayed: int | None
    leased: int | None
    workers: int | None
    oldest_due: Time | None


class Queues(Answer):
    """The queues of the broker."""

    items: list[Queue]


class Credential(Answer):
    """A credential without what it holds; `key_id` names the key it is sealed with."""

    name: str
    kind: str
    key_id: str
    created_at: Time
    updated_at: Time


class CredentialPage(Answer):
    """Credentials, by name."""

    items: list[Credential]
    cursor: str | None


class LentCredential(Answer):
    """A credential, opened for one job."""

    name: str
    kind: str
    fields: dict[str, Any]


class Health(Answer):
    """That the process lives."""

    status: str


class Readiness(Answer):
    """Whether requests can be served, with each dependency named."""

    status: str
    checks: dict[str, str]
