"""Rows as comma-separated values: the first line names the columns, once and for all."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from services.worker.sinks.file_values import cell_text
from services.worker.sinks.port import SinkError
from services.worker.sinks.rows import Row, chunks, columns_of

BYTE_ORDER_MARK = "\ufeff"
MAX_CELL = 2**31 - 1
_QUOTED = re.compile(r'[",\r\n]|^$|^\s|\s$')


def appended(target: Path, rows: Sequence[Row]) -> Iterator[bytes]:
    """Give what is added to the file: the header too, if it has none; raises SinkError for a column it lacks."""
    header = header_of(target)
    if header is None and rows:
        header = _new_header(rows)
        yield _line(header)
    yield from _written(target, header or (), rows)


def replaced(target: Path, rows: Sequence[Row]) -> Iterator[bytes]:
    """Give the whole file anew; without rows only the header stays."""
    header = _new_header(rows) if rows else header_of(target)
    if header is not None:
        yield _line(header)
        yield from _written(target, header, rows)


def merged(target: Path, rows: Sequence[Row], key: tuple[str, ...]) -> Iterator[bytes]:
    """Give the whole file, rows with the same key in the place of those they replace; raises SinkError."""
    header = header_of(target)
    if header is None:
        header = _new_header(rows) if rows else None
    if header is None:
        return
    _check_columns(target, header, [*columns_of(rows), *key])
    latest = {tuple(cell_text(row.get(name)) or "" for name in key): _row_line(header, row) for row in rows}
    places = [header.index(name) for name in key]
    replaced_keys: set[tuple[str, ...]] = set()
    yield _line(header)
    for cells, raw in _records(target, skip=1):
        identity = tuple(cells[place] if place < len(cells) else "" for place in places)
        if identity not in latest:
            yield raw
        elif identity not in replaced_keys:
            replaced_keys.add(identity)
            yield latest[identity]
    yield from (line for identity, line in latest.items() if identity not in replaced_keys)


def header_of(target: Path) -> tuple[str, ...] | None:
    """Return the columns that a file has, or nothing if it has no first line."""
    for cells, _ in _records(target):
        return (cells[0].removeprefix(BYTE_ORDER_MARK), *cells[1:])
    return None


def _new_header(rows: Sequence[Row]) -> tuple[str, ...]:
    header = columns_of(rows)
    if not header:
        raise SinkError("the rows have no columns, so that a csv file cannot name any")
    return header


def _written(target: Path, header: tuple[str, ...], rows: Sequence[Row]) -> Iterator[bytes]:
    _check_columns(target, header, columns_of(rows))
    for chunk in chunks(rows):
        yield b"".join(_row_line(header, row) for row in chunk)


def _check_columns(target: Path, header: tuple[str, ...], wanted: Sequence[str]) -> None:
    for name in wanted:
        if name not in header:
            raise SinkError(f"the file '{target.name}' has no column '{name}'; it has {', '.join(header)}")


def _row_line(header: tuple[str, ...], row: Row) -> bytes:
    return _line(tuple(cell_text(row.get(name)) for name in header))


def _line(cells: Sequence[str | None]) -> bytes:
    # A line that is empty would not be read as a row.
    shown = ["" if cell is None and len(cells) > 1 else _cell(cell or "") for cell in cells]
    return (",".join(shown) + "\n").encode()


def _cell(text: str) -> str:
    """Return a text as it stands in a line; an empty one is quoted, so that it differs from null."""
    return '"' + text.replace('"', '""') + '"' if _QUOTED.search(text) else text


def _records(target: Path, skip: int = 0) -> Iterator[tuple[list[str], bytes]]:
    """Give each record as its cells and as it stands; a quoted cell may go over several lines."""
    if not target.exists():
        return
    csv.field_size_limit(MAX_CELL)
    with target.open("rb") as file:
        raw = b""
        for line in file:
            raw += line
            if raw.count(b'"') % 2:
                continue
            record, raw = raw, b""
            if not record.strip():
                continue
            if skip:
                skip -= 1
                continue
            yield _cells(target, record), record if record.endswith(b"\n") else record + b"\n"
    if raw:
        raise SinkError(f"the last record of '{target.name}' does not end; a quote is missing")


def _cells(target: Path, record: bytes) -> list[str]:
    try:
        return next(csv.reader([record.decode()], strict=True))
    except (UnicodeDecodeError, csv.Error, StopIteration):
        raise SinkError(f"'{target.name}' is no csv file in UTF-8") from None
