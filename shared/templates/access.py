"""Reading `a.b` and `a['b']`: the key first, then the few attributes that are allowed, else nothing."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import date, datetime, timedelta
from enum import Enum
from typing import Final, NamedTuple

from jinja2.sandbox import ImmutableSandboxedEnvironment

from shared.templates.costs import charge_compared
from shared.templates.loops import LOOP_ATTRIBUTES, Loop
from shared.templates.methods import methods_of
from shared.templates.names import Path, shown
from shared.templates.problems import OperationError
from shared.templates.run import Run
from shared.templates.undefined import Undefined


class Missing(Enum):
    """The type of MISSING."""

    MISSING = "missing"


MISSING: Final = Missing.MISSING


class Group(NamedTuple):
    """One group of `| groupby`: what its elements share, and the elements."""

    grouper: object
    list: list[object]


class Listed(list[object]):
    """A list with a few named values beside its elements, such as the figures of the loop it came from."""

    __slots__ = ("beside",)

    def __init__(self, elements: Iterable[object], beside: Mapping[str, object]) -> None:
        super().__init__(elements)
        self.beside = beside


class Namespace(dict[str, object]):
    """What `namespace()` makes; `{% set ns.x = … %}` writes to it."""


_DATE = frozenset({"year", "month", "day"})
_ATTRIBUTES: Final[dict[type, frozenset[str]]] = {
    datetime: _DATE | {"hour", "minute", "second", "microsecond"},
    date: _DATE,
    timedelta: frozenset({"days", "seconds", "microseconds"}),
    Group: frozenset({"grouper", "list"}),
    Loop: LOOP_ATTRIBUTES,
}
_MAX_ATTRIBUTE: Final = 200
_sandbox = ImmutableSandboxedEnvironment()


def look_up(scope: Mapping[str, object], path: Path) -> object:
    """Follow a path through the scope as a template would; MISSING where it leads to nothing."""
    try:
        return follow(scope, path)
    except OperationError:
        return MISSING


def follow(scope: Mapping[str, object], path: Path) -> object:
    """Follow a path through the scope; MISSING where it leads to nothing, an error where it may not lead."""
    value: object = scope.get(path[0], MISSING) if isinstance(path[0], str) else MISSING
    for key in path[1:]:
        if value is not MISSING and not isinstance(value, Undefined):
            value = member(value, key)
        elif isinstance(key, str) and key.startswith("__"):
            raise _forbidden(value, key)
    return value


def member(value: object, key: object) -> object:
    """Read one key or allowed attribute of a value; MISSING if there is none."""
    if type(value) is dict and type(key) is str:
        found = value.get(key, MISSING)
        if found is MISSING and key.startswith("__"):
            raise _forbidden(value, key)
        return found
    if isinstance(value, Mapping):
        return _of_mapping(value, key)
    if isinstance(key, str):
        return value.beside[key] if type(value) is Listed and key in value.beside else _attribute(value, key)
    if isinstance(value, Sequence) and not isinstance(value, bytes | bytearray):
        return _element(value, key)
    return MISSING


def member_or_undefined(run: Run, value: object, key: object, label: str) -> object:
    """Read one key of a value; where there is none, the undefined called `label.key`."""
    charge_compared(run, key)
    if isinstance(value, Undefined):
        if isinstance(key, str) and key.startswith("__"):
            raise _forbidden(value, key)
        return value.child(key)
    found = member(value, key)
    return run.undefined(f"{label}.{shown(key)}") if found is MISSING else found


def pluck(run: Run, value: object, path: Path) -> object:
    """Read a path below a value; the empty path is the value itself."""
    for key in path:
        value = member_or_undefined(run, value, key, "element")
    return value


def parse_path(attribute: object) -> Path:
    """Read 'a.b.0' as the path a, b, 0, and null as the empty path."""
    if attribute is None:
        return ()
    if isinstance(attribute, int) and not isinstance(attribute, bool):
        return (attribute,)
    if not isinstance(attribute, str):
        raise OperationError("type", f"an attribute's name is a text, not {type(attribute).__name__}")
    if len(attribute) > _MAX_ATTRIBUTE:
        raise OperationError("limit", f"an attribute's name has more than {_MAX_ATTRIBUTE} characters")
    parts = str.__str__(attribute).split(".")
    return tuple(int(part) if part.isdecimal() and len(part) < 10 else part for part in parts)


def _of_mapping(value: Mapping[object, object], key: object) -> object:
    if not isinstance(key, str | int | float | None):
        return MISSING
    found = value.get(key, MISSING)
    if found is MISSING and isinstance(key, str) and key.startswith("__"):
        raise _forbidden(value, key)
    return found


def _element(value: Sequence[object], key: object) -> object:
    if not isinstance(key, int) or isinstance(key, bool):
        return MISSING
    return value[key] if -len(value) <= key < len(value) else MISSING


def _attribute(value: object, key: str) -> object:
    if key in _ATTRIBUTES.get(type(value), ()) and _sandbox.is_safe_attribute(value, key, None):
        return getattr(value, key)
    if key.startswith("__") or (hasattr(type(value), key) and key not in methods_of(value)):
        raise _forbidden(value, key)
    return MISSING


def _forbidden(value: object, key: str) -> OperationError:
    kind = "an undefined value" if isinstance(value, Undefined | Missing) else type(value).__name__
    return OperationError("sandbox", f"'{shown(key)}' of {kind} cannot be read by a template")
