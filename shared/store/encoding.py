"""What may be stored and in which form: JSON text that Postgres takes, UUIDs, references, cursors."""

from __future__ import annotations

import base64
import json
import re
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from shared.contracts.ids import parse_node
from shared.engine.world import canonical_json, reference_to
from shared.errors import RejectedError

MAX_INT = 2**31 - 1
# A value that holds itself is found by its depth; to look for it otherwise doubles the cost.
_encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False, check_circular=False).encode
_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")


def json_text(value: Any, what: str) -> str:
    """Return a value as JSON text; raise RejectedError for what JSON or Postgres cannot hold."""
    try:
        text = _encode(value)
        if not text.isascii():
            text.encode()
    except UnicodeEncodeError:
        raise RejectedError(f"{what} holds half of a surrogate pair, which is no text") from None
    except (ValueError, TypeError) as problem:
        raise RejectedError(f"{what} is no JSON: {problem}") from None
    except RecursionError:
        raise RejectedError(f"{what} is nested too deeply") from None
    if "\\u0000" in text and _holds_nul(value):
        raise RejectedError(f"{what} holds a NUL character, which cannot be stored")
    return text


def _holds_nul(value: Any) -> bool:
    match value:
        case str():
            return "\0" in value
        case dict():
            return any(_holds_nul(key) or _holds_nul(item) for key, item in value.items())
        case list() | tuple():
            return any(_holds_nul(item) for item in value)
        case _:
            return False


def checked_text(value: str, what: str) -> str:
    """Return a text that can be stored; raise RejectedError if it cannot."""
    if "\0" in value:
        raise RejectedError(f"{what} holds a NUL character, which cannot be stored")
    if not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError:
            raise RejectedError(f"{what} holds half of a surrogate pair, which is no text") from None
    return value


def checked_uuid(value: str | None, what: str) -> str:
    """Return an identity in its one form; raise RejectedError for what is no UUID."""
    if isinstance(value, str) and _UUID.fullmatch(value):
        return value
    try:
        return str(UUID(value))
    except (ValueError, TypeError, AttributeError):
        raise RejectedError(f"{what} is no UUID: {value!r}") from None


def checked_int(value: int | None, what: str) -> int | None:
    """Return a number that its column can hold; raise RejectedError for one that it cannot."""
    if value is not None and not 0 <= value <= MAX_INT:
        raise RejectedError(f"{what} is out of range: {value}")
    return value


def checked_time(value: datetime | None, what: str) -> datetime | None:
    """Return a time that has a zone; raise RejectedError for one without."""
    if value is not None and value.tzinfo is None:
        raise RejectedError(f"{what} has no time zone")
    return value


def cursor_of(*parts: object) -> str:
    """Return an opaque text for a place in a list."""
    values = [part.isoformat() if isinstance(part, datetime) else part for part in parts]
    return base64.urlsafe_b64encode(json.dumps(values).encode()).decode().rstrip("=")


def parts_of(cursor: str, count: int) -> list[Any]:
    """Return what a cursor was made of; raise RejectedError for any other text."""
    try:
        parts = json.loads(base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)))
    except ValueError:
        parts = None
    if not isinstance(parts, list) or len(parts) != count:
        raise RejectedError("the cursor is none that was given out")
    return parts


def time_and_id(cursor: str) -> tuple[datetime, str]:
    """Return the time and the identity that a cursor was made of."""
    when, identity = parts_of(cursor, 2)
    try:
        return datetime.fromisoformat(when), checked_uuid(identity, "cursor")
    except (ValueError, TypeError):
        raise RejectedError("the cursor is none that was given out") from None


@dataclass(frozen=True, slots=True)
class Body:
    """A stored value: its reference and the bytes of its canonical text."""

    reference: dict[str, Any]
    data: bytes


def body_of(value: Any) -> Body:
    """Return a value as it is stored by its content."""
    json_text(value, "a result")
    text = canonical_json(value)
    return Body(reference_to(text), text.encode())


@dataclass(frozen=True, slots=True)
class LoopReference:
    """The results of a loop, which stand in the log."""

    execution_id: str
    step: str
    visit: int


def loop_reference(ref: str) -> LoopReference | None:
    """Return the loop that a reference names; nothing, if it names a stored value."""
    if not ref.startswith("loop:"):
        return None
    execution_id, _, key = ref.removeprefix("loop:").partition("/")
    address = parse_node(key)
    if address is None or address.node != key:
        return None
    return LoopReference(checked_uuid(execution_id, "the reference's execution"), address.step, address.visit)


def retimed_message(message: dict[str, Any], available_at: datetime | None, now: datetime) -> dict[str, Any]:
    """Return what a worker is sent, with another due time and the delay until then."""
    if available_at is None:
        return {**message, "available_at": None, "delay_s": 0.0}
    delay_s = max(0.0, (available_at - now).total_seconds())
    return {**message, "available_at": available_at.isoformat(), "delay_s": delay_s}
