"""Events from outside programs as facts: today's names and fields, and the older ones that they may still use."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from datetime import datetime
from typing import Any
from uuid import UUID

from pydantic import Field

from services.ingest.models import Identity, RequestModel, Time
from shared.contracts.events import Event, UnknownEventError, payload_from_json, types_named
from shared.contracts.ids import Address, derived, fact_id, job_id, parse_node
from shared.contracts.outcomes import outcome_from_json
from shared.contracts.payloads import CATALOGUE, JobPoisoned, Payload, SignalReceived, TaskProcessed, TaskStarted
from shared.language.diagnostics import did_you_mean

REPORTABLE = ("task.started", "task.processed", "job.poisoned", "signal.received")
OLDER = ("action_started", "action_completed", "action_error", "action_failed", "job_dead", "signal_received")
MAX_NUMBER = 2**31 - 1

_STEP = re.compile(r"[A-Za-z_][\w-]*")
_SUCCESS = frozenset({"success", "ok", "completed"})
_ERROR = frozenset({"error", "failed", "failure"})
_FAILED_NAMES = frozenset({"action_error", "action_failed"})


class EmittedEvent(RequestModel):
    """An event as a worker or an outside program reports it, by today's names of fields or by older ones."""

    execution_id: Identity
    event_id: str | int | None = Field(default=None)
    type: str | None = None
    event_type: str | None = None
    alias: str | None = None
    node: str | None = Field(default=None, max_length=500)
    node_id: str | None = Field(default=None, max_length=500)
    node_name: str | None = Field(default=None, max_length=500)
    node_type: str | None = None
    step: str | None = Field(default=None, max_length=200)
    visit: int | None = Field(default=None, ge=1, le=MAX_NUMBER)
    iteration: int | None = Field(default=None, ge=0, le=MAX_NUMBER)
    iteration_index: int | None = Field(default=None, ge=0, le=MAX_NUMBER)
    task: str | None = Field(default=None, max_length=200)
    page: int | None = Field(default=None, ge=1, le=MAX_NUMBER)
    attempt: int | None = Field(default=None, ge=1, le=MAX_NUMBER)
    attempt_number: int | None = Field(default=None, ge=1, le=MAX_NUMBER)
    job_id: Identity | None = None
    queue_id: str | int | None = None
    worker_id: str | None = Field(default=None, max_length=200)
    name: str | None = Field(default=None, max_length=200)
    status: str | None = Field(default=None, max_length=40)
    duration: float | None = Field(default=None, ge=0, le=1e12, description="Seconds.")
    duration_ms: float | None = Field(default=None, ge=0, le=1e15)
    result: Any = None
    error: dict[str, Any] | str | None = None
    data: dict[str, Any] | None = None
    payload: dict[str, Any] | None = None
    context: dict[str, Any] | None = None
    meta: dict[str, Any] | None = None
    parent_event_id: str | int | None = None
    parent_execution_id: str | int | None = None
    retry_sequence_id: str | int | None = None
    catalog_id: str | int | None = None
    occurred_at: Time | None = None
    timestamp: Time | None = None
    created_at: Time | None = None
    source: str | None = Field(default=None, max_length=200)
    seq: int | None = Field(default=None, description="Not read: a fact gets its place when it is applied.")
    v: int | None = Field(default=None, ge=1, le=1)


class EmitError(ValueError):
    """An event cannot be taken; `field` says which part of it is wrong."""

    def __init__(self, field: str, message: str, hint: str | None = None) -> None:
        super().__init__(message)
        self.field = field
        self.message = message
        self.hint = hint


def fact_of(emitted: EmittedEvent, who: str, now: datetime, new_id: Callable[[], str]) -> Event:
    """Return the fact that an event reports; raise EmitError for one that is none."""
    kind, spoken = _kind(emitted)
    address = _address(emitted) if kind.startswith(("task.", "job.")) else None
    payload = _payload(emitted, kind, spoken, address)
    return Event(
        execution_id=emitted.execution_id,
        payload=payload,
        address=address,
        event_id=_identity(emitted, payload, new_id),
        parent_event_id=_uuid(emitted.parent_event_id),
        retry_sequence_id=None if emitted.retry_sequence_id is None else str(emitted.retry_sequence_id),
        occurred_at=emitted.occurred_at or emitted.timestamp or emitted.created_at or now,
        source=f"worker:{emitted.worker_id}" if emitted.worker_id else f"api:{who}",
        meta=_meta(emitted),
    )


