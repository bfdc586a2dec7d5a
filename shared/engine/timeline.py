"""A log as intervals: how long steps took, and how long each attempt waited, lay in a queue and ran."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal

from shared.contracts import payloads as p
from shared.contracts.events import Event
from shared.contracts.ids import Address

TYPES = frozenset(
    payload.type
    for payload in (
        p.ExecutionStarted, p.ExecutionCompleted, p.ExecutionFailed, p.ExecutionCancelled, p.ExecutionRedriven,
        p.StepStarted, p.StepCompleted, p.StepFailed, p.TaskScheduled, p.TaskRetryScheduled, p.TaskStarted,
        p.TaskProcessed, p.JobRescheduled, p.JobWaiting,
    )
)  # fmt: skip
"""The events that a timeline is made of."""

IntervalKind = Literal["wait", "queue", "run"]


@dataclass(frozen=True, slots=True)
class Interval:
    """A stretch of an attempt: it waited for its time, lay ready for a worker, or ran; without an end it goes on."""

    kind: IntervalKind
    start: datetime
    end: datetime | None


@dataclass(slots=True)
class StepSpan:
    """One run of a step."""

    node: str
    step: str
    start: datetime
    end: datetime | None = None
    status: str = "running"


@dataclass(slots=True)
class AttemptSpan:
    """One attempt: when it was decided on, due, begun and ended."""

    address: Address
    job_id: str
    scheduled_at: datetime
    due_at: datetime | None
    pool: str | None = None
    worker: str | None = None
    started_at: datetime | None = None
    ended_at: datetime | None = None
    status: str = "waiting"
    error: str | None = None
    unserved: bool = False

    @property
    def intervals(self) -> list[Interval]:
        """Return what the attempt consists of, in order."""
        due = self.due_at if self.due_at is not None else (self.scheduled_at if self.started_at else None)
        begun = self.started_at or self.ended_at
        waited_until = due if begun is None or (due is not None and due <= begun) else begun
        out: list[Interval] = []
        if due is None or due > self.scheduled_at:
            out.append(Interval("wait", self.scheduled_at, waited_until))
        if waited_until is not None and (begun is None or waited_until < begun):
            out.append(Interval("queue", max(waited_until, self.scheduled_at), begun))
        if self.started_at is not None:
            out.append(Interval("run", self.started_at, self.ended_at))
        return out


@dataclass(slots=True)
class Timeline:
    """Steps and attempts in the order in which they began."""

    start: datetime | None = None
    end: datetime | None = None
    steps: list[StepSpan] = field(default_factory=list)
    attempts: list[AttemptSpan] = field(default_factory=list)


def timeline(log: Iterable[Event]) -> Timeline:
    """Return the log as intervals."""
    made = _Making()
    for event in log:
        made.take(event)
    return made.found


class _Making:
    def __init__(self) -> None:
        self.found = Timeline()
        self._steps: dict[str, StepSpan] = {}
        self._attempts: dict[str, AttemptSpan] = {}

    def take(self, event: Event) -> None:
        """Take up one event, in the order of the log."""
        at, address = event.occurred_at, event.address
        if at is None:
            return
        match event.payload:
            case p.ExecutionStarted():
                self.found.start = at
            case p.ExecutionRedriven():
                self.found.end = None
            case p.ExecutionCompleted() | p.ExecutionFailed() | p.ExecutionCancelled():
                self._end(at)
            case p.StepStarted() | p.StepCompleted() | p.StepFailed() if address is not None:
                self._step(event, address, at)
            case p.TaskScheduled() as said if address is not None:
                self._schedule(address, said.job_id, at, said.available_at, said.pool)
            case p.TaskRetryScheduled() as said if address is not None:
                self._schedule(address, said.job_id, at, said.available_at, None)
            case p.TaskStarted() | p.TaskProcessed() | p.JobRescheduled() | p.JobWaiting() as said:
                self._attempt(self._attempts.get(said.job_id), said, at)
            case _:
                pass

    def _step(self, event: Event, address: Address, at: datetime) -> None:
        node = f"{address.step}~{address.visit}"
        if isinstance(event.payload, p.StepStarted):
            self._steps[node] = StepSpan(node, address.step, at)
            self.found.steps.append(self._steps[node])
        elif node in self._steps:
            self._steps[node].end = at
            self._steps[node].status = event.type.split(".")[1]

    def _schedule(self, address: Address, job_id: str, at: datetime, due: str | None, pool: str | None) -> None:
        span = AttemptSpan(address, job_id, at, None if due is None else datetime.fromisoformat(due), pool)
        self._attempts[job_id] = span
        self.found.attempts.append(span)

    def _attempt(
        self,
        span: AttemptSpan | None,
        said: p.TaskStarted | p.TaskProcessed | p.JobRescheduled | p.JobWaiting,
        at: datetime,
    ) -> None:
        if span is None:
            return
        match said:
            case p.TaskStarted():
                span.started_at, span.worker = at, said.worker
                span.status = "running" if span.ended_at is None else span.status
            case p.TaskProcessed():
                span.ended_at = at
                span.status = "completed" if said.outcome.get("status") in ("success", "ok") else "failed"
                span.error = None if span.status == "completed" else _message(said.outcome)
            case p.JobRescheduled():
                span.due_at = datetime.fromisoformat(said.available_at)
            case p.JobWaiting():
                span.unserved, span.pool = True, said.pool

    def _end(self, at: datetime) -> None:
        """End with the execution whatever has not ended by itself."""
        self.found.end = at
        for step in self.found.steps:
            if step.end is None:
                step.end, step.status = at, "cancelled"
        for attempt in self.found.attempts:
            if attempt.ended_at is None:
                attempt.ended_at, attempt.status = at, "cancelled"


def _message(outcome: dict[str, object]) -> str | None:
    error = outcome.get("error")
    return str(error.get("message"))[:500] if isinstance(error, dict) else None
