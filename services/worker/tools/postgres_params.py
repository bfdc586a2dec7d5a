"""JSON data as values of Postgres: each converted to the type that its place has, or refused with a reason."""

from __future__ import annotations

import base64
import binascii
import ipaddress
import json
import math
import re
from collections.abc import Callable, Mapping
from decimal import Decimal, InvalidOperation
from functools import partial
from types import MappingProxyType
from typing import Any
from uuid import UUID

import asyncpg

from services.worker.tools.postgres_times import (
    parse_date,
    parse_interval,
    parse_time,
    parse_timestamp,
    parse_zoned_time,
)

# What a numeric can hold: digits before and after its point.
MAX_DIGITS = (131_072, 16_383)
UNSTORABLE = re.compile("[\0\ud800-\udfff]")
_TRUE = frozenset({"true", "t", "yes", "y", "on", "1"})
_FALSE = frozenset({"false", "f", "no", "n", "off", "0"})
_WHOLE = re.compile(r"\s*[+-]?[0-9]{1,20}\s*")
_RANGE = re.compile(r'\s*([\[(])\s*("?)(.*?)\2\s*,\s*("?)(.*?)\4\s*([\])])\s*', re.DOTALL)
_encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode

Converter = Callable[[Any], Any]


class UnfitValueError(ValueError):
    """A value cannot become what it should be; the reason does not hold the value."""


def converter_for(kind: Any) -> Converter | None:
    """Return what converts JSON data to a type, as the driver describes it; nothing for one not known here."""
    if kind.schema != "pg_catalog":
        return None
    if kind.kind == "array":
        element = _SCALARS.get(kind.name.removesuffix("[]"))
        return None if element is None else partial(as_list, element)
    if kind.kind == "multirange":
        single = _RANGES.get(kind.name.replace("multirange", "range"))
        return None if single is None else partial(as_list, single)
    return _RANGES.get(kind.name) if kind.kind == "range" else _SCALARS.get(kind.name)


def convert(value: Any, kind: Any) -> Any:
    """Return JSON data as a value of a type; raises UnfitValueError.

    A type that is not known here takes a text, as an enum does; one that is made of others takes none.
    """
    if value is None:
        return None
    converter = converter_for(kind)
    if converter is None and kind.kind == "scalar":
        converter = as_text
    elif converter is None and kind.kind == "array":
        converter = partial(as_list, as_text)
    if converter is None:
        raise UnfitValueError(f"{kind.name} takes no parameter; pass a text and cast it, as in $1::text::{kind.name}")
    return converter(value)


def as_text(value: Any) -> str:
    """Return a text as it is, a number or truth as JSON writes it, and data as JSON."""
    if isinstance(value, str):
        return _storable(value)
    return _json_text(value)


def _storable(text: str) -> str:
    found = UNSTORABLE.search(text)
    if found is None:
        return text
    if found.group() == "\0":
        raise UnfitValueError("it holds a NUL character, which Postgres cannot store")
    raise UnfitValueError("it holds half of a surrogate pair, which is no text")


def _json_text(value: Any) -> str:
    try:
        text = _encode(value)
    except RecursionError:
        raise UnfitValueError("it nests too deeply") from None
    except (ValueError, TypeError):
        raise UnfitValueError("it is no JSON: NaN and infinite numbers are not") from None
    if "\\u0000" in text and _holds_nul(value):
        raise UnfitValueError("it holds a NUL character, which Postgres cannot store")
    return _storable(text)


def _holds_nul(value: Any) -> bool:
    match value:
        case str():
            return "\0" in value
        case dict():
            return any(_holds_nul(key) or _holds_nul(item) for key, item in value.items())
        case list():
            return any(_holds_nul(item) for item in value)
        case _:
            return False


def _as_json(value: Any) -> bytes:
    return _json_text(value).encode()


def _as_bool(value: Any) -> bool:
    if isinstance(value, bool):
        return value
    word = str(value).strip().lower() if isinstance(value, str | int) else ""
    if word in _TRUE or word in _FALSE:
        return word in _TRUE
    raise UnfitValueError("it is neither true nor false")


def _as_int(low: int, high: int, value: Any) -> int:
    if (isinstance(value, float) and value.is_integer()) or (isinstance(value, str) and _WHOLE.fullmatch(value)):
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int):
        raise UnfitValueError("it is no whole number")
    if not low <= value < high:
        raise UnfitValueError(f"it is out of range: {low} to {high - 1}")
    return value


def _as_float(value: Any) -> float:
    if isinstance(value, float) and not math.isfinite(value):
        raise UnfitValueError("it is no number that JSON has; write 'NaN' or 'Infinity' as a text")
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise UnfitValueError("it is no number")
    try:
        return float(value)
    except OverflowError:
        raise UnfitValueError("it is out of range") from None
    except ValueError:
        raise UnfitValueError("it is no number") from None


