"""References made whole: the value loaded, the path into it followed, what lies there loaded in turn."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeAlias

from services.worker.values import MissingValueError, Values
from shared.contracts.references import MISSING, is_reference, member

MAX_LEVELS = 8
SIDE_BY_SIDE = 16

Identity: TypeAlias = tuple[str, str]
Pieces: TypeAlias = Mapping[Identity, Any]
"""What references stand for, by reference and path; MISSING where a path leads to nothing."""


class TooMuchError(Exception):
    """The references stand for more than is to be held in memory."""


def identity_of(reference: dict[str, Any]) -> Identity:
    """Return what tells two references apart."""
    return reference["_ref"], json.dumps(reference.get("_path", ()))


def mappings(roots: Sequence[Any]) -> Iterator[dict[str, Any]]:
    """Give every mapping in the data, but look inside no reference."""
    waiting = list(roots)
    while waiting:
        value = waiting.pop()
        if isinstance(value, list):
            waiting.extend(value)
        elif isinstance(value, dict):
            yield value
            if not is_reference(value):
                waiting.extend(value.values())


class Loading:
    """Loads what one job refers to, each value once and only so many bytes of them."""

    def __init__(self, values: Values, limit: int) -> None:
        self._values = values
        self._left = limit
        self._few = asyncio.Semaphore(SIDE_BY_SIDE)
        self._tasks: dict[str, asyncio.Task[Any]] = {}

    async def pieces(self, references: list[dict[str, Any]]) -> Pieces:
        """Return what these references stand for, whole; raises MissingValueError, TooMuchError, UnavailableError."""
        wanted = {identity_of(item): item for item in references}
        try:
            found = await asyncio.gather(*[self._piece(item, MAX_LEVELS) for item in wanted.values()])
        finally:
            for task in self._tasks.values():
                task.cancel()
            await asyncio.gather(*self._tasks.values(), return_exceptions=True)
        return dict(zip(wanted, found, strict=True))

    async def _piece(self, reference: dict[str, Any], levels: int) -> Any:
        found = await self._followed(reference, levels)
        inner = {identity_of(item): item for item in mappings([found]) if is_reference(item)}
        if not inner or levels == 0:
            return found
        pieces = await asyncio.gather(*[self._piece_or_itself(item, levels - 1) for item in inner.values()])
        return filled(found, dict(zip(inner, pieces, strict=True)))

    async def _piece_or_itself(self, reference: dict[str, Any], levels: int) -> Any:
        """Return what a reference in data stands for; what only looks like one stays as it is."""
        try:
            return await self._piece(reference, levels)
        except MissingValueError:
            return reference

    async def _followed(self, reference: dict[str, Any], levels: int) -> Any:
        found = await self._load(reference)
        for index, key in enumerate(reference.get("_path", ())):
            if is_reference(found) and levels > 0:
                found = await self._followed(found, levels - 1)
            found = member(found, key, is_first=index == 0)
            if found is MISSING:
                return MISSING
        return found

    async def _load(self, reference: dict[str, Any]) -> Any:
        ref = reference["_ref"]
        if ref not in self._tasks:
            size = reference.get("_size", 0)
            self._left -= size if isinstance(size, int) else 0
            if self._left < 0:
                raise TooMuchError
            self._tasks[ref] = asyncio.create_task(self._loaded(ref))
        return await asyncio.shield(self._tasks[ref])

    async def _loaded(self, ref: str) -> Any:
        async with self._few:
            return await self._values.load(ref)


def filled(value: Any, known: Pieces, notes: list[str] | None = None) -> Any:
    """Return data with what it refers to in its place, nothing where a path led to nothing, which is noted."""
    if isinstance(value, list):
        return [filled(item, known, notes) for item in value]
    if not isinstance(value, dict):
        return value
    if not is_reference(value):
        return {key: filled(item, known, notes) for key, item in value.items()}
    found = known[identity_of(value)]
    if found is not MISSING:
        return found
    if notes is not None:
        path = ".".join(str(part) for part in value.get("_path", ()))
        notes.append(f"'{path}' is undefined in the stored value")
    return None
