"""The sink that stores rows in a table of a DuckDB file."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar, Literal

import duckdb
from typing_extensions import override

from services.worker.sinks.duckdb_opening import failed, opened
from services.worker.sinks.duckdb_rows import Column, insert, names, quoted
from services.worker.sinks.file_places import PlaceError, Places
from services.worker.sinks.file_turns import TURNS, Stop, Threads
from services.worker.sinks.port import Sink, SinkError, Write, Written
from services.worker.sinks.rows import Row, columns_of, rows_of
from services.worker.tools.configs import BadConfigError, Config, Texts, read_config
from shared.runtime.crashpoints import crash_point

MARKER = "redrive_sink_marker"
# Nothing is delivered again after so long.
KEPT = "30 days"
WAIT_S = 10.0
_STAGED = "redrive_staged"


class DuckdbSinkConfig(Config):
    """What a `duckdb` sink may say."""

    database: str | None = None
    table: str
    auth: Any = None
    mode: Literal["append", "upsert", "replace"] = "append"
    key: Texts = ()
    data: Any = None


class DuckdbSink(Sink):
    """Stores rows in one transaction with a marker that says so; a write that comes again is known by it."""

    kind = "duckdb"
    config_model: ClassVar[type[Config]] = DuckdbSinkConfig

    def __init__(self, places: Places | None = None) -> None:
        self._places = places or Places()
        self._threads = Threads("redrive-duckdb-sink")

    @override
    async def write(self, write: Write) -> Written:
        try:
            config = read_config(self.kind, DuckdbSinkConfig, write.config)
            file = self._places.of(await _database(config, write))
        except (BadConfigError, PlaceError) as problem:
            raise SinkError(str(problem), cause="expression") from None
        job = _Job(config, file, write.identity, rows_of(write.data), _wait_s(write))
        async with TURNS.at([file]):
            return await self._threads.run(job.done)

    @override
    async def close(self) -> None:
        self._threads.close()


class _Job:
    """One write to one table, in a thread."""

    def __init__(self, config: DuckdbSinkConfig, file: Path, identity: str, rows: list[Row], wait_s: float) -> None:
        self._config = config
        self._file = file
        self._identity = identity
        self._rows = rows
        self._wait_s = wait_s

    def done(self, stop: Stop) -> Written:
        """Write the rows unless they are written, and say which; raises SinkError."""
        if not self._file.is_file():
            raise SinkError(f"there is no database file '{self._file.name}'")
        try:
            with opened(self._file, self._wait_s, stop) as database:
                known = self._stored(database, stop)
        except duckdb.Error as problem:
            stop.check()
            raise failed(problem) from None
        except ValueError as problem:
            raise SinkError(f"the rows cannot be written: {str(problem)[:200]}") from None
        details = {"table": self._config.table}
        return Written(len(self._rows) if known is None else known, known is not None, details)

    def _stored(self, database: duckdb.DuckDBPyConnection, stop: Stop) -> int | None:
        """Store the rows and return nothing, or return how many they were when they were stored before."""
        database.execute(
            f"CREATE TABLE IF NOT EXISTS {MARKER} "
            "(identity VARCHAR PRIMARY KEY, target VARCHAR, row_count BIGINT, written_at TIMESTAMP)"
        )
        found = database.execute(f"SELECT row_count FROM {MARKER} WHERE identity = ?", [self._identity]).fetchone()
        if found is not None:
            return int(found[0])
        table = _Table(database, self._config.table)
        columns, key = table.chosen(self._rows, self._config.key)
        if self._config.mode == "upsert":
            _stage(database, columns, self._rows, key, stop)
        database.execute("BEGIN")
        try:
            self._changed(database, columns, key, stop)
            database.execute(
                f"INSERT INTO {MARKER} VALUES (?, ?, ?, now() AT TIME ZONE 'UTC')",
                [self._identity, self._config.table, len(self._rows)],
            )
            database.execute(f"DELETE FROM {MARKER} WHERE written_at < now() AT TIME ZONE 'UTC' - INTERVAL '{KEPT}'")
            crash_point("duckdb_sink.before_commit")
            stop.check()
            database.execute("COMMIT")
        except BaseException:
            with suppress(duckdb.Error):
                database.execute("ROLLBACK")
            raise
        crash_point("duckdb_sink.after_commit")
        return None

    def _changed(
        self, database: duckdb.DuckDBPyConnection, columns: Sequence[Column], key: Sequence[Column], stop: Stop
    ) -> None:
        table = _in_sql(self._config.table)
        if self._config.mode == "replace":
            database.execute(f"DELETE FROM {table}")
        if not self._rows:
            return
        if self._config.mode == "upsert":
            _merge(database, table, columns, key)
        else:
            insert(database, table, columns, self._rows, stop)


class _Table:
    """A table as it is: it was made elsewhere."""

    def __init__(self, database: duckdb.DuckDBPyConnection, name: str) -> None:
        self._name = name
        try:
            found = database.execute(f"DESCRIBE {_in_sql(name)}").fetchall()
        except duckdb.CatalogException:
            raise SinkError(f"there is no table '{name}'; a sink does not make one", cause="sql") from None
        self._columns = {str(row[0]).lower(): Column(str(row[0]), str(row[1]), str(row[0])) for row in found}

    def chosen(self, rows: Sequence[Row], key: tuple[str, ...]) -> tuple[list[Column], list[Column]]:
        """Return the columns that the rows fill, and those of the key; raises SinkError."""
        wanted = columns_of(rows)
        columns, keys = [self._column(name) for name in wanted], [self._column(name) for name in key]
        if len({column.name for column in columns}) < len(columns):
            raise SinkError("two columns of the rows differ only in upper and lower case", cause="sql")
        if rows and not wanted:
            raise SinkError("the rows have no columns", cause="sql")
        missing = [column.source for column in keys if column.name not in {each.name for each in columns}]
        if rows and missing:
            message = f"the rows have no column '{missing[0]}', which is a key; they have {', '.join(wanted)}"
            raise SinkError(message, cause="sql")
        return columns, keys

    def _column(self, name: str) -> Column:
        found = self._columns.get(name.lower())
        if found is None:
            known = ", ".join(column.name for column in self._columns.values())
            raise SinkError(f"the table {self._name} has no column '{name}'; it has {known}", cause="sql")
        return replace(found, source=name)


def _stage(
    database: duckdb.DuckDBPyConnection,
    columns: Sequence[Column],
    rows: Sequence[Row],
    key: Sequence[Column],
    stop: Stop,
) -> None:
    """Put the rows into a table for the moment, of rows with the same key the last."""
    if not key:
        raise SinkError("mode upsert needs a key: the columns that identify a row", cause="expression")
    if not rows:
        return
    shape = ", ".join(f"{column.quoted} {column.type}" for column in columns)
    database.execute(f"CREATE TEMP TABLE {_STAGED} ({shape})")
    insert(database, _STAGED, columns, rows, stop)
    latest = f"SELECT max(rowid) FROM {_STAGED} GROUP BY {names(key)}"
    database.execute(f"DELETE FROM {_STAGED} WHERE rowid NOT IN ({latest})")


def _merge(database: duckdb.DuckDBPyConnection, table: str, columns: Sequence[Column], key: Sequence[Column]) -> None:
    same = " AND ".join(f"old.{column.quoted} IS NOT DISTINCT FROM new.{column.quoted}" for column in key)
    others = [column for column in columns if column.name not in {each.name for each in key}]
    if others:
        changes = ", ".join(f"{column.quoted} = new.{column.quoted}" for column in others)
        database.execute(f"UPDATE {table} AS old SET {changes} FROM {_STAGED} AS new WHERE {same}")
    database.execute(
        f"INSERT INTO {table} ({names(columns)}) SELECT {names(columns)} FROM {_STAGED} AS new "
        f"WHERE NOT EXISTS (SELECT 1 FROM {table} AS old WHERE {same}) ORDER BY new.rowid"
    )


async def _database(config: DuckdbSinkConfig, write: Write) -> str:
    found = config.database
    if found is None and config.auth is not None:
        credential = await write.credential(config.auth)
        field = credential.fields.get("database") or credential.fields.get("path")
        if not isinstance(field, str):
            raise SinkError(f"the credential '{credential.name}' has no field database", cause="auth")
        found = field
    if found is None or found.startswith(":memory:"):
        raise SinkError("a duckdb sink needs a database file", cause="expression")
    return found


def _in_sql(table: str) -> str:
    """Return the name of a table, perhaps with its schema, as it stands in SQL."""
    return ".".join(quoted(part.strip('"')) for part in table.split("."))


def _wait_s(write: Write) -> float:
    return WAIT_S if write.timeout_s is None else min(WAIT_S, write.timeout_s)
