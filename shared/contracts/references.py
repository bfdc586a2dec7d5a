"""References: a value that is stored elsewhere, what it stands for, and the way into it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from enum import Enum
from typing import Any, Final, TypeGuard

SCHEMES: Final = ("sha256:", "loop:")


class _Missing(Enum):
    MISSING = "missing"


MISSING: Final = _Missing.MISSING


def is_reference(value: Any) -> TypeGuard[dict[str, Any]]:
    """Say whether a value stands for one that is stored elsewhere."""
    if not isinstance(value, dict):
        return False
    ref = value.get("_ref")
    return isinstance(ref, str) and ref.startswith(SCHEMES)


def into(reference: dict[str, Any], path: Iterable[str | int]) -> dict[str, Any]:
    """Return the reference to what lies further inside the value that a reference stands for."""
    further = [*reference.get("_path", ()), *path]
    return {**reference, "_path": further} if further else reference


def fetched(reference: dict[str, Any], load: Callable[[str], Any]) -> Any:
    """Return the value a reference stands for, its path followed; None where the path leads to nothing."""
    found = load(reference["_ref"])
    for index, key in enumerate(reference.get("_path", ())):
        if is_reference(found):
            found = fetched(found, load)
        found = member(found, key, is_first=index == 0)
        if found is MISSING:
            return None
    return fetched(found, load) if is_reference(found) else found


def member(value: Any, key: str | int, *, is_first: bool = False) -> Any:
    """Return what a result has under a key, as expressions read it: an answer's body lies open, `data` is there."""
    if isinstance(value, dict):
        if key in value:
            return value[key]
        if is_http_result(value) and isinstance(value["body"], dict) and key in value["body"]:
            return value["body"][key]
    elif isinstance(value, list) and isinstance(key, int):
        return value[key] if -len(value) <= key < len(value) else MISSING
    return subject_of(value) if is_first and key == "data" else MISSING


def is_http_result(value: Any) -> bool:
    """Say whether a result is the envelope of an HTTP answer."""
    return isinstance(value, dict) and "status_code" in value and "body" in value


def subject_of(value: Any) -> Any:
    """Return what a result is about: its `data`, an answer's body, or itself."""
    if is_http_result(value):
        return value["body"]
    if isinstance(value, dict) and "data" in value:
        return value["data"]
    return value
