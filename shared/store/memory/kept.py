"""What the memory store holds, and the small steps that every part of it takes."""

from __future__ import annotations

import asyncio
import json
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from shared.contracts.events import Event
from shared.store.encoding import Body
from shared.store.projection import LoopChange, RetryChange
from shared.store.records import (
    AuditRow,
    Beat,
    CredentialRow,
    DeadLetterRow,
    ExecutionRow,
    JobRow,
    PlaybookVersion,
    SealedCredential,
)
from shared.store.rows import EVENT_COLUMNS, EventRow, stored_event

MAX_AUDIT = 10_000


@dataclass(slots=True)
class Kept:
    """An event, when it was stored, and whether it was found to change nothing."""

    row: EventRow
    stored_at: datetime


@dataclass(slots=True)
class KeptExecution:
    """An execution with its log and what is not applied to it."""

    row: ExecutionRow
    snapshot: str | None = None
    snapshot_seq: int = 0
    log: list[Kept] = field(default_factory=list)
    unapplied: dict[str, Kept] = field(default_factory=dict)
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)


class Memory:
    """Holds everything; every change is made between two awaits and so at once."""

    def __init__(self, now: Callable[[], datetime]) -> None:
        self._now = now
        self._playbooks: dict[str, list[tuple[PlaybookVersion, str]]] = {}
        self._executions: dict[str, KeptExecution] = {}
        self._keys: dict[str, str] = {}
        self._event_ids: set[str] = set()
        self._jobs: dict[str, JobRow] = {}
        self._swept: dict[str, datetime] = {}
        self._unserved: set[str] = set()
        self._dead_letters: dict[str, DeadLetterRow] = {}
        self._results: dict[str, Body] = {}
        self._references: dict[str, int] = {}
        self._loops: dict[tuple[str, str], LoopChange] = {}
        self._retries: dict[tuple[str, str], RetryChange] = {}
        self._marks: dict[str, str] = {}
        self._locks: dict[str, asyncio.Lock] = {}
        self._workers: dict[str, tuple[Beat, datetime, datetime]] = {}
        self._credentials: dict[str, tuple[CredentialRow, SealedCredential]] = {}
        self._audit: deque[AuditRow] = deque(maxlen=MAX_AUDIT)

    def _ago(self, seconds: float) -> datetime:
        return self._now() - timedelta(seconds=seconds)

    def _ahead(self, seconds: float) -> datetime:
        return self._now() + timedelta(seconds=seconds)


def event_of(kept: Kept) -> Event:
    """Return a kept event, decoded anew, so that nobody shares its values."""
    row = kept.row._asdict()
    for name in ("payload", "meta", "context"):
        row[name] = None if row[name] is None else json.loads(row[name])
    return stored_event([row[name] for name in EVENT_COLUMNS])


def copied(value: Any) -> Any:
    """Return JSON data that shares nothing with what was given."""
    return json.loads(json.dumps(value))
