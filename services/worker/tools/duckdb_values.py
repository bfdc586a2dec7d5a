"""Values of DuckDB as JSON data: exact where JSON can be; loaded by path, with nothing of ours imported."""

from __future__ import annotations

import base64
import json
import math
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any

BIGINT = 2**63
AS_THEY_ARE = frozenset({"BOOLEAN", "TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT", "UBIGINT", "VARCHAR"})


class Encoder:
    """Makes JSON of rows with these columns, each a name and DuckDB's word for its type."""

    def __init__(self, columns: list[tuple[str, str]]) -> None:
        self._names = distinct([name for name, _ in columns])
        self._others = [(place, kind) for place, (_, kind) in enumerate(columns) if kind not in AS_THEY_ARE]

    def encoded(self, rows: list[tuple[Any, ...]]) -> bytes:
        """Return rows as JSON mappings with commas between them."""
        made = [self._row(list(row)) for row in rows]
        return json.dumps(made, ensure_ascii=False, separators=(",", ":"))[1:-1].encode()

    def _row(self, values: list[Any]) -> dict[str, Any]:
        for place, kind in self._others:
            values[place] = of_kind(values[place], kind)
        return dict(zip(self._names, values, strict=True))


def distinct(names: list[str]) -> list[str]:
    """Return the names of columns so that none comes twice: the second `a` is `a_1`."""
    out: list[str] = []
    for name in names:
        number, other = 0, name
        while other in out:
            number += 1
            other = f"{name}_{number}"
        out.append(other)
    return out


def of_kind(value: Any, kind: str) -> Any:
    """Return the value of a column of this type."""
    if isinstance(value, str):
        if kind == "JSON":
            return _parsed(value)
        if kind.startswith("TIMESTAMP"):
            # It is beyond what Python's times can say, and comes as DuckDB writes it.
            return value.replace(" ", "T", 1)
    return plain(value)


def plain(value: Any) -> Any:
    """Return a value as JSON data."""
    match value:
        case None | bool() | int() | str():
            return value
        case float():
            return value if math.isfinite(value) else _unending(value)
        case Decimal():
            return _number(value)
        case date() | datetime() | time():
            return value.isoformat()
        case timedelta():
            return _duration(value)
        case bytes() | bytearray() | memoryview():
            return base64.b64encode(value).decode()
        case list() | tuple():
            return [plain(item) for item in value]
        case dict():
            return {_key(key): plain(item) for key, item in value.items()}
        case _:
            return str(value)


def _number(value: Decimal) -> int | float | str:
    """Return a decimal as a number when a number gives back the same digits, else as its text."""
    if value == value.to_integral_value() and value.as_tuple().exponent == 0:
        return int(value) if -BIGINT <= value < BIGINT else format(value, "f")
    as_float = float(value)
    return as_float if Decimal(repr(as_float)) == value else format(value, "f")


def _unending(value: float) -> str:
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


def _duration(value: timedelta) -> str:
    """Return an interval in the form of ISO 8601; a month counts as thirty days."""
    sign, size = ("-", -value) if value < timedelta(0) else ("", value)
    seconds = Decimal(size.seconds) + Decimal(size.microseconds) / 1_000_000
    days = f"{size.days}D" if size.days else ""
    rest = f"T{format(seconds.normalize(), 'f')}S" if seconds or not days else ""
    return f"{sign}P{days}{rest}"


def _key(key: Any) -> str:
    found = plain(key)
    return found if isinstance(found, str) else json.dumps(found)


def _parsed(text: str) -> Any:
    try:
        return plain(json.loads(text))
    except (ValueError, RecursionError):
        return text
