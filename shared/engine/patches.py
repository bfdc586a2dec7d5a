"""Writing evaluated patches into `ctx`, `iter` and the names of a frame."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def write(target: dict[str, Any], patch: Mapping[str, Any]) -> None:
    """Write values under dotted paths; mappings on the way are copied, so that nothing shared changes."""
    for path, value in patch.items():
        *way, last = path.split(".")
        place = target
        for key in way:
            inner = place.get(key)
            inner = dict(inner) if isinstance(inner, dict) else {}
            place[key] = inner
            place = inner
        place[last] = value


def written(source: Mapping[str, Any], patch: Mapping[str, Any]) -> dict[str, Any]:
    """Return a copy with the values written into it."""
    out = dict(source)
    write(out, patch)
    return out


def read(source: Mapping[str, Any], path: str) -> Any:
    """Return what stands under a dotted path, or None."""
    value: Any = source
    for key in path.split("."):
        if not isinstance(value, Mapping) or key not in value:
            return None
        value = value[key]
    return value


def combined(reducer: str, old: Any, new: Any) -> Any:
    """Return what becomes of a key that several iterations write."""
    match reducer:
        case "append":
            return [*(old if isinstance(old, list) else ([] if old is None else [old])), new]
        case "sum":
            return (old or 0) + new
        case "max":
            return new if old is None else max(old, new)
        case "min":
            return new if old is None else min(old, new)
        case _:
            return new
