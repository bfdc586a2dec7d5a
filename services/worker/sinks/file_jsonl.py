"""Rows as JSON lines."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path

from services.worker.sinks.file_values import json_text
from services.worker.sinks.port import SinkError
from services.worker.sinks.rows import Row, chunks


def appended(target: Path, rows: Sequence[Row]) -> Iterator[bytes]:
    """Give what is added to the file."""
    for chunk in chunks(rows):
        yield b"".join(_line(row) for row in chunk)


def replaced(target: Path, rows: Sequence[Row]) -> Iterator[bytes]:
    """Give the whole file anew."""
    return appended(target, rows)


def merged(target: Path, rows: Sequence[Row], key: tuple[str, ...]) -> Iterator[bytes]:
    """Give the whole file, rows with the same key in the place of those they replace; raises SinkError."""
    latest = {_identity(row, key): row for row in rows}
    replaced_keys: set[str] = set()
    for identity, line in _lines(target, key):
        if identity not in latest:
            yield line
        elif identity not in replaced_keys:
            replaced_keys.add(identity)
            yield _line(latest[identity])
    for identity, row in latest.items():
        if identity not in replaced_keys:
            yield _line(row)


def _line(row: Row) -> bytes:
    return json_text(row).encode() + b"\n"


def _identity(row: Row, key: tuple[str, ...]) -> str:
    return json_text([row.get(name) for name in key])


def _lines(target: Path, key: tuple[str, ...]) -> Iterator[tuple[str, bytes]]:
    if not target.exists():
        return
    with target.open("rb") as file:
        for number, line in enumerate(file, 1):
            if not line.strip():
                continue
            try:
                row = json.loads(line)
            except (ValueError, RecursionError):
                raise SinkError(f"line {number} of '{target.name}' is no JSON") from None
            if not isinstance(row, dict):
                raise SinkError(f"line {number} of '{target.name}' is no mapping")
            yield _identity(row, key), line if line.endswith(b"\n") else line + b"\n"
