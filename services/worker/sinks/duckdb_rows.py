"""Rows on their way into DuckDB: as texts, column by column, cast there to the types of the columns."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import duckdb

from services.worker.sinks.file_turns import Stop
from services.worker.sinks.file_values import cell_text, json_text
from services.worker.sinks.rows import CHUNK_ROWS, Row, chunks

CHUNK_CELLS = 100_000
_NESTED = ("STRUCT(", "MAP(", "UNION(", "TUPLE(", "VARIANT")
_NUMBERS = ("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT", "UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT",
            "UHUGEINT", "BIGNUM", "FLOAT", "DOUBLE")  # fmt: skip


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table: its name, DuckDB's word for its type, and what the rows call it."""

    name: str
    type: str
    source: str

    @property
    def quoted(self) -> str:
        """Return the name as it stands in SQL."""
        return quoted(self.name)

    @property
    def is_number(self) -> bool:
        """Say whether it holds numbers."""
        return self.type in _NUMBERS or self.type.startswith("DECIMAL")

    def text(self, value: Any) -> str | None:
        """Return a value as the text that is cast to this column's type."""
        if value is None:
            return None
        if self.type == "JSON":
            return json_text(value)
        if isinstance(value, bool) and self.is_number:
            return "1" if value else "0"
        return cell_text(value)

    def cast(self, expression: str) -> str:
        """Return the SQL that makes a value of this column's type from a text."""
        if self.type == "BLOB":
            return f"from_base64({expression})"
        if self.type.endswith("]") or self.type.startswith(_NESTED):
            return f"CAST(CAST({expression} AS JSON) AS {self.type})"
        return f"CAST({expression} AS {self.type})"


def quoted(name: str) -> str:
    """Return a name as it stands in SQL."""
    return '"' + name.replace('"', '""') + '"'


def names(columns: Iterable[Column]) -> str:
    """Return the names of columns as they stand in a list in SQL."""
    return ", ".join(column.quoted for column in columns)


def insert(
    connection: duckdb.DuckDBPyConnection, table: str, columns: Sequence[Column], rows: Sequence[Row], stop: Stop
) -> None:
    """Insert rows piece by piece into a table, whose name stands as in SQL; raises duckdb.Error or ValueError."""
    made = ", ".join(column.cast(f"c{place}") for place, column in enumerate(columns))
    given = ", ".join(f"unnest(CAST(? AS VARCHAR[])) AS c{place}" for place in range(len(columns)))
    statement = f"INSERT INTO {table} ({names(columns)}) SELECT {made} FROM (SELECT {given})"
    size = max(1, min(CHUNK_ROWS, CHUNK_CELLS // len(columns)))
    for chunk in chunks(rows, size):
        stop.check()
        connection.execute(statement, [[column.text(row.get(column.source)) for row in chunk] for column in columns])
