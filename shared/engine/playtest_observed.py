"""What a rehearsed execution did, in the terms that tests speak: path, attempts, delays, calls, writes."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from shared.contracts import payloads as p
from shared.contracts.deferred import JobPath, finished
from shared.contracts.events import Event
from shared.contracts.ids import Address, child_execution_id
from shared.contracts.references import subject_of
from shared.engine.playtest_outcomes import view_of
from shared.engine.playtest_patterns import Pattern
from shared.engine.playtest_stage import ROOT, Stage, called
from shared.engine.program import Program
from shared.engine.rehearsal import Rehearsed
from shared.templates.expressions import EvaluationError, compile_template


@dataclass(slots=True)
class Attempt:
    """One attempt that began: what it was given, and what came of it."""

    program: Program
    address: Address
    given: dict[str, Any] = field(default_factory=dict)
    sink: dict[str, Any] | None = None
    deferred: tuple[JobPath, ...] = ()
    outcome: dict[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class Wait:
    """A wait that a rule asked for before it tried a task again or came back to it."""

    program: Program
    address: Address
    seconds: float


class Observed:
    """Everything a test can ask about after its execution."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self.root = stage.executions[ROOT]
        self.log: list[Event] = self.root.log
        self._attempts = [attempt for found in stage.played() for attempt in _attempts(found, stage)]
        self._waits = [wait for found in stage.played() for wait in _waits(found)]

    @property
    def status(self) -> str:
        """Return how the execution ended, or that it has not."""
        status = self.root.state.status
        return status if self.root.state.is_over else "running"

    @property
    def result(self) -> Any:
        """Return the result of the execution."""
        said = [event.payload for event in self.log if isinstance(event.payload, p.ExecutionCompleted)]
        return self._stage.resolved(said[-1].result) if said else None

    @property
    def error(self) -> dict[str, Any] | None:
        """Return why the execution failed, with the step that did."""
        said = [event.payload for event in self.log if isinstance(event.payload, p.ExecutionFailed)]
        return {**said[-1].error, "step": said[-1].step} if said else None

    @property
    def path(self) -> list[str]:
        """Return the steps in the order they started."""
        return [e.address.step for e in self.log if isinstance(e.payload, p.StepStarted) and e.address is not None]

    @property
    def ctx(self) -> dict[str, Any]:
        """Return `ctx` as it was at the end."""
        found: dict[str, Any] = self._stage.resolved(self.root.state.ctx)
        return found

    @property
    def duration_s(self) -> float:
        """Return the simulated time from the first event to the last."""
        times = [event.occurred_at for event in self.log if event.occurred_at is not None]
        return (times[-1] - times[0]).total_seconds() if times else 0.0

    def attempts(self, pattern: Pattern) -> list[Attempt]:
        """Return the attempts that a pattern names, in the order they began."""
        return [item for item in self._attempts if pattern.matches(item.program, item.address)]

    def delays(self, pattern: Pattern) -> list[float]:
        """Return the waits before further attempts of what a pattern names."""
        return [item.seconds for item in self._waits if pattern.matches(item.program, item.address)]

    def writes(self, pattern: Pattern) -> list[dict[str, Any]]:
        """Return what the sinks of successful attempts were given."""
        return [_written(item, self._stage) for item in self.attempts(pattern) if _is_written(item)]


def _attempts(found: Rehearsed, stage: Stage) -> list[Attempt]:
    given = {job.address.node: job for job in found.jobs}
    out: dict[str, Attempt] = {}
    for event in found.log:
        said, address = event.payload, event.address
        if address is None or address.task is None:
            continue
        is_child = found.program.task(address.step, address.task).kind == "playbook"
        begins = isinstance(said, p.TaskStarted | p.TaskProcessed)
        if begins or (is_child and isinstance(said, p.TaskScheduled | p.TaskRetryScheduled)):
            out.setdefault(address.node, Attempt(found.program, address))
        if isinstance(said, p.TaskProcessed):
            out[address.node].outcome = said.outcome
        if isinstance(said, p.TaskScheduled | p.TaskRetryScheduled) and is_child:
            child = stage.executions.get(child_execution_id(said.job_id))
            place = {"step": address.step, "task": address.task, "kind": "playbook", "attempt": address.attempt}
            out[address.node].given = stage.resolved({**place, **(called(child) if child else {})})
    for node, attempt in out.items():
        if node in given:
            job = given[node]
            attempt.given, attempt.sink, attempt.deferred = stage.resolved(view_of(job)), job.sink, job.deferred
    return list(out.values())


def _waits(found: Rehearsed) -> list[Wait]:
    out: list[Wait] = []
    for event in found.log:
        said, address = event.payload, event.address
        if address is None:
            continue
        if isinstance(said, p.TaskRetryScheduled) and (said.delay_s or said.retry_type == "on_error"):
            out.append(Wait(found.program, address, said.delay_s))
        elif isinstance(said, p.TaskAdvanced) and said.directive == "jump":
            seconds = said.decision.get("jump", {}).get("delay_s", 0)
            if seconds:
                out.append(Wait(found.program, replace(address, task=said.to), seconds))
    return out


def _is_written(attempt: Attempt) -> bool:
    return attempt.sink is not None and (attempt.outcome or {}).get("status") == "success"


def _written(attempt: Attempt, stage: Stage) -> dict[str, Any]:
    """Return the sink's fields as the worker would see them after the task succeeded."""
    sink, outcome = stage.resolved(attempt.sink), stage.resolved(attempt.outcome)
    result = outcome.get("result")
    names = {"result": result, "response": subject_of(result), "data": subject_of(result)}
    names = {**names, "outcome": outcome, "output": outcome}

    def evaluated(text: str, scope: dict[str, Any]) -> Any:
        try:
            return compile_template(text).evaluate({**scope, **names}).value
        except EvaluationError as problem:
            return f"{text}: {problem.message}"

    places = [place for place in attempt.deferred if place[0] == "sink"]
    config = finished({"sink": sink}, places, evaluated)["sink"]["config"]
    return {"kind": sink.get("kind"), "data": result, **(config or {})}
