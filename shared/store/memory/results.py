"""Stored values in memory: by content, and the results of loops from the log."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator
from typing import Any

from shared.contracts.events import Event
from shared.contracts.ids import parse_node
from shared.contracts.payloads import IterationCompleted, LoopClaimed, LoopStarted, StepStarted
from shared.store.encoding import LoopReference, checked_text, loop_reference
from shared.store.memory.kept import Memory, event_of
from shared.store.port import UnknownReferenceError


class MemoryResults(Memory):
    """Values by reference."""

    async def result(self, ref: str) -> Any:
        """Return the value of a reference."""
        loop = loop_reference(checked_text(ref, "the reference"))
        if loop is not None:
            total, visits = self._extent(loop, ref)
            found = self._loop_results(loop, visits)
            return [found.get(index) for index in range(total)]
        if ref not in self._results:
            raise UnknownReferenceError(ref)
        return json.loads(self._results[ref].data)

    async def result_bytes(self, ref: str, start: int = 0, length: int | None = None) -> tuple[bytes, int] | None:
        """Return a part of a stored value's JSON text and the size of the whole."""
        body = self._results.get(checked_text(ref, "the reference"))
        if body is None:
            return None
        return body.data[start : None if length is None else start + length], len(body.data)

    async def loop_results(self, ref: str, page: int = 1000) -> AsyncIterator[list[tuple[int, Any]]]:
        """Give the results of a loop with their places, a page at a time."""
        loop = loop_reference(ref)
        if loop is None:
            raise UnknownReferenceError(ref)
        _, visits = self._extent(loop, ref)
        found = sorted(self._loop_results(loop, visits).items())
        for at in range(0, len(found), page):
            yield found[at : at + page]

    def _loop_results(self, loop: LoopReference, visits: list[int]) -> dict[int, Any]:
        out: dict[int, Any] = {}
        for visit in reversed(visits):
            for event in self._events_of(loop):
                said = event.payload
                if isinstance(said, IterationCompleted) and event.address is not None and event.address.visit == visit:
                    out[said.index] = said.result
        return out

    def _extent(self, loop: LoopReference, ref: str) -> tuple[int, list[int]]:
        sizes: dict[int, int] = {}
        before: dict[int, str | None] = {}
        for event in self._events_of(loop):
            assert event.address is not None
            if isinstance(event.payload, LoopStarted):
                sizes[event.address.visit] = event.payload.collection_size or 0
            elif isinstance(event.payload, LoopClaimed):
                sizes[event.address.visit] = event.payload.first + event.payload.iterations
            elif isinstance(event.payload, StepStarted):
                before[event.address.visit] = event.payload.resumes
        visits: list[int] = []
        visit: int | None = loop.visit
        while visit is not None and visit not in visits:
            visits.append(visit)
            earlier = parse_node(before.get(visit) or "")
            visit = None if earlier is None else earlier.visit
        total = next((sizes[visit] for visit in visits if visit in sizes), None)
        if total is None:
            raise UnknownReferenceError(ref)
        return total, visits

    def _events_of(self, loop: LoopReference) -> Iterator[Event]:
        execution = self._executions.get(loop.execution_id)
        for kept in execution.log if execution is not None else []:
            if kept.row.step == loop.step:
                yield event_of(kept)
