"""The log of an execution read whole, up to a limit."""

from __future__ import annotations

from collections.abc import Collection

from shared.contracts.events import Event
from shared.store.port import Store

PAGE = 1000


async def read_log(
    store: Store, execution_id: str, most: int, *, step: str | None = None, types: Collection[str] | None = None
) -> tuple[list[Event], bool]:
    """Return the events of a log, or those of a step or of some types, and whether there were too many."""
    log: list[Event] = []
    while len(log) < most:
        after = log[-1].seq or 0 if log else 0
        found = await store.events(execution_id, step=step, types=types, after=after, limit=PAGE)
        log += found
        if len(found) < PAGE:
            return log, False
    return log, True
