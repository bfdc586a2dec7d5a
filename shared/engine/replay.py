"""Replay: take every decision of a recorded log again, and say where it would come out differently."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from shared.contracts import payloads as p
from shared.contracts.events import Event, event_to_json
from shared.engine.chance import SeededChance
from shared.engine.decide import decide
from shared.engine.evolve import evolve
from shared.engine.program import Program
from shared.engine.snapshot import copy_of
from shared.engine.state import State
from shared.engine.stimuli import Cancel, Pause, Redrive, Resume, Stimulus, TimerFired
from shared.engine.turn import SOURCE
from shared.engine.world import KnownValues, Values, World

_COMMANDED = (p.ExecutionCancelled, p.ExecutionPaused, p.ExecutionResumed, p.ExecutionRedriven)


@dataclass(frozen=True, slots=True)
class Difference:
    """One place where the recorded log and the decision taken again part."""

    seq: int
    type: str
    node: str
    rule: str | None
    field: str
    recorded: Any
    replayed: Any

    def __str__(self) -> str:
        rule = f", rule {self.rule}" if self.rule else ""
        return f"#{self.seq} {self.type} {self.node}{rule}: {self.field} was {self.recorded!r}, now {self.replayed!r}"


def replay(program: Program, log: Sequence[Event], values: Values | None = None) -> list[Difference]:
    """Return where decisions taken again differ from the recorded ones; nothing, if they are all the same."""
    known = values or KnownValues()
    # The one follows the log, the other decides; they go the same way until a decision differs.
    recorded, deciding = (State(log[0].execution_id if log else "") for _ in range(2))
    out: list[Difference] = []
    at = 0
    while at < len(log):
        end = _end_of_decision(log, at)
        stimulus = _stimulus(log[at])
        if stimulus is None:
            found = [_unexpected(log[at])]
        else:
            found = _compared(program, deciding, stimulus, log[at:end], known)
        for event in log[at:end]:
            evolve(recorded, event)
        if found:
            deciding = copy_of(recorded)
        out.extend(found)
        at = end
    return out


def _end_of_decision(log: Sequence[Event], start: int) -> int:
    """Return where the events end that one stimulus led to."""
    at = start + 1
    while at < len(log) and not _begins_decision(log[at], log[at - 1]):
        at += 1
    return at


def _begins_decision(event: Event, before: Event) -> bool:
    if isinstance(event.payload, _COMMANDED):
        return not isinstance(before.payload, p.ControlRequested)
    if isinstance(event.payload, p.TimerElapsed):
        return True
    return event.is_fact and event.source != SOURCE


def _stimulus(event: Event) -> Stimulus | None:
    """Return what led to a decision, from the first event it wrote."""
    said = event.payload
    match said:
        case p.ExecutionCancelled():
            return Cancel(said.by, said.reason)
        case p.ExecutionPaused():
            return Pause(said.by, said.reason)
        case p.ExecutionResumed():
            return Resume(said.by, said.reason)
        case p.ExecutionRedriven():
            step = said.steps[0] if said.mode == "step" else None
            mode: Any = said.mode
            return Redrive(mode, step, said.by, said.reason, said.workload, said.plan)
        case p.TimerElapsed():
            return TimerFired(said.job_id)
        case _:
            return event if event.is_fact else None


def _compared(
    program: Program, state: State, stimulus: Stimulus, recorded: Sequence[Event], values: Values
) -> list[Difference]:
    now = next((e.occurred_at for e in recorded if e.source == SOURCE), recorded[0].occurred_at)
    assert now is not None
    world = World(now, SeededChance(state.execution_id), values)
    replayed = decide(program, state, stimulus, world).events
    out: list[Difference] = []
    for index in range(max(len(recorded), len(replayed))):
        before = recorded[index] if index < len(recorded) else None
        after = replayed[index] if index < len(replayed) else None
        found = _differences(before, after)
        out.extend(found)
        if found:
            break
    return out


def _differences(before: Event | None, after: Event | None) -> list[Difference]:
    event = before or after
    assert event is not None
    if before is None or after is None or before.type != after.type:
        return [_difference(event, "event", before and before.type, after and after.type)]
    old, new = event_to_json(before), event_to_json(after)
    for name in ("occurred_at", "meta", "source"):
        old.pop(name, None)
        new.pop(name, None)
    return [_difference(event, path, a, b) for path, a, b in _unequal(old, new, "")][:3]


def _unequal(old: Any, new: Any, path: str) -> list[tuple[str, Any, Any]]:
    if isinstance(old, dict) and isinstance(new, dict):
        keys = list(dict.fromkeys([*old, *new]))
        return [item for key in keys for item in _unequal(old.get(key), new.get(key), f"{path}.{key}".lstrip("."))]
    if isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        pairs = enumerate(zip(old, new, strict=True))
        return [item for index, (a, b) in pairs for item in _unequal(a, b, f"{path}[{index}]")]
    return [] if old == new else [(path, old, new)]


def _difference(event: Event, field: str, recorded: Any, replayed: Any) -> Difference:
    decision = getattr(event.payload, "decision", None) or {}
    node = event.address.node if event.address is not None else ""
    return Difference(event.seq or 0, event.type, node, decision.get("matched"), field, recorded, replayed)


def _unexpected(event: Event) -> Difference:
    return _difference(event, "event", event.type, None)
