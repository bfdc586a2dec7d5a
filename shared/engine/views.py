"""Results as expressions see them: loaded when read into, with the helpers that the language lays beside them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, Final, TypeAlias

from shared.contracts.references import MISSING, fetched, is_http_result, is_reference, subject_of
from shared.engine.world import Values
from shared.templates.expressions import Listed, Path, Template

__all__ = ["MISSING", "EventName", "Extras", "http_body", "is_http_result", "opened", "paths_below"]

Extras: TypeAlias = Mapping[str, Callable[[], Any]]
Paths: TypeAlias = tuple[Path, ...]

http_body = subject_of
NO_EXTRAS: Final[Extras] = {}
_EVENT_NAMES = {
    "step.done": "step.completed",
    "step_completed": "step.completed",
    "step_failed": "step.failed",
    "step_skipped": "step.skipped",
    "loop.done": "loop.completed",
}


class EventName(str):
    """The name of an event; its older names compare equal, and a finished loop's step is both."""

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, str):
            return NotImplemented
        mine, theirs = str.__str__(self), str.__str__(other)
        theirs = _EVENT_NAMES.get(theirs, theirs)
        return mine == theirs or (mine == "step.completed" and theirs == "loop.completed")

    def __ne__(self, other: object) -> bool:
        equal = self.__eq__(other)
        return equal if equal is NotImplemented else not equal

    __hash__ = str.__hash__


@lru_cache(maxsize=8192)
def paths_below(template: Template) -> dict[str, Paths]:
    """Return, for every name a template reads, the ways it goes on from there; an empty way reads the whole."""
    found: dict[str, list[Path]] = {}
    for path in template.reads:
        found.setdefault(str(path[0]), []).append(path[1:])
    return {name: tuple(paths) for name, paths in found.items()}


def opened(value: Any, paths: Paths, values: Values, extras: Extras = NO_EXTRAS, *, is_list: bool = False) -> Any:
    """Return a value in which everything the paths lead into is at hand; what they do not read is not loaded."""
    if type(value) is not dict and type(value) is not list and not extras:
        return value
    if not paths:
        return value
    if is_reference(value):
        if all(path and path[0] in value for path in paths):
            return value
        if is_list and all(path and path[0] in extras for path in paths):
            return _with_extras({}, paths, values, extras)
        value = fetched(value, values.load)
    if isinstance(value, dict):
        return _mapping(value, paths, values, extras)
    if isinstance(value, list):
        value = _list(value, paths, values)
    beside = _with_extras({}, paths, values, extras) if extras else {}
    if not beside:
        return value
    if isinstance(value, list):
        return Listed(value, beside)
    return value if () in paths else beside


def _mapping(value: dict[str, Any], paths: Paths, values: Values, extras: Extras) -> dict[str, Any]:
    out = value
    lacks = any(path and path[0] not in value for path in paths)
    if lacks and is_http_result(value) and isinstance(value["body"], dict):
        out = {**value["body"], **value}
    if lacks and extras:
        out = _with_extras(out, paths, values, extras)
    for path in paths:
        inner = out.get(path[0]) if path else None  # type: ignore[arg-type]
        if type(inner) is dict or type(inner) is list:
            found = opened(inner, _further(paths, path[0]), values)
            if found is not inner:
                out = {**out, str(path[0]): found}
    return out


def _list(value: list[Any], paths: Paths, values: Values) -> list[Any]:
    out = value
    for path in paths:
        if path and isinstance(path[0], int) and -len(value) <= path[0] < len(value):
            inner = out[path[0]]
            found = opened(inner, _further(paths, path[0]), values)
            if found is not inner:
                out = list(out) if out is value else out
                out[path[0]] = found
    return out


def _with_extras(value: dict[str, Any], paths: Paths, values: Values, extras: Extras) -> dict[str, Any]:
    """Return a mapping with the helpers beside it that are read and that it does not have itself."""
    more: dict[str, Any] = {}
    for path in paths:
        if path and path[0] in extras and path[0] not in value and path[0] not in more:
            more[str(path[0])] = opened(extras[str(path[0])](), _further(paths, path[0]), values)
    return {**more, **value} if more else value


def _further(paths: Paths, key: str | int) -> Paths:
    return tuple(path[1:] for path in paths if path and path[0] == key)
