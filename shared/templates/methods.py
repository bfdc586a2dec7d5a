"""The methods a template may call, listed type by type; nothing else can be called."""

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from typing import Final

from shared.templates.costs import charge_compared, charge_deep, charge_pattern, charge_search
from shared.templates.formatting import brace_format, format_date
from shared.templates.limits import MAX_LIST, MAX_TEXT
from shared.templates.operators import joined
from shared.templates.plain import built, to_text
from shared.templates.problems import OperationError, over_limit
from shared.templates.run import Run

Method = Callable[..., object]


def methods_of(value: object) -> Mapping[str, Method]:
    """List the methods of a value, by its type."""
    for kind, methods in METHODS.items():
        if isinstance(value, kind):
            return methods
    return {}


def short_text(text: str) -> str:
    """Accept a text as the material of a new one."""
    if len(text) > MAX_TEXT:
        raise over_limit("it works on a text beyond 1 MiB")
    return str.__str__(text)


def _text(method: Callable[..., object]) -> Method:
    def call(run: Run, value: str, *args: object) -> object:
        run.charge(len(value) >> 6)
        return method(short_text(value), *args)

    return call


def _searching(method: Callable[..., object]) -> Method:
    def call(run: Run, value: str, *args: object) -> object:
        charge_search(run, value, args[0] if args else None)
        return method(str.__str__(value), *args)

    return call


def _stripping(method: Callable[..., str]) -> Method:
    def call(run: Run, value: str, chars: str | None = None) -> object:
        charge_pattern(run, value, chars)
        return method(short_text(value), chars)

    return call


def _padding(method: Callable[..., str]) -> Method:
    def call(run: Run, value: str, width: int, fill: str = " ") -> object:
        if isinstance(width, int) and width > MAX_TEXT:
            raise over_limit("it builds a text beyond 1 MiB")
        return built(run, method(short_text(value), width, fill))

    return call


def _zfill(run: Run, value: str, width: int) -> object:
    if isinstance(width, int) and width > MAX_TEXT:
        raise over_limit("it builds a text beyond 1 MiB")
    return built(run, short_text(value).zfill(width))


def _splitting(method: Callable[..., list[str]]) -> Method:
    def call(run: Run, value: str, sep: str | None = None, maxsplit: int = -1) -> object:
        charge_pattern(run, value, sep)
        return _list(run, method(short_text(value), sep, maxsplit))

    return call


def _splitlines(run: Run, value: str, keepends: bool = False) -> object:
    return _list(run, short_text(value).splitlines(bool(keepends)))


def _list(run: Run, items: list[str]) -> list[str]:
    if len(items) > MAX_LIST:
        raise over_limit(f"it builds a list of more than {MAX_LIST} elements")
    run.charge(1 + (len(items) >> 1))
    return items


def replace_text(run: Run, value: str, old: str, new: str, count: int = -1) -> object:
    """Replace, refusing beforehand what would grow too long."""
    text = short_text(value)
    charge_search(run, text, old)
    places = len(text) + 1 if old == "" else text.count(old)
    if count >= 0:
        places = min(places, count)
    if len(text) + places * (len(new) - len(old)) > MAX_TEXT:
        raise over_limit("it builds a text beyond 1 MiB")
    return built(run, text.replace(old, new, count))


def _join(run: Run, value: str, items: object) -> object:
    if isinstance(items, str) or not isinstance(items, Sequence):
        raise OperationError("type", "join() needs a list")
    run.charge(len(items))
    return joined(run, str.__str__(value), [to_text(run, item) for item in items])


def _format(run: Run, value: str, *args: object, **kwargs: object) -> object:
    return brace_format(run, str.__str__(value), args, kwargs)


def _get(run: Run, value: Mapping[object, object], key: object, default: object = None) -> object:
    charge_compared(run, key)
    return value.get(key, default) if isinstance(key, str | int | float | None) else default


def _pairs(run: Run, value: Mapping[object, object]) -> object:
    run.charge(len(value))
    return list(value.items())


def _keys(run: Run, value: Mapping[object, object]) -> object:
    run.charge(len(value) >> 3)
    return list(value)


def _values(run: Run, value: Mapping[object, object]) -> object:
    run.charge(len(value) >> 3)
    return list(value.values())


def _index(run: Run, value: Sequence[object], item: object) -> object:
    charge_deep(run, value)
    return value.index(item)


def _count(run: Run, value: Sequence[object], item: object) -> object:
    charge_deep(run, value)
    return value.count(item)


def _strftime(run: Run, value: date, pattern: str) -> object:
    return format_date(run, value, pattern)


def _timestamp(run: Run, value: datetime) -> object:
    return (value if value.tzinfo else value.replace(tzinfo=UTC)).timestamp()


_DATE: Final[dict[str, Method]] = {
    "isoformat": lambda run, value: value.isoformat(),
    "strftime": _strftime,
    "weekday": lambda run, value: value.weekday(),
    "isoweekday": lambda run, value: value.isoweekday(),
}
_TEXT: Final[dict[str, Method]] = {
    **{name: _text(getattr(str, name)) for name in ("lower", "upper", "title", "capitalize")},
    **{name: _stripping(getattr(str, name)) for name in ("strip", "lstrip", "rstrip")},
    **{name: _text(getattr(str, name)) for name in ("removeprefix", "removesuffix")},
    **{name: _searching(getattr(str, name)) for name in ("startswith", "endswith", "find", "count")},
    **{name: _searching(getattr(str, name)) for name in ("isdigit", "isalpha", "isnumeric")},
    **{name: _padding(getattr(str, name)) for name in ("ljust", "rjust", "center")},
    **{name: _splitting(getattr(str, name)) for name in ("split", "rsplit")},
    "splitlines": _splitlines,
    "zfill": _zfill,
    "replace": replace_text,
    "join": _join,
    "format": _format,
}
METHODS: Final[dict[type, dict[str, Method]]] = {
    str: _TEXT,
    Mapping: {"get": _get, "items": _pairs, "keys": _keys, "values": _values},
    list: {"index": _index, "count": _count},
    tuple: {"index": _index, "count": _count},
    datetime: {**_DATE, "timestamp": _timestamp, "date": lambda run, value: value.date()},
    date: _DATE,
    timedelta: {"total_seconds": lambda run, value: value.total_seconds()},
}