def _as_decimal(value: Any) -> Decimal:
    if not isinstance(value, int | str) or isinstance(value, bool):
        value = repr(_as_float(value))
    try:
        found = Decimal(value)
    except (InvalidOperation, ValueError):
        raise UnfitValueError("it is no number") from None
    if found.is_snan():
        raise UnfitValueError("it is no number")
    exponent = found.as_tuple().exponent
    if isinstance(exponent, int) and (found.adjusted() >= MAX_DIGITS[0] or -exponent > MAX_DIGITS[1]):
        raise UnfitValueError(f"it has more than {MAX_DIGITS[0]} digits before or {MAX_DIGITS[1]} after the point")
    return found


def _as_bytes(value: Any) -> bytes:
    if not isinstance(value, str):
        raise UnfitValueError("bytes are a text: base64, or hexadecimal after \\x")
    try:
        if value.startswith("\\x"):
            return bytes.fromhex(value[2:])
        return base64.b64decode(value, validate=True)
    except (ValueError, binascii.Error):
        raise UnfitValueError("it is neither base64 nor hexadecimal after \\x") from None


def _as_char(value: Any) -> bytes:
    data = as_text(value).encode()
    if len(data) > 1:
        raise UnfitValueError("it is more than one character")
    return data or b"\0"


def _parsed(what: str, parse: Callable[[str], Any], value: Any) -> Any:
    if not isinstance(value, str):
        raise UnfitValueError(f"it is no text in the form of {what}")
    try:
        return parse(value)
    except (ValueError, OverflowError):
        raise UnfitValueError(f"it is not in the form of {what}") from None


def _as_interval(value: Any) -> tuple[int, int, int]:
    if isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value):
        value = f"{value:f} s"
    found: tuple[int, int, int] = _parsed(
        "an interval, such as P1DT2H or '1 day 02:00', nor a number of seconds", parse_interval, value
    )
    return found


def as_list(element: Converter, value: Any) -> list[Any]:
    """Return a list, nested or not, with its elements converted."""
    if not isinstance(value, list):
        raise UnfitValueError("it is no list")
    return [
        None if item is None else as_list(element, item) if isinstance(item, list) else element(item) for item in value
    ]


def _as_range(bound: Converter, value: Any) -> Any:
    """Return a range from a text such as '[1,5)', as Postgres writes it."""
    if isinstance(value, str) and value.strip().lower() == "empty":
        return asyncpg.Range(empty=True)
    found = _RANGE.fullmatch(value) if isinstance(value, str) else None
    if found is None:
        raise UnfitValueError("it is no range such as '[1,5)'")
    lower, upper = (None if not text else bound(text) for text in (found[3], found[5]))
    return asyncpg.Range(lower, upper, lower_inc=found[1] == "[", upper_inc=found[6] == "]")


def _days(text: str) -> tuple[int]:
    return (parse_date(text),)


def _time(text: str) -> tuple[int]:
    return (parse_time(text),)


def _stamp(text: str) -> tuple[int]:
    return (parse_timestamp(text, zoned=False),)


def _zoned_stamp(text: str) -> tuple[int]:
    return (parse_timestamp(text, zoned=True),)


_INT4, _INT8 = partial(_as_int, -(2**31), 2**31), partial(_as_int, -(2**63), 2**63)
_DATE = partial(_parsed, "a date, such as 2024-05-17", _days)
_TIMESTAMP = partial(_parsed, "a time, such as 2024-05-17T08:30:00", _stamp)
_TIMESTAMPTZ = partial(_parsed, "a time, such as 2024-05-17T08:30:00Z", _zoned_stamp)
_SCALARS: Mapping[str, Converter] = MappingProxyType(
    {
        "bool": _as_bool,
        "int2": partial(_as_int, -(2**15), 2**15),
        "int4": _INT4,
        "int8": _INT8,
        "oid": partial(_as_int, 0, 2**32),
        "float4": _as_float,
        "float8": _as_float,
        "numeric": _as_decimal,
        "text": as_text,
        "varchar": as_text,
        "bpchar": as_text,
        "name": as_text,
        "xml": as_text,
        "char": _as_char,
        "bytea": _as_bytes,
        "json": _as_json,
        "jsonb": _as_json,
        "uuid": partial(_parsed, "a UUID", UUID),
        "date": _DATE,
        "time": partial(_parsed, "a time of day, such as 08:30:00", _time),
        "timetz": partial(_parsed, "a time of day, such as 08:30:00+02", parse_zoned_time),
        "timestamp": _TIMESTAMP,
        "timestamptz": _TIMESTAMPTZ,
        "interval": _as_interval,
        "inet": partial(_parsed, "an address, such as 10.0.0.1 or 10.0.0.1/8", ipaddress.ip_interface),
        "cidr": partial(_parsed, "a network, such as 10.0.0.0/8", ipaddress.ip_network),
        "bit": partial(_parsed, "bits, such as 101", asyncpg.BitString),
        "varbit": partial(_parsed, "bits, such as 101", asyncpg.BitString),
    }
)
_RANGES: Mapping[str, Converter] = MappingProxyType(
    {
        "int4range": partial(_as_range, _INT4),
        "int8range": partial(_as_range, _INT8),
        "numrange": partial(_as_range, _as_decimal),
        "daterange": partial(_as_range, _DATE),
        "tsrange": partial(_as_range, _TIMESTAMP),
        "tstzrange": partial(_as_range, _TIMESTAMPTZ),
    }
)
