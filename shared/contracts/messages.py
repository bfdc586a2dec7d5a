"""Messages between the services: JSON, versioned, many facts or many wake-ups in one."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from shared.contracts.events import Event, event_from_json, event_to_json
from shared.contracts.jobs import Job, job_from_json, job_to_json

MESSAGE_VERSION = 1
MAX_MESSAGE_BYTES = 256 * 1024


class UnreadableMessageError(ValueError):
    """The body is no message that this version can read; the reason says why."""


@dataclass(frozen=True, slots=True)
class Wake:
    """Executions that have something to decide."""

    executions: tuple[str, ...]


def encode_facts(facts: Iterable[Event]) -> list[bytes]:
    """Return the facts as messages, as many in one as the size of a message allows."""
    return _packed("facts", [json.dumps(event_to_json(fact), ensure_ascii=False) for fact in facts])


def decode_facts(body: bytes) -> list[Event]:
    """Return the facts of a message."""
    items = _opened(body, "facts")
    try:
        return [event_from_json(item) for item in items]
    except (KeyError, TypeError, ValueError, AttributeError) as problem:
        raise UnreadableMessageError(f"a fact that cannot be read: {problem}") from problem


def encode_wake(executions: Sequence[str]) -> list[bytes]:
    """Return wake-ups for these executions as messages."""
    return _packed("executions", [json.dumps(execution) for execution in executions])


def decode_wake(body: bytes) -> Wake:
    """Return the executions that a message wakes."""
    items = _opened(body, "executions")
    if not all(isinstance(item, str) for item in items):
        raise UnreadableMessageError("an execution's id is a text")
    return Wake(tuple(items))


def encode_job(job: Job) -> bytes:
    """Return a job as a message."""
    return json.dumps(job_to_json(job), ensure_ascii=False, separators=(",", ":")).encode()


def decode_job(body: bytes) -> Job:
    """Return the job of a message."""
    data = _parsed(body)
    try:
        return job_from_json(data)
    except (KeyError, TypeError, ValueError, AttributeError) as problem:
        raise UnreadableMessageError(f"a job that cannot be read: {problem}") from problem


def _packed(name: str, items: list[str]) -> list[bytes]:
    out: list[bytes] = []
    batch: list[str] = []
    size = 0
    for item in items:
        length = len(item.encode())
        if batch and size + length > MAX_MESSAGE_BYTES:
            out.append(_wrapped(name, batch))
            batch, size = [], 0
        batch.append(item)
        size += length + 1
    if batch:
        out.append(_wrapped(name, batch))
    return out


def _wrapped(name: str, items: list[str]) -> bytes:
    return f'{{"v":{MESSAGE_VERSION},"{name}":[{",".join(items)}]}}'.encode()


def _parsed(body: bytes) -> dict[str, Any]:
    try:
        data = json.loads(body)
    except (ValueError, RecursionError) as problem:
        raise UnreadableMessageError(f"not JSON: {problem}") from problem
    if not isinstance(data, dict):
        raise UnreadableMessageError("a message is an object")
    if data.get("v") != MESSAGE_VERSION:
        raise UnreadableMessageError(f"unknown version of messages: {data.get('v')!r}")
    return data


def _opened(body: bytes, name: str) -> list[Any]:
    items = _parsed(body).get(name)
    if not isinstance(items, list):
        raise UnreadableMessageError(f"a message without '{name}'")
    return items
