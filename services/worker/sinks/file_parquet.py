"""Rows as Parquet, written by DuckDB with its memory bounded: what is more goes to disk for a while."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import duckdb

from services.worker.sinks.duckdb_opening import opened
from services.worker.sinks.duckdb_rows import Column, insert, names, quoted
from services.worker.sinks.file_turns import Stop
from services.worker.sinks.file_values import cell_text
from services.worker.sinks.port import SinkError
from services.worker.sinks.rows import Row, columns_of

MEMORY = "256MB"
TEXT, NUMBER, WHOLE, LONG, TRUTH = "VARCHAR", "DOUBLE", "BIGINT", "DECIMAL(38,0)", "BOOLEAN"
# Whole numbers that a DOUBLE holds exactly, so that they may stand beside fractions.
SMALL = "SMALL"
NOTHING = "NULL"
_WHOLES = (SMALL, WHOLE, LONG)
_SMALL_END, _WHOLE_END, _LONG_END = 2**53, 2**63, 10**38
_STAGED = "staged"


def write(fresh: Path, rows: Sequence[Row], stop: Stop) -> None:
    """Write rows to a new file."""
    with opened(":memory:", 0, stop, MEMORY) as database:
        columns = _staged(database, rows, {}, stop)
        _copy(database, f"SELECT {names(columns)} FROM {_STAGED}", fresh)


def merge(target: Path, fresh: Path, rows: Sequence[Row], key: tuple[str, ...], stop: Stop) -> None:
    """Write a new file: what the old one holds, except rows whose keys come again, and the rows; raises SinkError."""
    with opened(":memory:", 0, stop, MEMORY) as database:
        old = _columns(database, target)
        new = _staged(database, rows, old, stop)
        missing = [name for name in key if name not in old]
        if missing:
            raise SinkError(f"the file '{target.name}' has no column '{missing[0]}'; it has {', '.join(old)}")
        _copy(database, _merged(target, old, new, key), fresh)


def emptied(target: Path, fresh: Path, stop: Stop) -> None:
    """Write a new file with the columns of another, and no rows."""
    with opened(":memory:", 0, stop, MEMORY) as database:
        _copy(database, f"SELECT * FROM {_source(target)} LIMIT 0", fresh)


def deduplicated(rows: Sequence[Row], key: tuple[str, ...]) -> list[Row]:
    """Return the rows without those whose key comes again later."""
    return list({tuple(cell_text(row.get(name)) for name in key): row for row in rows}.values())


def type_of(values: Iterator[Any]) -> str:
    """Return the type that holds all of these values exactly; text, if nothing else does."""
    found = NOTHING
    for value in values:
        found = _wider(found, _own_type(value))
        if found == TEXT:
            break
    return WHOLE if found == SMALL else found


def _staged(database: duckdb.DuckDBPyConnection, rows: Sequence[Row], old: dict[str, str], stop: Stop) -> list[Column]:
    columns = [_column(name, rows, old.get(name)) for name in columns_of(rows)]
    if not columns:
        raise SinkError("the rows have no columns, so that a parquet file cannot have any")
    folded = {column.name.lower() for column in columns}
    if len(folded) < len(columns):
        raise SinkError("two columns differ only in upper and lower case, which parquet files here cannot hold")
    database.execute(f"CREATE TABLE {_STAGED} ({', '.join(f'{each.quoted} {each.type}' for each in columns)})")
    insert(database, _STAGED, columns, rows, stop)
    return columns


def _column(name: str, rows: Sequence[Row], old: str | None) -> Column:
    found = type_of(row.get(name) for row in rows)
    if found == NOTHING:
        found = old or TEXT
    return Column(name, found, source=name)


def _own_type(value: Any) -> str:
    match value:
        case None:
            return NOTHING
        case bool():
            return TRUTH
        case int() if abs(value) <= _SMALL_END:
            return SMALL
        case int() if -_WHOLE_END <= value < _WHOLE_END:
            return WHOLE
        case int() if abs(value) < _LONG_END:
            return LONG
        case float():
            return NUMBER
        case _:
            return TEXT


def _wider(one: str, other: str) -> str:
    if one == other or other == NOTHING:
        return one
    if one == NOTHING:
        return other
    if one in _WHOLES and other in _WHOLES:
        return max(one, other, key=_WHOLES.index)
    return NUMBER if {one, other} == {SMALL, NUMBER} else TEXT


def _columns(database: duckdb.DuckDBPyConnection, target: Path) -> dict[str, str]:
    found = database.execute(f"DESCRIBE SELECT * FROM {_source(target)}").fetchall()
    return {str(row[0]): str(row[1]) for row in found}


def _merged(target: Path, old: dict[str, str], new: Sequence[Column], key: tuple[str, ...]) -> str:
    """Return the query of old and new rows, a column in a type that holds both."""
    types = dict(old)
    for column in new:
        types[column.name] = _common(old.get(column.name), column.type)
    given = {column.name for column in new}
    before = ", ".join(_in_type(name, kind, name in old) for name, kind in types.items())
    after = ", ".join(_in_type(name, kind, name in given) for name, kind in types.items())
    same = " AND ".join(_same(name, types[name]) for name in key)
    kept = f"SELECT {before} FROM {_source(target)} AS old WHERE NOT EXISTS (SELECT 1 FROM {_STAGED} WHERE {same})"
    return f"{kept} UNION ALL SELECT {after} FROM {_STAGED}"


def _same(name: str, kind: str) -> str:
    column = quoted(name)
    return f"CAST(old.{column} AS {kind}) IS NOT DISTINCT FROM CAST({_STAGED}.{column} AS {kind})"


def _common(old: str | None, new: str) -> str:
    if old is None or old == new:
        return new
    if {old, new} == {WHOLE, NUMBER}:
        return NUMBER
    return LONG if {old, new} == {WHOLE, LONG} else TEXT


def _in_type(name: str, kind: str, is_there: bool) -> str:
    return f"CAST({quoted(name) if is_there else 'NULL'} AS {kind}) AS {quoted(name)}"


def _copy(database: duckdb.DuckDBPyConnection, query: str, fresh: Path) -> None:
    database.execute(f"COPY ({query}) TO {_literal(fresh)} (FORMAT parquet)")


def _source(target: Path) -> str:
    return f"read_parquet({_literal(_escaped(target))})"


def _literal(path: Path | str) -> str:
    return "'" + str(path).replace("'", "''") + "'"


def _escaped(path: Path) -> str:
    """Return a path in which nothing is a pattern."""
    return "".join(f"[{letter}]" if letter in "*?[" else letter for letter in str(path))
