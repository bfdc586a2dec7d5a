"""What happened in a test, one line per outcome: when, where, what came of it, what was decided."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from shared.contracts import payloads as p
from shared.contracts.events import Event
from shared.contracts.ids import Address
from shared.engine.playtest_stage import Stage
from shared.engine.rehearsal import Rehearsed

MAX_TEXT = 80


@dataclass(slots=True)
class Moment:
    """One line of the timeline."""

    at_s: float
    node: str
    said: str
    decision: str = ""


def timeline(stage: Stage, start: datetime) -> list[Moment]:
    """Return what happened, execution by execution."""
    out: list[Moment] = []
    for index, found in enumerate(stage.played()):
        if index:
            parent = (found.state.parent or {}).get("node", "")
            out.append(Moment(_seconds(found.log[0], start), "", f"child {found.program.plan.path}", f"of {parent}"))
        out.extend(_moments(found, start))
    return out


def _moments(found: Rehearsed, start: datetime) -> Iterator[Moment]:
    waiting: dict[str, Moment] = {}
    for event in found.log:
        frame = event.address.frame if event.address is not None else ""
        decision = _decided(event.payload)
        if decision and frame in waiting:
            before = waiting[frame].decision
            waiting[frame].decision = f"{before}; {decision}" if before else decision
            continue
        said = _said(event)
        if said:
            moment = Moment(_seconds(event, start), _node(event.address), said)
            waiting[frame] = moment
            yield moment
    if not found.state.is_over:
        for run, open_frame in found.state.frames():
            if open_frame.signal is not None:
                node = _node(run.address(open_frame, task=True))
                yield Moment(_seconds(found.log[-1], start), node, f"still waits for signal '{open_frame.signal}'")


def _said(event: Event) -> str:
    """Return what an event says happened; nothing for those that only lead to others."""
    match event.payload:
        case p.TaskProcessed(outcome=outcome):
            return _outcome(outcome)
        case p.StepSkipped(reason=reason):
            return f"skipped ({reason})"
        case p.StepCompleted():
            return "completed"
        case p.StepFailed(error=error, handled=handled):
            return f"failed{'' if handled else ', and nothing takes it up'}: {_error(error)}"
        case p.LoopCompleted(total_iterations=total, failed=failed):
            return f"loop of {total} ended, {failed} failed"
        case p.SignalReceived(name=name):
            return f"signal '{name}' came"
        case p.ExecutionCompleted():
            return "execution completed"
        case p.ExecutionFailed(error=error):
            return f"execution failed: {_error(error)}"
        case p.ExecutionCancelled():
            return "execution cancelled"
        case _:
            return ""


def _decided(payload: p.Payload) -> str:
    match payload:
        case p.TaskRetryScheduled(retry_type="on_success", next_attempt=attempt):
            return f"next call, attempt {attempt}"
        case p.TaskRetryScheduled(delay_s=delay, max_attempts=most, decision=record):
            used = record.get("attempts", {}).get("used", payload.failed_attempt)
            return f"retry in {delay:g} s, {used} of {most} attempts used{_rule(record)}"
        case p.TaskRetryExhausted(attempts=used, max_attempts=most, reason=reason, follows=follows):
            spent = f"{used} of {most} attempts" if reason == "attempts" else reason
            return f"{spent} spent, so {follows}"
        case p.TaskAdvanced(directive="jump", to=to, decision=record):
            delay = record.get("jump", {}).get("delay_s", 0)
            return f"jump to {to}{f' in {delay:g} s' if delay else ''}{_rule(record)}"
        case p.TaskAdvanced(directive=word, decision=record):
            return f"{word}{_rule(record)}"
        case p.NextEvaluated(arcs=arcs):
            fired = [str(arc["step"]) for arc in arcs if arc.get("value")]
            return f"next: {', '.join(fired) or 'nothing'}"
        case _:
            return ""


def _rule(record: dict[str, Any]) -> str:
    """Return which rule it was, where the author wrote one."""
    rules = record.get("rules") or []
    line = rules[-1].get("line") if rules else None
    return f" ({record['matched']}, line {line})" if line and record.get("matched") else ""


def _outcome(outcome: dict[str, Any]) -> str:
    if outcome.get("status") == "error":
        return f"error: {_error(outcome.get('error') or {})}"
    http = outcome.get("http")
    return f"success: http {http['status']}" if http else "success"


def _error(error: dict[str, Any]) -> str:
    kind, message = str(error.get("kind")), str(error.get("message"))
    text = kind if message == kind else f"{kind}: {message}"
    return text if len(text) <= MAX_TEXT else f"{text[: MAX_TEXT - 1]}…"


def _node(address: Address | None) -> str:
    """Return an address as short as it is clear: the first visit goes without saying."""
    if address is None:
        return ""
    return address.node.replace("~1.", ".").replace("~1[", "[") if address.task else address.frame.removesuffix("~1")


def _seconds(event: Event, start: datetime) -> float:
    return (event.occurred_at - start).total_seconds() if event.occurred_at is not None else 0.0