def _kind(emitted: EmittedEvent) -> tuple[str, str]:
    """Return the type of the event, and the name by which it was called."""
    field = next((name for name in ("type", "event_type", "alias") if getattr(emitted, name) is not None), None)
    if field is None:
        raise EmitError("type", "an event needs a type", f"one of {', '.join(REPORTABLE)}")
    spoken: str = getattr(emitted, field)
    found = types_named(spoken)
    reportable = found & frozenset(REPORTABLE)
    if reportable:
        # The type alone does not say how an attempt ended; an older name beside it does.
        told = emitted.event_type or emitted.alias or spoken
        return min(reportable), told if told in OLDER else spoken
    if found:
        source = CATALOGUE[next(iter(found))].source
        by = "a decision of the orchestrator" if source == "orchestrator" else "said by requests of its own"
        raise EmitError(field, f"'{spoken}' is {by}; it cannot be reported", f"facts are {', '.join(REPORTABLE)}")
    raise EmitError(field, f"there is no event '{spoken[:80]}'", did_you_mean(spoken, (*REPORTABLE, *OLDER)))


def _address(emitted: EmittedEvent) -> Address:
    """Return where it happened: an address in one text, or the name of a step and numbers beside it."""
    field = next((name for name in ("node", "node_id", "step", "node_name") if getattr(emitted, name)), None)
    if field is None:
        raise EmitError("node", "an event of a task needs its node", "such as fetch~1.fetch#1")
    text: str = getattr(emitted, field)
    address = parse_node(text)
    if address is None and _STEP.fullmatch(text):
        address = Address(text, emitted.visit or 1, _iteration(emitted))
    if address is None:
        raise EmitError(field, f"'{text[:80]}' is no address", "such as fetch~1.fetch#1, or the name of a step")
    if address.task is not None:
        return _in_range(address, field)
    attempt = emitted.attempt or emitted.attempt_number or _number(emitted, "attempt_number") or 1
    task = emitted.task or address.step
    if not _STEP.fullmatch(task):
        raise EmitError("task", f"'{task[:80]}' is no name of a task")
    placed = Address(address.step, address.visit, address.iteration, task, emitted.page or 1, attempt)
    return _in_range(placed, field)


def _in_range(address: Address, field: str) -> Address:
    numbers = (address.visit, address.iteration or 0, address.page, address.attempt or 1)
    if any(number > MAX_NUMBER for number in numbers):
        raise EmitError(field, "a number of the address is out of range")
    return address


def _iteration(emitted: EmittedEvent) -> int | None:
    for found in (emitted.iteration, emitted.iteration_index, _number(emitted, "iteration_index", least=0)):
        if found is not None:
            return found
    return None


def _number(emitted: EmittedEvent, name: str, least: int = 1) -> int | None:
    """Return a number that older events have inside `data` or `meta`."""
    retry = (emitted.meta or {}).get("retry")
    for place in (emitted.data, retry, emitted.meta):
        found = place.get(name) if isinstance(place, dict) else None
        if isinstance(found, int) and not isinstance(found, bool) and least <= found <= MAX_NUMBER:
            return found
    return None


def _payload(emitted: EmittedEvent, kind: str, spoken: str, address: Address | None) -> Payload:
    job = emitted.job_id or _uuid(emitted.queue_id)
    if job is None and address is not None:
        job = job_id(emitted.execution_id, address)
    if emitted.payload is not None:
        given = emitted.payload if kind == SignalReceived.type else {"job_id": job, **emitted.payload}
        try:
            return payload_from_json(kind, given)
        except (UnknownEventError, AttributeError, TypeError) as problem:
            raise EmitError("payload", str(problem)) from None
    match kind:
        case TaskStarted.type:
            return TaskStarted(job or "", emitted.worker_id, retry=_retry(emitted, address))
        case TaskProcessed.type:
            return TaskProcessed(job or "", _outcome(emitted, spoken))
        case JobPoisoned.type:
            return JobPoisoned(job or "", _text(emitted.error) or "reported from outside")
        case _:
            return SignalReceived(_signal(emitted), _given(emitted))


