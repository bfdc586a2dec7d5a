"""The table that a Postgres sink writes to: what it is called, and what its columns take."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from services.worker.sinks.port import SinkError
from services.worker.tools.postgres_params import Converter, UnfitValueError, as_list, as_text, converter_for
from services.worker.tools.postgres_pools import Connection

MARKER = "redrive_sink_marker"
MAX_NAMED = 40
# Ordinary and partitioned tables, and foreign ones, take rows in bulk; a view takes inserted rows.
_BULK = ("r", "p", "f")
_WRITABLE = (*_BULK, "v")
_TABLE = """
SELECT c.oid, n.nspname, c.relname, c.relkind::text AS relkind, c.relrowsecurity,
       format('%I.%I', n.nspname, c.relname) AS quoted, format('%I.%I', n.nspname, $2::text) AS marker,
       to_regclass(format('%I.%I', n.nspname, $2::text)) IS NOT NULL AS is_marked
FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
WHERE c.oid = to_regclass($1::text)
"""
_COLUMNS = """
SELECT attname, quote_ident(attname) AS quoted, format_type(atttypid, atttypmod) AS type,
       attgenerated <> '' AS generated
FROM pg_catalog.pg_attribute WHERE attrelid = $1 AND attnum > 0 AND NOT attisdropped ORDER BY attnum
"""


@dataclass(frozen=True, slots=True)
class Column:
    """A column that is written: how JSON data becomes what it takes, on the way through a stage or without one.

    `expression` makes its value of that of a stage's column of type `staged`; it holds a place for that one's name.
    """

    name: str
    quoted: str
    type: str
    converter: Converter
    staged: str
    expression: str = "{}"
    is_bulk: bool = True


@dataclass(frozen=True, slots=True)
class Table:
    """A table as the server knows it."""

    oid: int
    schema: str
    name: str
    quoted: str
    marker: str
    is_marked: bool
    is_bulk: bool


async def look_up(connection: Connection, name: str) -> Table:
    """Return the table of a name, read as SQL reads it; raises SinkError."""
    found = await connection.fetchrow(_TABLE, name, MARKER)
    if found is None:
        hint = "; a name with capitals is written in double quotes" if name.lower() != name and '"' not in name else ""
        raise SinkError(f"there is no table {name[:200]}{hint}", code="42P01", cause="sql")
    if found["relkind"] not in _WRITABLE:
        raise SinkError(f"{name[:200]} is no table", code="42809", cause="sql")
    is_bulk = found["relkind"] in _BULK and not found["relrowsecurity"]
    return Table(
        found["oid"], found["nspname"], found["relname"], found["quoted"], found["marker"], found["is_marked"], is_bulk
    )


async def columns_for(connection: Connection, table: Table, names: Sequence[str]) -> list[Column]:
    """Return the columns of these names; raises SinkError for one that the table has not, or that it fills itself."""
    rows = {row["attname"]: row for row in await connection.fetch(_COLUMNS, table.oid)}
    unknown = [name for name in names if name not in rows]
    if unknown:
        has = ", ".join([*list(rows)[:MAX_NAMED], *(["…"] if len(rows) > MAX_NAMED else [])])
        message = f"the table {table.name} has no column '{unknown[0][:100]}'; it has {has}"
        raise SinkError(message, code="42703", cause="sql")
    generated = [name for name in names if rows[name]["generated"]]
    if generated:
        message = f"the column '{generated[0]}' of the table {table.name} is generated and takes no value"
        raise SinkError(message, code="428C9", cause="sql")
    wanted = ", ".join(rows[name]["quoted"] for name in names)
    prepared = await connection.prepare(f"SELECT {wanted} FROM {table.quoted} LIMIT 0")
    kinds = [attribute.type for attribute in prepared.get_attributes()]
    return [_column(rows[name], kind) for name, kind in zip(names, kinds, strict=True)]


def _column(row: Mapping[str, Any], kind: Any) -> Column:
    """Return a column; what the driver cannot send in bulk goes through a stage, where the server converts it."""
    name, quoted, type_ = row["attname"], row["quoted"], row["type"]
    converter = converter_for(kind)
    if converter is not None:
        return Column(name, quoted, type_, converter, type_)
    match kind.kind:
        case "array":
            return Column(name, quoted, type_, partial(as_list, as_text), "text[]", f"{{}}::{type_}", False)
        case "composite":
            expression = f"jsonb_populate_record(NULL::{type_}, {{}})"
            return Column(name, quoted, type_, _as_mapping, "jsonb", expression, False)
        case _:
            return Column(name, quoted, type_, as_text, "text", f"{{}}::{type_}", False)


def _as_mapping(value: Any) -> bytes:
    if not isinstance(value, dict):
        raise UnfitValueError("it is no mapping")
    return as_text(value).encode()
