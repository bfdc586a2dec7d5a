"""What can name a pool of workers."""

from __future__ import annotations

import re

# What is due in this pool is no work for a worker but a timer that the orchestrator hears.
ORCHESTRATOR_POOL = "orchestrator"
MAX_POOL_CHARS = 128

_NAME = re.compile(r"[A-Za-z0-9_-]+(?:\.[A-Za-z0-9_-]+)*")
_SHOWN_CHARS = 60


def pool_problem(name: str) -> str | None:
    """Say why a text cannot name a pool of workers; nothing, if it can."""
    if name == ORCHESTRATOR_POOL:
        return f"'{ORCHESTRATOR_POOL}' cannot name a pool of workers: it is the orchestrator's own"
    if len(name) > MAX_POOL_CHARS:
        return f"a name of {len(name)} characters cannot name a pool: it has at most {MAX_POOL_CHARS}"
    if not _NAME.fullmatch(name):
        shown = name if len(name) <= _SHOWN_CHARS else f"{name[:_SHOWN_CHARS]}…"
        return f"{shown!r} cannot name a pool: words of letters, digits, _ and -, joined by dots"
    return None
