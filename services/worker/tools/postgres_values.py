"""Values of Postgres as JSON data: exact, and each type in one form."""

from __future__ import annotations

import base64
import ipaddress
import json
import math
from collections.abc import Callable, Container
from decimal import Decimal
from typing import Any
from uuid import UUID

import asyncpg

from services.worker.tools.postgres_times import date_text, interval_text, time_text, timestamp_text, zone_text

MAX_INT_DIGITS = 4000
BIGINT = 2**63
SMALL = 8
_NETWORKS = (
    ipaddress.IPv4Address,
    ipaddress.IPv6Address,
    ipaddress.IPv4Network,
    ipaddress.IPv6Network,
)  # an interface is an address with the length of its network
_JSONB_VERSION = b"\x01"


class JsonBytes(bytes):
    """The text of a json value, not read yet."""


async def prepare_connection(connection: Any) -> None:
    """Make a connection give and take times and json in the forms that this module and `postgres_params` know.

    All of them go over the wire in binary form: the driver reads no range and no composite that holds texts.
    """
    times: dict[str, Callable[[tuple[int, ...]], str]] = {
        "date": lambda value: date_text(*value),
        "timestamp": lambda value: timestamp_text(value[0]),
        "timestamptz": lambda value: timestamp_text(value[0], "+00:00"),
        "time": lambda value: time_text(*value),
        "timetz": lambda value: time_text(value[0]) + zone_text(value[1]),
        "interval": lambda value: interval_text(*value),
    }
    for name, decoder in times.items():
        await _set(connection, name, "tuple", tuple, decoder)
    await _set(connection, "json", "binary", bytes, JsonBytes)
    await _set(connection, "jsonb", "binary", _JSONB_VERSION.__add__, lambda data: JsonBytes(data[1:]))


async def _set(connection: Any, name: str, form: str, encoder: Callable[[Any], Any], decoder: Any) -> None:
    await connection.set_type_codec(name, schema="pg_catalog", format=form, encoder=encoder, decoder=decoder)


def plain(value: Any) -> Any:
    """Return a value of the driver as JSON data; raises RecursionError for json that nests too deeply."""
    match value:
        case None | bool() | int() | str():
            return value
        case float():
            return value if math.isfinite(value) else _unending(value)
        case Decimal():
            return number_of(value)
        case JsonBytes():
            return json.loads(value, parse_float=_number_in_json, parse_int=_int_in_json)
        case bytes():
            return base64.b64encode(value).decode()
        case asyncpg.Record():
            return {name: plain(item) for name, item in value.items()}
        case _:
            return _plain_other(value)


def _plain_other(value: Any) -> Any:
    match value:
        case UUID():
            return str(value)
        case asyncpg.Range():
            return _range_text(value)
        case asyncpg.BitString():
            return value.as_string().replace(" ", "")
        case ipaddress.IPv4Interface() | ipaddress.IPv6Interface():
            return str(value)
        case list() | tuple():
            return [plain(item) for item in value]
        case asyncpg.Circle():
            return [plain(value.center), value.radius]
        case asyncpg.Line():
            return [value.a, value.b, value.c]
        case _ if isinstance(value, _NETWORKS):
            return str(value)
        case _:
            return str(value)


def row_of(record: Any, chars: Container[str] = ()) -> dict[str, Any]:
    """Return a row; `chars` are its columns of the type "char", which the driver gives as bytes."""
    return {name: _char(value) if name in chars else plain(value) for name, value in record.items()}


def _char(value: Any) -> Any:
    if isinstance(value, list):
        return [_char(item) for item in value]
    return value.rstrip(b"\0").decode("utf-8", "replace") if isinstance(value, bytes) else value


def number_of(value: Decimal) -> int | float | str:
    """Return a decimal as a number when a number gives back the same digits, else as its text."""
    if not value.is_finite():
        return _unending(float(value))
    exponent = value.as_tuple().exponent
    if isinstance(exponent, int) and exponent >= 0:
        return int(value) if -BIGINT <= value < BIGINT else format(value, "f")
    as_float = float(value)
    if math.isfinite(as_float) and Decimal(repr(as_float)) == value:
        return as_float
    return format(value, "f")


def weight_of(value: Any) -> int:
    """Return about how many bytes a value takes as JSON."""
    match value:
        case str():
            return len(value) + 2
        case dict():
            return SMALL + sum(len(str(key)) + 4 + weight_of(item) for key, item in value.items())
        case list():
            return SMALL + sum(weight_of(item) for item in value)
        case _:
            return SMALL


def _unending(value: float) -> str:
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


def _number_in_json(text: str) -> int | float | str:
    as_float = float(text)
    if math.isfinite(as_float) and Decimal(repr(as_float)) == Decimal(text):
        return as_float
    return text


def _int_in_json(text: str) -> int | str:
    return int(text) if len(text) <= MAX_INT_DIGITS else text


def _range_text(value: Any) -> str:
    """Return a range as Postgres writes it, with times in the form that they have elsewhere."""
    if value.isempty:
        return "empty"
    lower = "" if value.lower is None else str(plain(value.lower))
    upper = "" if value.upper is None else str(plain(value.upper))
    return f"{'[' if value.lower_inc else '('}{lower},{upper}{']' if value.upper_inc else ')'}"
