"""Simulate: edited rules over recorded outcomes; what would have been decided, and from where on it is conjecture."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from shared.contracts import payloads as p
from shared.contracts.events import Event
from shared.contracts.ids import Address
from shared.contracts.jobs import Job
from shared.contracts.outcomes import Outcome, outcome_from_json, success
from shared.engine.program import Program
from shared.engine.rehearsal import START, Rehearsal, Reply

MAX_CONJECTURED_JOBS = 10_000


@dataclass(frozen=True, slots=True)
class Conjecture:
    """An attempt that was not recorded, and what was assumed of it."""

    node: str
    assumed: str


@dataclass(slots=True)
class Simulated:
    """What would have happened: the log, how it ended, and where knowledge ended."""

    execution_id: str
    status: str
    result: Any
    log: list[Event]
    recorded_status: str
    conjectures: list[Conjecture] = field(default_factory=list)
    conjecture_from: int | None = None
    changes: list[str] = field(default_factory=list)

    @property
    def is_certain(self) -> bool:
        """Say whether every outcome it rests on was recorded."""
        return self.conjecture_from is None


class TooMuchConjectureError(RuntimeError):
    """The edited rules ask for more attempts than were recorded, without an end."""


def simulate(program: Program, recorded: Sequence[Event], values: Mapping[str, Any] | None = None) -> Simulated:
    """Run a program over the outcomes and signals of a recorded execution; nothing is executed.

    Raises MissingValueError for a stored value that is needed and not among those given.
    """
    outcomes = _Outcomes(recorded)
    rehearsal = Rehearsal(outcomes.reply, start=recorded[0].occurred_at or START, respond_for_children=True)
    rehearsal.values.by_ref.update(values or {})
    asked = recorded[0].payload
    assert isinstance(asked, p.ExecutionRequested)
    workload = asked.workload if isinstance(asked.workload, dict) else None
    run = rehearsal.submit(program, workload, recorded[0].execution_id)
    outcomes.log = run.log
    for event in recorded:
        if isinstance(event.payload, p.SignalReceived):
            rehearsal.expect(event)
    rehearsal.run()
    found = Simulated(
        execution_id=run.state.execution_id,
        status=run.state.status,
        result=run.state.result,
        log=run.log,
        recorded_status=_status(recorded),
        conjectures=outcomes.conjectures,
        conjecture_from=outcomes.conjecture_from,
    )
    found.changes = _changes(recorded, run.log)
    return found


def simulate_many(program: Program, recorded: Mapping[str, Sequence[Event]]) -> dict[str, Simulated]:
    """Run a program over many recorded executions."""
    return {execution_id: simulate(program, log) for execution_id, log in recorded.items()}


class _Outcomes:
    """Answers with what was recorded for an attempt, else with the last that is known of its task."""

    def __init__(self, recorded: Sequence[Event]) -> None:
        self._by_node: dict[str, tuple[Outcome, float]] = {}
        self._last: dict[str, Outcome] = {}
        self.conjectures: list[Conjecture] = []
        self.conjecture_from: int | None = None
        self.log: list[Event] = []
        started: dict[str, Event] = {}
        for event in recorded:
            if event.address is None or event.address.task is None:
                continue
            if isinstance(event.payload, p.TaskStarted):
                started[event.address.node] = event
            elif isinstance(event.payload, p.TaskProcessed):
                self._remember(event, started.get(event.address.node))

    def _remember(self, event: Event, start: Event | None) -> None:
        assert event.address is not None
        assert isinstance(event.payload, p.TaskProcessed)
        outcome = outcome_from_json(event.payload.outcome)
        took = 0.0
        if start is not None and start.occurred_at is not None and event.occurred_at is not None:
            took = max(0.0, (event.occurred_at - start.occurred_at).total_seconds())
        self._by_node[event.address.node] = (outcome, took)
        self._last[_place(event.address)] = outcome
        self._last[_anywhere(event.address)] = outcome

    def reply(self, job: Job) -> Reply:
        """Return the recorded outcome of an attempt, or an assumed one, which is noted."""
        found = self._by_node.get(job.address.node)
        if found is not None:
            return Reply(*found)
        if len(self.conjectures) >= MAX_CONJECTURED_JOBS:
            raise TooMuchConjectureError(f"more than {MAX_CONJECTURED_JOBS:,} attempts were never recorded")
        if self.conjecture_from is None:
            self.conjecture_from = len(self.log)
        last = self._last.get(_place(job.address)) or self._last.get(_anywhere(job.address))
        assumed = "the last recorded outcome of this task" if last is not None else "success without a result"
        self.conjectures.append(Conjecture(job.address.node, assumed))
        return Reply(last if last is not None else success())


def _place(address: Address) -> str:
    return f"{address.frame}.{address.task}"


def _anywhere(address: Address) -> str:
    return f"{address.step}.{address.task}"


def _status(log: Sequence[Event]) -> str:
    for event in reversed(log):
        if isinstance(event.payload, p.ExecutionCompleted | p.ExecutionFailed | p.ExecutionCancelled):
            return event.type.split(".")[1]
    return "running"


def _changes(recorded: Sequence[Event], simulated: Sequence[Event]) -> list[str]:
    """Return, per attempt, where the decision is another one than was recorded."""
    before, after = _decisions(recorded), _decisions(simulated)
    out = []
    for node in dict.fromkeys([*before, *after]):
        old, new = before.get(node, "not decided"), after.get(node, "not decided")
        if old != new:
            out.append(f"{node}: {old} → {new}")
    return out


def _decisions(log: Sequence[Event]) -> dict[str, str]:
    out: dict[str, str] = {}
    for event in log:
        said = event.payload
        if event.address is None:
            continue
        match said:
            case p.TaskRetryScheduled():
                node = f"{event.address.sequence}#{said.failed_attempt}"
                out[node] = f"retry in {said.delay_s:g} s"
            case p.TaskRetryExhausted():
                out[event.address.node] = f"attempts spent, {said.follows}"
            case p.TaskAdvanced():
                out.setdefault(event.address.node, said.directive + (f" to {said.to}" if said.to else ""))
    return out
