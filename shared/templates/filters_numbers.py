"""Filters that give a number, a truth or a moment's distance."""

import math
import re
from collections.abc import Callable
from datetime import UTC, datetime
from decimal import Decimal
from typing import Final

from shared.templates.durations import parse_duration
from shared.templates.plain import bounded_int
from shared.templates.problems import OperationError
from shared.templates.run import Run
from shared.templates.truth import truthy
from shared.templates.undefined import Undefined

_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_TIME = r"(?P<t>\d\d:\d\d:\d\d)"
_HTTP_DATES = (
    re.compile(rf"[a-z]{{3,9}}, +(?P<d>\d\d?)[ -](?P<m>[a-z]{{3}})[ -](?P<y>\d{{4}}|\d\d) {_TIME} (?:gmt|utc)"),
    re.compile(rf"[a-z]{{3}} (?P<m>[a-z]{{3}}) +(?P<d>\d\d?) {_TIME} (?P<y>\d{{4}})"),
)
_SECONDS = re.compile(r"[0-9]{1,15}(?:\.[0-9]{1,9})?")
_MAX_NUMBER_TEXT = 4096


def _int(run: Run, value: object, default: object = 0, base: int = 10) -> object:
    if isinstance(value, Undefined):
        value.touch()
        return default
    if isinstance(value, str) and len(value) > _MAX_NUMBER_TEXT:
        return default
    try:
        if isinstance(value, str):
            return bounded_int(_whole(str.__str__(value), base))
        return bounded_int(int(value)) if isinstance(value, int | float | Decimal) else default
    except (ValueError, OverflowError):
        return default


def _whole(text: str, base: int) -> int:
    try:
        return int(text, base)
    except ValueError:
        return int(float(text))


def _float(run: Run, value: object, default: object = 0.0) -> object:
    if isinstance(value, Undefined):
        value.touch()
        return default
    try:
        number = float(value) if isinstance(value, int | float | str | Decimal) else math.nan
    except (ValueError, OverflowError):
        return default
    return number if math.isfinite(number) else default


def number(name: str, value: object) -> float:
    """Accept a number as the input of the filter called `name`."""
    if isinstance(value, Undefined):
        raise value.needed(f"{name} needs a number")
    if isinstance(value, Decimal):
        return float(value)
    if not isinstance(value, int | float):
        raise OperationError("type", f"{name} needs a number, not {type(value).__name__}")
    return value


def _round(run: Run, value: object, precision: int = 0, method: str = "common") -> object:
    exact = number("round", value)
    if isinstance(precision, bool) or not isinstance(precision, int) or abs(precision) > 300:
        raise OperationError("value", "round takes a precision of at most 300 digits")
    match method:
        case "common":
            return float(round(exact, precision))
        case "ceil":
            return math.ceil(exact * 10.0**precision) / 10.0**precision
        case "floor":
            return math.floor(exact * 10.0**precision) / 10.0**precision
        case _:
            raise OperationError("value", "round knows the methods common, ceil and floor")


def _abs(run: Run, value: object) -> object:
    return abs(number("abs", value))


def _bool(run: Run, value: object) -> bool:
    if isinstance(value, Undefined):
        value.touch()
    return truthy(value)


def _duration(run: Run, value: object) -> object:
    if isinstance(value, Undefined):
        return value
    try:
        return parse_duration(value)
    except ValueError as error:
        raise OperationError("value", str(error)) from None


def _retry_after(run: Run, value: object) -> object:
    """Give the seconds a Retry-After header asks for, at least 0; undefined if it cannot be understood."""
    if isinstance(value, Undefined):
        return value
    if isinstance(value, int | float) and not isinstance(value, bool):
        return value if math.isfinite(value) and value >= 0 else run.undefined("retry_after")
    if not isinstance(value, str) or len(value) > 64:
        return run.undefined("retry_after")
    text = value.strip()
    if _SECONDS.fullmatch(text):
        return float(text) if "." in text else int(text)
    moment = parse_http_date(text)
    if moment is None:
        return run.undefined("retry_after")
    if run.helpers.now is None:
        raise OperationError("value", "retry_after needs the time, which is not known here")
    now = run.helpers.now
    return max(0.0, (moment - (now if now.tzinfo else now.replace(tzinfo=UTC))).total_seconds())


def parse_http_date(text: str) -> datetime | None:
    """Read one of the three date forms of HTTP; None if it is none of them."""
    lowered = text.lower()
    found = next(filter(None, (form.fullmatch(lowered) for form in _HTTP_DATES)), None)
    if found is None or found["m"] not in _MONTHS:
        return None
    year = int(found["y"])
    if len(found["y"]) == 2:
        year += 1900 if year >= 70 else 2000
    hour, minute, second = map(int, found["t"].split(":"))
    try:
        month = _MONTHS.index(found["m"]) + 1
        return datetime(year, month, int(found["d"]), hour, minute, min(second, 59), tzinfo=UTC)
    except ValueError:
        return None


NUMBER_FILTERS: Final[dict[str, Callable[..., object]]] = {
    "int": _int,
    "float": _float,
    "round": _round,
    "abs": _abs,
    "bool": _bool,
    "duration": _duration,
    "retry_after": _retry_after,
}
