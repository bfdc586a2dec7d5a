"""States and stored values kept in memory: only ever a cache, and never more than a bound."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

from shared.engine.state import State
from shared.engine.world import MissingValueError, canonical_json

MAX_STATES = 5_000
MAX_VALUE_BYTES = 64 * 1024 * 1024


class States:
    """The states of executions that were decided on lately, by the version they are at."""

    def __init__(self, limit: int = MAX_STATES) -> None:
        self._limit = limit
        self._known: OrderedDict[str, State] = OrderedDict()

    def take(self, execution_id: str, version: int) -> State | None:
        """Give a state away if it is at this version; whoever takes it puts it back once it is stored."""
        state = self._known.pop(execution_id, None)
        return state if state is not None and state.seq == version else None

    def put(self, state: State) -> None:
        """Keep a state that is stored; one that has ended is not needed again soon."""
        if state.is_over:
            return
        self._known[state.execution_id] = state
        while len(self._known) > self._limit:
            self._known.popitem(last=False)


class CachedValues:
    """Stored values by reference, the least lately used going first when they are too many bytes."""

    def __init__(self, limit: int = MAX_VALUE_BYTES) -> None:
        self._limit = limit
        self._bytes = 0
        self._known: OrderedDict[str, tuple[Any, int]] = OrderedDict()

    def load(self, ref: str) -> Any:
        """Return a value, or raise MissingValueError for it to be fetched."""
        found = self._known.get(ref)
        if found is None:
            raise MissingValueError(ref)
        self._known.move_to_end(ref)
        return found[0]

    def put(self, ref: str, value: Any) -> None:
        """Keep a value; the newest stays even if it alone is beyond the bound."""
        size = len(canonical_json(value))
        old = self._known.pop(ref, None)
        self._bytes += size - (old[1] if old is not None else 0)
        self._known[ref] = (value, size)
        while self._bytes > self._limit and len(self._known) > 1:
            _, (_, gone) = self._known.popitem(last=False)
            self._bytes -= gone
