"""SQLite files copied for DuckDB where its extension is not at hand; loaded by path, with nothing of ours imported."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from typing import Any
from urllib.parse import quote

CHUNK_ROWS = 5_000
_TYPES = (
    (frozenset({"integer"}), "BIGINT"),
    (frozenset({"integer", "real"}), "DOUBLE"),
    (frozenset({"blob"}), "BLOB"),
)


class SqliteError(Exception):
    """The file cannot be read."""


def copy(connection: Any, path: str, made: str) -> None:
    """Copy the tables and views of an SQLite file to a new DuckDB file; raises SqliteError."""
    connection.execute(f"ATTACH {_literal(made)} AS redrive_copy")
    try:
        with closing(sqlite3.connect(f"file:{quote(path)}?mode=ro", uri=True)) as source:
            source.text_factory = lambda data: data.decode("utf-8", "replace")
            for (name,) in source.execute(
                "SELECT name FROM sqlite_master WHERE type IN ('table', 'view') AND name NOT LIKE 'sqlite_%'"
            ).fetchall():
                _copy_table(connection, source, name)
    except sqlite3.Error as problem:
        raise SqliteError(f"the SQLite file cannot be read: {problem}") from None
    finally:
        connection.execute("DETACH redrive_copy")


def _copy_table(connection: Any, source: sqlite3.Connection, name: str) -> None:
    columns = [row[1] for row in source.execute(f"PRAGMA table_info({_quoted(name)})")]
    kinds = [_type(source, name, column) for column in columns]
    table = f"redrive_copy.main.{_quoted(name)}"
    shape = ", ".join(f"{_quoted(column)} {kind}" for column, kind in zip(columns, kinds, strict=True))
    connection.execute(f"CREATE TABLE {table} ({shape})")
    given = ", ".join(f"unnest(CAST(? AS {kind}[]))" for kind in kinds)
    rows = source.execute(f"SELECT {', '.join(map(_quoted, columns))} FROM {_quoted(name)}")
    while chunk := rows.fetchmany(CHUNK_ROWS):
        lists = [[_fit(row[place], kind) for row in chunk] for place, kind in enumerate(kinds)]
        connection.execute(f"INSERT INTO {table} SELECT {given}", lists)


def _type(source: sqlite3.Connection, table: str, column: str) -> str:
    """Return the type that holds what a column holds: SQLite itself keeps to none."""
    found = source.execute(f"SELECT DISTINCT typeof({_quoted(column)}) FROM {_quoted(table)}").fetchall()
    held = {row[0] for row in found} - {"null"}
    return next((kind for those, kind in _TYPES if held and held <= those), "VARCHAR")


def _fit(value: Any, kind: str) -> Any:
    if value is None or kind != "VARCHAR" or isinstance(value, str):
        return value
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
