"""Stored values in Postgres: by content, and the results of loops from the log."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

from shared.contracts.ids import parse_node
from shared.store.encoding import LoopReference, loop_reference
from shared.store.port import UnknownReferenceError
from shared.store.postgres.connected import Driver

_BODY = "SELECT body FROM redrive.result WHERE ref = $1"
_PART = "SELECT substring(body FROM $2 FOR $3), size FROM redrive.result WHERE ref = $1"

_MARKS = """
SELECT type, visit, payload FROM redrive.event
WHERE execution_id = $1 AND bucket = (SELECT bucket FROM redrive.execution WHERE execution_id = $1)
    AND step = $2 AND iteration IS NULL AND seq IS NOT NULL
    AND type IN ('step.started', 'loop.started', 'loop.iteration_completed')
"""

# How many elements a cursor brought is not known when its loop starts.
_CLAIMED = """
SELECT max(total_iterations) FROM redrive.iterator_state WHERE execution_id = $1 AND node = ANY($2::text[])
"""

# A run that was taken up again has the results of the runs before it; of two for one element the later counts.
_RESULTS = """
SELECT DISTINCT ON (iteration) iteration, payload -> 'result' FROM redrive.event
WHERE execution_id = $1 AND bucket = (SELECT bucket FROM redrive.execution WHERE execution_id = $1)
    AND step = $2 AND iteration > $4 AND visit = ANY($3::integer[]) AND seq IS NOT NULL
    AND type IN ('step.started', 'loop.started', 'loop.iteration_completed')
ORDER BY iteration, visit DESC
LIMIT $5
"""


async def result_on(driver: Driver, ref: str) -> Any:
    """Return the value of a reference."""
    loop = loop_reference(ref)
    if loop is not None:
        return await _loop_result(driver, loop, ref)
    found = await driver.fetchval(_BODY, ref)
    if found is None:
        raise UnknownReferenceError(ref)
    return json.loads(found)


async def part_on(driver: Driver, ref: str, start: int, length: int | None) -> tuple[bytes, int] | None:
    """Return a part of a value's text and the size of the whole."""
    found = await driver.fetchrow(_PART, ref, start + 1, 2**31 - 1 - start - 1 if length is None else length)
    return None if found is None else (found[0], found[1])


async def _loop_result(driver: Driver, loop: LoopReference, ref: str) -> list[Any]:
    total, visits = await _extent(driver, loop, ref)
    out: list[Any] = [None] * total
    async for page in _pages(driver, loop, visits, 10_000):
        for index, value in page:
            out[index] = value
    return out


async def loop_pages(driver: Driver, ref: str, size: int) -> AsyncIterator[list[tuple[int, Any]]]:
    """Give the results of a loop, some at a time."""
    loop = loop_reference(ref)
    if loop is None:
        raise UnknownReferenceError(ref)
    _, visits = await _extent(driver, loop, ref)
    async for page in _pages(driver, loop, visits, size):
        yield page


async def _pages(
    driver: Driver, loop: LoopReference, visits: list[int], size: int
) -> AsyncIterator[list[tuple[int, Any]]]:
    after = -1
    while True:
        rows = await driver.fetch(_RESULTS, loop.execution_id, loop.step, visits, after, size)
        if rows:
            yield [(row[0], row[1]) for row in rows]
            after = rows[-1][0]
        if len(rows) < size:
            return


async def _extent(driver: Driver, loop: LoopReference, ref: str) -> tuple[int, list[int]]:
    """Return how many elements a loop has, and the visits to its step that worked on them."""
    rows = await driver.fetch(_MARKS, loop.execution_id, loop.step)
    sizes = {row[1]: row[2]["collection_size"] for row in rows if row[0] == "loop.started"}
    before = {row[1]: row[2].get("resumes") for row in rows if row[0] == "step.started"}
    visits: list[int] = []
    visit: int | None = loop.visit
    while visit is not None and visit not in visits:
        visits.append(visit)
        earlier = parse_node(before.get(visit) or "")
        visit = None if earlier is None else earlier.visit
    start = next((visit for visit in visits if visit in sizes), None)
    if start is None:
        raise UnknownReferenceError(ref)
    total = sizes[start]
    if total is None:
        total = await driver.fetchval(_CLAIMED, loop.execution_id, [f"{loop.step}~{visit}" for visit in visits])
    return total, visits
