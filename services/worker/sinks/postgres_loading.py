"""Rows loaded into a Postgres table in bulk: copied straight into it, or through a stage."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from services.worker.sinks.port import SinkError
from services.worker.sinks.postgres_table import Column, Table
from services.worker.sinks.rows import Row, chunks
from services.worker.tools.postgres_params import UnfitValueError
from services.worker.tools.postgres_pools import Connection

STAGE = "redrive_stage"
ORDINAL = "ordinal"
CHUNK_ROWS = 500

Mode = Literal["append", "upsert", "replace"]


@dataclass(frozen=True, slots=True)
class Load:
    """Rows on their way into a table."""

    table: Table
    columns: Sequence[Column]
    rows: Sequence[Row]
    mode: Mode
    key: Sequence[str] = ()

    async def run(self, connection: Connection) -> int:
        """Load the rows in the transaction of the connection, and return how many rows were written."""
        if self.mode == "replace":
            # Two that replace at once would each leave the other's rows.
            await connection.execute(f"LOCK TABLE {self.table.quoted} IN SHARE ROW EXCLUSIVE MODE")
            await connection.execute(f"DELETE FROM {self.table.quoted}")
        if not self.rows:
            return 0
        if self._is_direct:
            names = [column.name for column in self.columns]
            await self._copied(connection, self.table.schema, self.table.name, names)
            return len(self.rows)
        return await self._staged(connection)

    @property
    def _is_direct(self) -> bool:
        return self.mode != "upsert" and self.table.is_bulk and all(column.is_bulk for column in self.columns)

    async def _staged(self, connection: Connection) -> int:
        names = [f"c{index}" for index in range(len(self.columns))]
        types = ", ".join(f"{name} {column.staged}" for name, column in zip(names, self.columns, strict=True))
        await connection.execute(f"CREATE TEMP TABLE {STAGE} ({types}, {ORDINAL} bigint) ON COMMIT DROP")
        await self._copied(connection, "pg_temp", STAGE, [*names, ORDINAL])
        status: str = await connection.execute(self._merge(names))
        return int(status.rpartition(" ")[2])

    async def _copied(self, connection: Connection, schema: str, table: str, names: list[str]) -> None:
        records = self._records(with_ordinal=len(names) > len(self.columns))
        await connection.copy_records_to_table(table, schema_name=schema, columns=names, records=records)

    async def _records(self, *, with_ordinal: bool) -> AsyncIterator[tuple[Any, ...]]:
        """Give the rows as the driver takes them; between two chunks others have their turn."""
        number = 0
        for chunk in chunks(self.rows, CHUNK_ROWS):
            for row in chunk:
                number += 1
                values = self._values(number, row)
                yield (*values, number) if with_ordinal else values
            await asyncio.sleep(0)

    def _values(self, number: int, row: Row) -> tuple[Any, ...]:
        out: list[Any] = []
        for column in self.columns:
            value = row.get(column.name)
            try:
                out.append(None if value is None else column.converter(value))
            except UnfitValueError as problem:
                message = f"row {number}, column '{column.name}' of type {column.type}: {problem}"
                raise SinkError(message, code="22000", cause="sql") from None
            if value is None and column.name in self.key:
                raise SinkError(f"row {number} has no value for the key '{column.name}'", code="23502", cause="sql")
        return tuple(out)

    def _merge(self, names: Sequence[str]) -> str:
        """Return the statement that moves the rows from the stage to the table, later ones over earlier ones."""
        placed = {column.name: column.expression.format(name) for name, column in zip(names, self.columns, strict=True)}
        quoted = {column.name: column.quoted for column in self.columns}
        into = f"INSERT INTO {self.table.quoted} ({', '.join(quoted.values())}) OVERRIDING SYSTEM VALUE"
        values, stage = ", ".join(placed.values()), f"pg_temp.{STAGE}"
        if self.mode != "upsert":
            return f"{into} SELECT {values} FROM {stage} ORDER BY {ORDINAL}"
        keys = ", ".join(placed[name] for name in self.key)
        conflict = ", ".join(quoted[name] for name in self.key)
        changes = ", ".join(f"{quoted[name]} = excluded.{quoted[name]}" for name in placed if name not in self.key)
        action = f"UPDATE SET {changes}" if changes else "NOTHING"
        return (
            f"{into} SELECT DISTINCT ON ({keys}) {values} FROM {stage} ORDER BY {keys}, {ORDINAL} DESC "
            f"ON CONFLICT ({conflict}) DO {action}"
        )
