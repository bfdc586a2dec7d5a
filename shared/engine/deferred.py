"""Expressions left to the worker while a job is made: marks that no data can be, written out at the very end."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from shared.contracts.deferred import SCOPE, JobPath, written
from shared.contracts.references import is_reference, member


@dataclass(frozen=True, slots=True)
class Deferred:
    """An expression for the worker to finish, and what it reads of the engine's names; only renderers make one."""

    text: str
    names: dict[str, Any]


class LooksStoredError(ValueError):
    """A mapping with an expression for the worker in it has a `_ref`, so that the worker would take it for stored."""


def holds_deferred(value: Any) -> bool:
    """Say whether some expression in this data is left to the worker."""
    waiting = [value]
    while waiting:
        item = waiting.pop()
        if type(item) is Deferred:
            return True
        if isinstance(item, dict):
            waiting.extend(item.values())
        elif isinstance(item, list):
            waiting.extend(item)
    return False


def meets_deferred(value: Any, path: JobPath) -> bool:
    """Say whether a path into data, followed as expressions do, leads to or through what is left to the worker."""
    for key in path:
        if type(value) is Deferred:
            return True
        value = member(value, key)
    return holds_deferred(value)


def sealed(parts: dict[str, Any]) -> tuple[dict[str, Any], tuple[JobPath, ...]]:
    """Return the parts of a job with their deferred expressions written out, and where these are.

    Raises LooksStoredError.
    """
    found: list[JobPath] = []
    out = {root: _sealed(value, (root,), found) for root, value in parts.items()}
    return out, tuple(found)


def _sealed(value: Any, path: JobPath, found: list[JobPath]) -> Any:
    if isinstance(value, Deferred):
        found.append(path)
        return written(value.text, _sealed_names(value.names, (*path, SCOPE), found))
    if isinstance(value, list):
        return [_sealed(item, (*path, index), found) for index, item in enumerate(value)]
    if not isinstance(value, dict):
        return value
    before = len(found)
    out = {key: _sealed(item, (*path, key), found) for key, item in value.items()}
    if len(found) > before and is_reference(value):
        raise LooksStoredError
    return out


def _sealed_names(names: dict[str, Any], path: JobPath, found: list[JobPath]) -> dict[str, Any]:
    if is_reference(names):
        raise LooksStoredError
    return {name: _sealed(item, (*path, name), found) for name, item in names.items()}
