"""Rows: events, executions and commands in the columns of their tables, and events back from them."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from typing import Any, NamedTuple

from shared.contracts.events import Event, payload_from_json, payload_to_json
from shared.contracts.ids import Address
from shared.contracts.payloads import ExecutionRequested
from shared.errors import RejectedError
from shared.store.encoding import checked_int, checked_text, checked_time, checked_uuid, json_text
from shared.store.records import NewExecution


class EventRow(NamedTuple):
    """An event in the columns of its table, as far as the writer says them."""

    event_id: str
    execution_id: str
    seq: int | None
    type: str
    node: str | None
    step: str | None
    visit: int | None
    iteration: int | None
    task: str | None
    page: int | None
    attempt: int | None
    parent_event_id: str | None
    retry_sequence_id: str | None
    occurred_at: datetime | None
    source: str
    payload: str
    meta: str | None
    context: str | None


Place = tuple[str | None, str | None, int | None, int | None, str | None, int | None, int | None]
NO_PLACE: Place = (None, None, None, None, None, None, None)


def fact_row(event: Event) -> EventRow:
    """Return the row of a fact from outside; every part of it is checked."""
    if event.event_id is None:
        raise RejectedError(f"a fact needs an event_id: {event.type}")
    address = event.address
    if address is not None:
        checked_int(address.visit, "visit")
        checked_int(address.iteration, "iteration")
        checked_int(address.page, "page")
        checked_int(address.attempt, "attempt")
    if event.retry_sequence_id is not None:
        checked_text(event.retry_sequence_id, "retry_sequence_id")
    checked_text(event.source, "source")
    checked_time(event.occurred_at, "occurred_at")
    identity, execution_id = checked_uuid(event.event_id, "event_id"), checked_uuid(event.execution_id, "execution_id")
    parent = None if event.parent_event_id is None else checked_uuid(event.parent_event_id, "parent_event_id")
    said = (event.event_id, event.execution_id, event.parent_event_id, event.seq)
    if said != (identity, execution_id, parent, None):
        event = replace(event, event_id=identity, execution_id=execution_id, parent_event_id=parent, seq=None)
    return event_row(event)


def event_row(event: Event) -> EventRow:
    """Return the row of an event; its values are checked, its identities are taken as they are."""
    meta, context = event.meta, None
    if meta and "context" in meta:
        context = meta["context"]
        meta = {key: value for key, value in meta.items() if key != "context"}
    return EventRow(
        event.identity,
        event.execution_id,
        event.seq,
        event.type,
        *_place(event.address),
        event.parent_event_id,
        event.retry_sequence_id,
        event.occurred_at,
        event.source,
        json_text(payload_to_json(event.payload), event.type),
        json_text(meta, "meta") if meta else None,
        json_text(context, "context") if context is not None else None,
    )


def _place(address: Address | None) -> Place:
    if address is None:
        return NO_PLACE
    task = address.task
    page, attempt = (None, None) if task is None else (address.page, address.attempt)
    return address.node, address.step, address.visit, address.iteration, task, page, attempt


# What `stored_event` reads, in its order.
EVENT_COLUMNS = (
    "event_id", "execution_id", "seq", "type", "step", "visit", "iteration", "task", "page", "attempt",
    "parent_event_id", "retry_sequence_id", "occurred_at", "source", "payload", "meta", "context",
)  # fmt: skip


def stored_event(row: Any) -> Event:
    """Return the event of a row that has EVENT_COLUMNS, its JSON decoded."""
    (
        event_id, execution_id, seq, kind, step, visit, iteration, task, page, attempt,
        parent, sequence, occurred_at, source, payload, meta, context,
    ) = row  # fmt: skip
    meta = meta or {}
    if context is not None:
        meta = {**meta, "context": context}
    return Event(
        execution_id=str(execution_id),
        payload=payload_from_json(kind, payload),
        address=None if step is None else Address(step, visit, iteration, task, page or 1, attempt),
        seq=seq,
        event_id=str(event_id),
        parent_event_id=None if parent is None else str(parent),
        retry_sequence_id=sequence,
        occurred_at=occurred_at,
        source=source,
        meta=meta,
    )


def requested_of(item: NewExecution) -> ExecutionRequested:
    """Return what was asked for; raise RejectedError if the fact says something else."""
    said = item.requested.payload
    if not isinstance(said, ExecutionRequested):
        raise RejectedError(f"an execution begins with execution.requested, not {item.requested.type}")
    return said


ExecutionValues = tuple[str, str, int | None, str, str, str | None, str | None]


def execution_row(item: NewExecution) -> ExecutionValues:
    """Return the values of a new execution's row, checked."""
    said = requested_of(item)
    fact_row(item.requested)
    parent = (said.parent or {}).get("execution_id")
    key = said.idempotency_key
    return (
        checked_uuid(item.execution_id, "execution_id"),
        checked_text(item.path, "path"),
        item.version,
        said.plan,
        json_text(said.labels, "labels"),
        None if parent is None else checked_uuid(parent, "parent"),
        None if key is None else checked_text(key, "idempotency_key"),
    )
