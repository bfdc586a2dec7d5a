"""The log of an execution as it grows, as server-sent events."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator

from services.ingest.consuming import wait_for
from services.ingest.parts import Parts
from services.ingest.views import event_text
from shared.contracts.events import Event
from shared.errors import UnavailableError
from shared.runtime.logs import Log
from shared.store.records import OVER

PAGE = 500
ALIVE_EVERY_S = 15.0
RECONNECT_MS = 1000

_log = Log("redrive.ingest.stream")


async def frames(parts: Parts, execution_id: str, after: int) -> AsyncIterator[str]:
    """Give the events after a place, as they come, until the execution is over and all were given."""
    yield f"retry: {RECONNECT_MS}\n\n"
    spoke = parts.clock.monotonic()
    while not parts.stopping.is_set():
        found, status, end = await _looked(parts, execution_id, after)
        for event in found:
            yield frame(event)
            after = event.seq or after
        if not found and status in OVER and after >= end:
            yield f"event: end\ndata: {json.dumps({'status': status, 'seq': after})}\n\n"
            return
        if found:
            spoke = parts.clock.monotonic()
            continue
        if parts.clock.monotonic() - spoke >= ALIVE_EVERY_S:
            yield ": alive\n\n"
            spoke = parts.clock.monotonic()
        await wait_for(parts.stopping, parts.clock, parts.settings.poll_s)


def frame(event: Event) -> str:
    """Return an event as a server-sent one; its id is its place in the log."""
    return f"id: {event.seq}\nevent: {event.type}\ndata: {event_text(event)}\n\n"


async def _looked(parts: Parts, execution_id: str, after: int) -> tuple[list[Event], str, int]:
    """Return what came after a place, and how the execution stood before that was read."""
    try:
        row = await parts.store.execution(execution_id)
        found = await parts.store.events(execution_id, after=after, limit=PAGE)
    except UnavailableError as problem:
        _log.warning("stream_waits", execution_id=execution_id, reason=str(problem)[:300])
        return [], "unknown", 0
    return found, row.status if row is not None else "unknown", row.version if row is not None else 0
