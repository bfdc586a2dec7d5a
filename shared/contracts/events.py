"""The event: one envelope for every fact and every decision, its names, and its encoding."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from datetime import datetime
from types import UnionType
from typing import Any, get_args, get_origin, get_type_hints

from shared.contracts.ids import Address, decision_event_id, parse_node
from shared.contracts.outcomes import outcome_from_json
from shared.contracts.payloads import CATALOGUE, FACTS, Payload, TaskProcessed

EVENT_VERSION = 1
MAX_ERROR_TEXT = 500

_EXTRA_ALIASES = {
    "action_error": "task.processed",
    "action_failed": "task.processed",
    "step_failed": "step.failed",
    "step.done": "step.completed",
    "loop.done": "loop.completed",
}
_STATUS = {
    "execution.requested": "PENDING",
    "task.scheduled": "PENDING",
    "task.retry_scheduled": "PENDING",
    "execution.paused": "PENDING",
    "execution.failed": "FAILED",
    "step.failed": "FAILED",
    "task.retry_exhausted": "FAILED",
    "loop.iteration_failed": "FAILED",
    "execution.cancelled": "CANCELLED",
    "step.skipped": "SKIPPED",
}


class UnknownEventError(ValueError):
    """The text is no event that this version can read."""


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happened to an execution; `seq` is its place in the log, once it has one."""

    execution_id: str
    payload: Payload
    address: Address | None = None
    seq: int | None = None
    event_id: str | None = None
    parent_event_id: str | None = None
    retry_sequence_id: str | None = None
    occurred_at: datetime | None = None
    source: str = ""
    meta: dict[str, Any] = field(default_factory=dict)

    @property
    def identity(self) -> str:
        """Return the event's id: its own, or the one that follows from its place in the log."""
        return self.event_id or decision_event_id(self.execution_id, self.seq or 0)

    @property
    def type(self) -> str:
        """Return the dotted name."""
        return self.payload.type

    @property
    def alias(self) -> str:
        """Return the older name, which for an outcome depends on its status."""
        payload = self.payload
        if isinstance(payload, TaskProcessed):
            return "action_completed" if payload.outcome.get("status") == "success" else "action_error"
        return payload.alias

    @property
    def status(self) -> str:
        """Return the status that older readers expect."""
        payload = self.payload
        if isinstance(payload, TaskProcessed):
            return "COMPLETED" if payload.outcome.get("status") == "success" else "FAILED"
        return _STATUS.get(self.type) or ("STARTED" if self.type.endswith("started") else "COMPLETED")

    @property
    def is_fact(self) -> bool:
        """Say whether it came from outside the decider."""
        return self.type in FACTS


def types_named(name: str) -> frozenset[str]:
    """Return the event types that a name or an older alias stands for."""
    if name in CATALOGUE:
        return frozenset({name})
    found = {kind for kind, cls in CATALOGUE.items() if cls.alias == name}
    if name in _EXTRA_ALIASES:
        found.add(_EXTRA_ALIASES[name])
    return frozenset(found)


def event_to_json(event: Event) -> dict[str, Any]:
    """Return the event as it is stored and sent, versioned, both names beside each other."""
    address = event.address
    out: dict[str, Any] = {
        "v": EVENT_VERSION,
        "event_id": event.identity,
        "execution_id": event.execution_id,
        "seq": event.seq,
        "type": event.type,
        "alias": event.alias,
        "status": event.status,
        "occurred_at": event.occurred_at.isoformat() if event.occurred_at else None,
        "source": event.source,
        "payload": payload_to_json(event.payload),
    }
    if address is not None:
        out["node"] = address.node
    for name in ("parent_event_id", "retry_sequence_id"):
        if (value := getattr(event, name)) is not None:
            out[name] = value
    if event.meta:
        out["meta"] = event.meta
    return out


def event_from_json(data: dict[str, Any]) -> Event:
    """Return the event that was encoded; raises UnknownEventError."""
    if data.get("v") != EVENT_VERSION:
        raise UnknownEventError(f"unknown version of events: {data.get('v')!r}")
    kind = data.get("type")
    if kind not in CATALOGUE:
        raise UnknownEventError(f"unknown type of event: {kind!r}")
    execution_id, node, occurred = data.get("execution_id"), data.get("node"), data.get("occurred_at")
    address = parse_node(node) if isinstance(node, str) else None
    if node and address is None:
        raise UnknownEventError(f"not an address: {node!r}")
    if not isinstance(execution_id, str) or not execution_id:
        raise UnknownEventError(f"not the id of an execution: {execution_id!r}")
    try:
        occurred_at = datetime.fromisoformat(occurred) if occurred else None
    except (TypeError, ValueError):
        raise UnknownEventError(f"not a time: {occurred!r}") from None
    return Event(
        execution_id=execution_id,
        payload=payload_from_json(kind, data.get("payload") or {}),
        address=address,
        seq=data.get("seq"),
        event_id=data.get("event_id"),
        parent_event_id=data.get("parent_event_id"),
        retry_sequence_id=data.get("retry_sequence_id"),
        occurred_at=occurred_at,
        source=data.get("source") or "",
        meta=data.get("meta") or {},
    )


def payload_to_json(payload: Payload) -> dict[str, Any]:
    """Return the contents; what is at its default is left out."""
    out: dict[str, Any] = {}
    for item in dataclasses.fields(payload):  # type: ignore[arg-type]
        value = getattr(payload, item.name)
        default = item.default_factory() if item.default_factory is not dataclasses.MISSING else item.default
        if value != default or type(value) is not type(default):
            out[item.name] = list(value) if isinstance(value, tuple) else value
    return out


def payload_from_json(kind: str, data: dict[str, Any]) -> Payload:
    """Return the contents that were encoded; an unknown, missing or wrong field is an error."""
    cls = CATALOGUE[kind]
    known = _ACCEPTED[kind]
    if not isinstance(data, dict):
        raise UnknownEventError(f"the contents of {kind} are a mapping, not {type(data).__name__}")
    values: dict[str, Any] = {}
    for name, value in data.items():
        if name not in known:
            raise UnknownEventError(f"{kind} has no field {name}")
        accepted = known[name]
        value = tuple(value) if tuple in accepted and isinstance(value, list) else value
        if accepted and (not isinstance(value, accepted) or (isinstance(value, bool) and bool not in accepted)):
            raise UnknownEventError(f"{name} of {kind} cannot be {type(value).__name__}")
        values[name] = value
    try:
        if kind == TaskProcessed.type and "outcome" in values:
            values["outcome"] = outcome_from_json(values["outcome"]).as_json()
        return cls(**values)
    except TypeError as problem:
        raise UnknownEventError(f"{kind} lacks a field: {problem}") from problem
    except ValueError as problem:
        raise UnknownEventError(f"{kind}: {problem}") from problem


def _accepted(cls: type[Payload]) -> dict[str, tuple[type, ...]]:
    """Return, for every field, the types its value may have; none where it may have any."""
    hints = get_type_hints(cls)
    return {item.name: _types(hints[item.name]) for item in dataclasses.fields(cls)}  # type: ignore[arg-type]


def _types(hint: Any) -> tuple[type, ...]:
    if hint is Any:
        return ()
    if isinstance(hint, UnionType):
        return tuple(kind for part in get_args(hint) for kind in _types(part))
    kind = get_origin(hint) or hint
    return (int, float) if kind is float else (kind,)


_ACCEPTED = {kind: _accepted(cls) for kind, cls in CATALOGUE.items()}
