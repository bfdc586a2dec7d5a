"""Decisions in words: what happened, which rule said so, and from which values it followed."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from shared.contracts import payloads as p
from shared.contracts.events import Event

_SUPERSCRIPT = str.maketrans("0123456789-.", "⁰¹²³⁴⁵⁶⁷⁸⁹⁻·")


@dataclass(frozen=True, slots=True)
class Sentence:
    """One event in words."""

    seq: int
    node: str
    text: str


def explain(log: Iterable[Event], node: str | None = None) -> list[Sentence]:
    """Return the decisions of a log in words; with a node, only those at it or below it."""
    out: list[Sentence] = []
    errors: dict[str, dict[str, Any]] = {}
    for event in log:
        place = event.address.node if event.address is not None else ""
        if isinstance(event.payload, p.TaskProcessed) and event.address is not None:
            errors[event.address.sequence] = event.payload.outcome
        if node is not None and not _is_below(place, node):
            continue
        outcome = errors.get(event.address.sequence) if event.address and event.address.task else None
        text = sentence(event, outcome)
        if text:
            out.append(Sentence(event.seq or 0, place, text))
    return out


def sentence(event: Event, outcome: dict[str, Any] | None = None) -> str | None:
    """Return what an event says in one sentence; nothing for events that decide nothing."""
    said = event.payload
    match said:
        case p.TaskRetryScheduled():
            return _retry(said, outcome)
        case p.TaskRetryExhausted():
            return _exhausted(said, outcome)
        case p.TaskAdvanced():
            return _advanced(event, said, outcome)
        case p.TaskSequenceCompleted():
            return f"{said.pages} calls in all, gathered by {said.strategy}"
        case p.LoopStarted():
            return _loop(said)
        case p.LoopClaimed():
            return _claimed(event, said)
        case p.LoopCompleted():
            return f"{said.successful} of {said.total_iterations} iterations succeeded, {said.failed} failed"
        case p.JobRescheduled():
            why = f": {said.reason}" if said.reason else ""
            return f"due at {said.available_at} instead of {said.was}, as {said.by or 'someone'} asked{why}"
        case p.JobWaiting():
            return f"due since {said.since}, and nobody serves the pool '{said.pool}': {said.proof}"
        case p.StepSkipped():
            return _SKIPPED.get(said.reason, f"skipped: {said.reason}")
        case p.StepFailed():
            follows = "an arc takes it up" if said.handled else "no arc takes it up"
            return f"the step failed: {said.error.get('message')}; {follows}"
        case p.NextEvaluated():
            return _next(said)
        case p.ExecutionFailed():
            at = f" at {said.node}" if said.node else ""
            return f"the execution failed{at}: {said.error.get('message')}"
        case p.ExecutionCancelled() | p.ExecutionPaused() | p.ExecutionResumed():
            by = f" by {said.by}" if said.by else ""
            why = f": {said.reason}" if said.reason else ""
            return f"{event.type.split('.')[1]}{by}{why}"
        case p.ExecutionRedriven():
            return f"redriven, {said.mode}: {', '.join(said.steps)}"
        case _:
            return None


def _loop(said: p.LoopStarted) -> str:
    what = f"{said.collection_size} iterations"
    if said.cursor is not None:
        per = "an iteration each" if said.cursor["process"] == "row" else "one iteration"
        what = f"claims of at most {said.cursor['max_rows']} rows, {per}, until no row comes back"
    return f"{what}, {said.mode}, at most {said.concurrency} at once"


def _claimed(event: Event, said: p.LoopClaimed) -> str:
    claim = f"claim {event.address.page if event.address is not None else 1}"
    if not said.rows:
        return f"{claim} brought no row: nothing is left to claim"
    rows = f"{said.rows} row{'s' if said.rows > 1 else ''}"
    last = said.first + said.iterations - 1
    return f"{claim} brought {rows}: iteration{f's {said.first} to' if last > said.first else ''} {last}"


_SKIPPED = {
    "when": "skipped: its condition was false",
    "join": "skipped: fewer tokens came than its join asks for",
    "absorbed": "came after its join had run, and was absorbed",
}


def _retry(said: p.TaskRetryScheduled, outcome: dict[str, Any] | None) -> str:
    used = said.decision.get("attempts", {}).get("used", said.failed_attempt)
    of = f"attempt {said.failed_attempt}" if used != said.failed_attempt else f"attempt {used}"
    if said.retry_type == "on_success":
        pause = f" in {said.delay_s:.1f} s" if said.delay_s else ""
        return f"call {used} of at most {said.max_attempts} succeeded; {because(said.decision)}; called again{pause}"
    why = because(said.decision)
    return f"{of} of {said.max_attempts} {ended(outcome)}; {why}; retry in {_delay(said.delay)}"


def _exhausted(said: p.TaskRetryExhausted, outcome: dict[str, Any] | None) -> str:
    reason = f"attempt {said.attempts} of {said.max_attempts}, the last,"
    if said.reason == "budget":
        reason = f"the budget of {said.budget_s:g} s is spent after {said.elapsed_s:g} s: attempt {said.attempts}"
    then = {"fail": "the task fails", "continue": "the pipeline continues", "break": "the step ends here"}
    follows = then.get(said.follows, "the pipeline jumps")
    return f"{reason} {ended(outcome)}; {because(said.decision)}, but nothing is left; {follows}"


def _advanced(event: Event, said: p.TaskAdvanced, outcome: dict[str, Any] | None) -> str:
    attempt = event.address.attempt if event.address is not None else 1
    head = f"attempt {attempt} {ended(outcome)}; {because(said.decision)}"
    match said.directive:
        case "jump":
            jump = said.decision.get("jump", {})
            pause = f" after {jump['delay_s']:.1f} s" if jump.get("delay_s") else ""
            count = f" ({jump['number']} of at most {jump['of']})" if jump else ""
            return f"{head}; jump to {said.to}{pause}{count}"
        case "fail":
            error = said.error or {}
            own = "" if error == (outcome or {}).get("error") else f" ({error.get('message')})"
            return f"{head}; fail{own}"
        case word:
            return f"{head}; {word}"


def because(decision: dict[str, Any]) -> str:
    """Return which rule matched, where it stands, and the values it read."""
    if decision.get("follows") == "retry_exhausted":
        return f"{decision.get('matched')} says what follows when attempts are spent"
    tried = decision.get("rules", [])
    matched = tried[-1] if tried else {}
    label = decision.get("matched", "a rule")
    place = f" (line {matched['line']})" if "line" in matched else ""
    if "error" in matched:
        return f"rule {label}{place} could not be evaluated: {matched['error']}"
    if label == "default":
        return "no rule matched, so the default applies"
    reads = matched.get("reads") or {}
    if not reads:
        return f"rule {label}{place} matched because it always does"
    values = ", ".join(f"{name} = {_value(value)}" for name, value in reads.items())
    return f"rule {label}{place} matched because {values}"


def ended(outcome: dict[str, Any] | None) -> str:
    """Return how an attempt ended."""
    if outcome is None:
        return "ended"
    if outcome.get("status") == "success":
        return "succeeded"
    http = (outcome.get("http") or {}).get("status")
    if http is not None:
        return f"failed with http {http}"
    code = (outcome.get("pg") or {}).get("code")
    if code is not None:
        return f"failed with SQLSTATE {code}"
    error = outcome.get("error") or {}
    message = str(error.get("message") or "")
    return f"failed with {error.get('kind', 'an error')}" + (f" ({message[:120]})" if message else "")


def _delay(parts: dict[str, Any]) -> str:
    """Return a delay with the sum it came from, such as `4.0 s = 2.0 × 2¹`."""
    seconds = f"{parts['seconds']:.1f} s"
    if "base" not in parts:
        return seconds
    formula = f"{parts['base']:.1f}"
    if parts["backoff"] == "exponential":
        exponent = f"{parts['exponent']:g}".translate(_SUPERSCRIPT)
        formula += f" × {parts['multiplier']:g}{exponent}"
    elif parts["backoff"] == "linear":
        formula += f" × {parts['factor']:g}"
    if parts["capped"] and "max_delay" in parts:
        formula += f", at most {parts['max_delay']:g}"
    if parts["jitter"] != 1.0:
        formula = f"({formula}) × {parts['jitter']:.2f} jitter"
    return f"{seconds} = {formula}"


def _next(said: p.NextEvaluated) -> str:
    fired = [arc["step"] for arc in said.arcs if arc.get("token") is not None]
    if not fired:
        return f"after {said.about} no arc matched; this branch ends"
    return f"after {said.about} on to {', '.join(fired)}"


def _value(value: Any) -> str:
    return repr(value) if isinstance(value, str) and value != "undefined" else str(value)


def _is_below(place: str, node: str) -> bool:
    return place == node or place.startswith((f"{node}.", f"{node}[", f"{node}#", f"{node}~", f"{node}@"))
