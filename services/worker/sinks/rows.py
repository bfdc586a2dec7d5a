"""Data as rows: what sinks make of results, and in which pieces."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

CHUNK_ROWS = 5_000
VALUE = "value"

Row = dict[str, Any]


def default_data(result: Any) -> Any:
    """Return what a sink stores unless told otherwise: the payload of an http result, the rows of a query, else all."""
    if isinstance(result, dict):
        if "data" in result:
            return result["data"]
        if isinstance(result.get("rows"), list) and "row_count" in result:
            return result["rows"]
    return result


def rows_of(data: Any) -> list[Row]:
    """Return data as rows: a list of mappings as it is, one mapping as one row, other values in a column `value`."""
    if data is None:
        return []
    if isinstance(data, dict):
        return [data]
    items = data if isinstance(data, list) else [data]
    return [item if isinstance(item, dict) else {VALUE: item} for item in items]


def columns_of(rows: Sequence[Row]) -> tuple[str, ...]:
    """Return every column of the rows, in the order in which they first appear."""
    return tuple(dict.fromkeys(str(name) for row in rows for name in row))


def chunks(rows: Sequence[Row], size: int = CHUNK_ROWS) -> Iterator[Sequence[Row]]:
    """Give the rows in pieces."""
    for start in range(0, len(rows), size):
        yield rows[start : start + size]