def _retry(emitted: EmittedEvent, address: Address | None) -> dict[str, Any]:
    attempt = (address.attempt if address is not None else None) or 1
    most = _number(emitted, "max_attempts")
    return {"attempt": attempt, "is_retry": attempt > 1, **({"max_attempts": most} if most else {})}


def _outcome(emitted: EmittedEvent, spoken: str) -> dict[str, Any]:
    """Return how an attempt ended, from wherever older events say it."""
    data = emitted.data or {}
    if isinstance(data.get("outcome"), dict):
        return _checked({**data["outcome"]}, "data.outcome")
    word = (emitted.status or "").lower()
    if spoken in _FAILED_NAMES or word in _ERROR:
        status = "error"
    elif spoken == "action_completed" or word in _SUCCESS:
        status = "success"
    else:
        raise EmitError("status", "say whether the attempt ended with success or error", "status: success")
    outcome: dict[str, Any] = {"status": status, "result": _given(emitted), "meta": _figures(emitted)}
    if status == "error":
        meta_error = (emitted.meta or {}).get("error")
        outcome["error"] = emitted.error if emitted.error is not None else data.get("error", meta_error)
    return _checked(outcome, "error")


def _checked(outcome: dict[str, Any], field: str) -> dict[str, Any]:
    try:
        return outcome_from_json(outcome).as_json()
    except (ValueError, AttributeError) as problem:
        raise EmitError(field, str(problem)) from None


def _given(emitted: EmittedEvent) -> Any:
    return emitted.result if emitted.result is not None else (emitted.data or {}).get("result")


def _figures(emitted: EmittedEvent) -> dict[str, Any]:
    milliseconds = emitted.duration_ms
    if milliseconds is None and emitted.duration is not None:
        milliseconds = emitted.duration * 1000
    if milliseconds is None or not math.isfinite(milliseconds):
        return {}
    return {"duration_ms": milliseconds}


def _signal(emitted: EmittedEvent) -> str:
    name = emitted.name or emitted.node_name or emitted.node_id
    if not name or not _STEP.fullmatch(name):
        raise EmitError("name", "a signal needs a name")
    return name


def _identity(emitted: EmittedEvent, payload: Payload, new_id: Callable[[], str]) -> str:
    """Return the event's identity: the given one, or the one that follows from what the fact is about."""
    if emitted.event_id is not None:
        return _uuid(emitted.event_id) or derived("emitted", emitted.execution_id, emitted.event_id)
    match payload:
        case TaskStarted(job_id=job):
            return fact_id(job, "started")
        case TaskProcessed(job_id=job):
            return fact_id(job, "processed")
        case JobPoisoned(job_id=job):
            return fact_id(job, "poisoned")
        case _:
            return new_id()


def _meta(emitted: EmittedEvent) -> dict[str, Any]:
    meta = dict(emitted.meta or {})
    meta.pop("context", None)
    for name in ("parent_execution_id", "catalog_id", "node_type", "node_name", "queue_id"):
        if (value := getattr(emitted, name)) is not None:
            meta.setdefault(name, value)
    if isinstance((emitted.data or {}).get("retry_config"), dict):
        meta.setdefault("retry_config", (emitted.data or {})["retry_config"])
    if emitted.context is not None:
        meta["context"] = emitted.context
    return meta


def _uuid(value: str | int | None) -> str | None:
    try:
        return str(UUID(str(value))) if isinstance(value, str) else None
    except ValueError:
        return None


def _text(error: dict[str, Any] | str | None) -> str:
    return str(error.get("message") or "") if isinstance(error, dict) else error or ""
