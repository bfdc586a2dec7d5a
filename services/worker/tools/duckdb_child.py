"""The program that runs the SQL of a `duckdb` task: started by path, with nothing of ours imported.

It reads one request from stdin and writes one reply to stdout, both JSON. Its environment holds nothing of the
worker's; its folder is its own and goes away with it.
"""

from __future__ import annotations

import datetime
import importlib.util
import json
import os
import re
import sys
import time
import types
from collections.abc import Callable
from typing import Any

import duckdb

SQLITE_MAGIC = b"SQLite format 3\0"
PAUSE_S = 0.05
BATCH_ROWS = 2_000
MAX_MESSAGE = 1_000
MISSING_EXTENSION = "MissingExtensionException"
_HELD_ELSEWHERE = ("Could not set lock", "Conflicting lock")
_UNREACHABLE = ("unable to connect", "could not connect", "connection refused", "could not translate host name")
Statement = tuple[Any, dict[str, Any]]
_RETURNING = re.compile(r"\breturning\b", re.I)


class RefusedError(Exception):
    """The request cannot be served; `kind` is that of the outcome's error."""

    def __init__(self, kind: str, message: str, code: str | None = None) -> None:
        super().__init__(message)
        self.kind = kind
        self.code = code


class StatementError(Exception):
    """A statement failed; the problem is the cause."""

    def __init__(self, number: int, problem: Exception) -> None:
        super().__init__(str(problem))
        self.number = number
        self.problem = problem


def main() -> None:
    """Serve one request."""
    reply_fd = os.dup(1)
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    process = _beside("process_child")
    process.assume(process.BARE, -1)
    os.umask(0o022)
    request = json.loads(sys.stdin.buffer.read())
    try:
        reply = _served(request)
    except StatementError as problem:
        error = {**_described(problem.problem, request), "statement": problem.number}
        reply = json.dumps({"error": error}).encode()
    except Exception as problem:
        reply = json.dumps({"error": _described(problem, request)}).encode()
    view = memoryview(reply)
    while view:
        view = view[os.write(reply_fd, view) :]
    os._exit(0)


def _served(request: dict[str, Any]) -> bytes:
    _give_time_zones()
    connection = _connected(request)
    connection.execute("SET TimeZone = 'UTC'")
    for number, one in enumerate(request["attach"]):
        _attach(connection, one, number, request["wait_s"])
    _fence(connection, request["fence"])
    results = _Results(request["most_rows"], request["most_bytes"])
    _run(connection, _statements(connection, request), results)
    _check_transaction(connection)
    reply = results.reply()
    connection.close()
    return reply


def _connected(request: dict[str, Any]) -> duckdb.DuckDBPyConnection:
    folder = os.environ["TMPDIR"]
    config = {
        "threads": request["threads"],
        "memory_limit": f"{request['memory']}B",
        "temp_directory": os.path.join(folder, "temporary"),
        "max_temp_directory_size": f"{request['disk']}B",
        "autoinstall_known_extensions": False,
        "autoload_known_extensions": False,
        "extension_directory": request["extensions"] or os.path.join(folder, "extensions"),
        "secret_directory": os.path.join(folder, "secrets"),
        "allow_persistent_secrets": False,
    }
    return _patient(lambda: duckdb.connect(request["database"] or ":memory:", config=config), request["wait_s"])


def _patient(act: Callable[[], duckdb.DuckDBPyConnection], wait_s: float) -> duckdb.DuckDBPyConnection:
    """Open something; when another process has its file, wait for a while."""
    give_up = time.monotonic() + wait_s
    while True:
        try:
            return act()
        except duckdb.IOException as problem:
            if not _is_held_elsewhere(problem) or time.monotonic() >= give_up:
                raise
        time.sleep(PAUSE_S)


def _attach(connection: duckdb.DuckDBPyConnection, one: dict[str, Any], number: int, wait_s: float) -> None:
    path, kind = one["path"], one["type"]
    if kind is None and _is_sqlite(path):
        kind = "sqlite"
    options = ["READ_ONLY"] if one["read_only"] else []
    if kind in (None, "duckdb"):
        pass
    elif _has_extension(connection, kind):
        options.insert(0, f"TYPE {kind}")
    elif kind == "sqlite":
        path, options = _copied(connection, path, number), ["READ_ONLY"]
    else:
        raise RefusedError("sql", f"the extension '{kind}' of DuckDB is not at hand on this worker", MISSING_EXTENSION)
    suffix = f" ({', '.join(options)})" if options else ""
    _patient(lambda: connection.execute(f"ATTACH {_literal(path)} AS {_quoted(one['as'])}{suffix}"), wait_s)


def _has_extension(connection: duckdb.DuckDBPyConnection, kind: str) -> bool:
    try:
        connection.execute(f"LOAD {kind}")
    except duckdb.Error:
        return False
    return True


def _copied(connection: duckdb.DuckDBPyConnection, path: str, number: int) -> str:
    """Return a DuckDB file that holds what an SQLite file does."""
    sqlite = _beside("duckdb_sqlite")
    made = os.path.join(os.environ["TMPDIR"], f"attached-{number}.duckdb")
    try:
        sqlite.copy(connection, path, made)
    except sqlite.SqliteError as problem:
        raise RefusedError("sql", str(problem), "SqliteError") from None
    return made


def _is_sqlite(path: str) -> bool:
    try:
        with open(path, "rb") as file:
            return file.read(len(SQLITE_MAGIC)) == SQLITE_MAGIC
    except OSError:
        return False


def _fence(connection: duckdb.DuckDBPyConnection, folder: str | None) -> None:
    """Keep the SQL inside a folder, if there is one to be kept in; this cannot be undone from SQL."""
    if folder is not None:
        connection.execute(f"SET allowed_directories = [{_literal(os.path.join(folder, ''))}]")
        connection.execute("SET enable_external_access = false")


def _statements(connection: duckdb.DuckDBPyConnection, request: dict[str, Any]) -> list[Statement]:
    """Return the statements, each with the parameters that it names."""
    given = request["params"]
    if isinstance(given, list):
        given = {str(place): value for place, value in enumerate(given, 1)}
    found = [each for text in request["statements"] for each in connection.extract_statements(text)]
    if not found:
        raise RefusedError("sql", "there is no statement")
    used: set[str] = set()
    out = []
    for number, statement in enumerate(found, 1):
        wanted = {str(name) for name in statement.named_parameters}
        missing = sorted(wanted - set(given))
        if missing:
            raise RefusedError(
                "sql", f"statement {number} needs the parameter ${missing[0]}, which params does not give"
            )
        used |= wanted
        out.append((statement, {name: given[name] for name in wanted}))
    if isinstance(request["params"], list) and len(used) < len(given):
        raise RefusedError("sql", f"params gives {len(given)} values, but the statements use {len(used)}")
    return out


def _run(connection: duckdb.DuckDBPyConnection, statements: list[Statement], results: _Results) -> None:
    for number, (statement, params) in enumerate(statements, 1):
        try:
            results.hear(connection.execute(statement, params or None), statement)
        except Exception as problem:
            raise StatementError(number, problem) from problem


def _check_transaction(connection: duckdb.DuckDBPyConnection) -> None:
    try:
        connection.rollback()
    except duckdb.Error:
        return
    raise RefusedError("sql", "a transaction was begun and not committed; it was rolled back", "TransactionException")


class _Results:
    """The rows of the last statement that returned some, and how many were changed by all."""

    def __init__(self, most_rows: int, most_bytes: int) -> None:
        self._most_rows = most_rows
        self._most_bytes = most_bytes
        self._rows: list[bytes] = []
        self._count = 0
        self._changed = 0
        self._values = _beside("duckdb_values")

    def hear(self, cursor: duckdb.DuckDBPyConnection, statement: Any) -> None:
        """Take what a statement returned."""
        columns = [(str(column[0]), str(column[1])) for column in cursor.description or ()]
        if not columns or self._is_mere_success(columns, statement):
            return
        if self._is_mere_count(columns, statement):
            self._changed += sum(int(row[0]) for row in cursor.fetchall())
            return
        self._rows, self._count, size = [], 0, 0
        encoder = self._values.Encoder(columns)
        while batch := cursor.fetchmany(BATCH_ROWS):
            self._count += len(batch)
            text = encoder.encoded(batch)
            size += len(text)
            if self._count > self._most_rows or size > self._most_bytes:
                what = f"{self._most_rows} rows" if self._count > self._most_rows else f"{self._most_bytes} bytes"
                raise RefusedError("limit", f"the result is more than {what}; store it with COPY, or ask for less")
            self._rows.append(text)

    def reply(self) -> bytes:
        """Return what is sent back."""
        rest = json.dumps({"row_count": self._count, "changed": self._changed})
        return b'{"rows":[' + b",".join(self._rows) + b"]," + rest[1:].encode()

    def _is_mere_success(self, columns: list[tuple[str, str]], statement: Any) -> bool:
        return columns == [("Success", "BOOLEAN")] and statement.type != duckdb.StatementType.SELECT

    def _is_mere_count(self, columns: list[tuple[str, str]], statement: Any) -> bool:
        if duckdb.ExpectedResultType.CHANGED_ROWS not in statement.expected_result_type:
            return False
        return columns == [("Count", "BIGINT")] and not _RETURNING.search(statement.query)


def _described(problem: BaseException, request: dict[str, Any]) -> dict[str, Any]:
    message = str(problem).strip()
    for secret in request["hidden"]:
        message = message.replace(secret, "[hidden]")
    kind, code, retryable = "sql", _name_of(problem), False
    if isinstance(problem, RefusedError):
        kind, code = problem.kind, problem.code or ""
    elif isinstance(problem, MemoryError | duckdb.OutOfMemoryException):
        kind, message = "limit", message or "out of memory"
    elif _is_held_elsewhere(problem):
        file = re.search(r'"([^"]+)"', message)
        name = f" '{os.path.basename(file[1])}'" if file else ""
        kind, retryable, message = "connection", True, f"the database file{name} is in use by another process"
    elif any(words in message.lower() for words in _UNREACHABLE):
        kind, retryable = "connection", True
    elif isinstance(problem, duckdb.TransactionException):
        retryable = "conflict" in message.lower()
    statement = getattr(problem, "statement", None)
    return {
        "kind": kind,
        "code": code,
        "message": message[:MAX_MESSAGE],
        "retryable": retryable,
        "statement": statement,
    }


def _name_of(problem: BaseException) -> str:
    """Return the name of an exception; the library has no class of its own for what needs an extension."""
    if type(problem) is duckdb.Error and "requires the extension" in str(problem):
        return MISSING_EXTENSION
    return type(problem).__name__


def _is_held_elsewhere(problem: BaseException) -> bool:
    return any(words in str(problem) for words in _HELD_ELSEWHERE)


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


class _Utc(datetime.tzinfo):
    """The one time zone that results come in."""

    def utcoffset(self, when: datetime.datetime | None) -> datetime.timedelta:
        return datetime.timedelta(0)

    def dst(self, when: datetime.datetime | None) -> datetime.timedelta:
        return datetime.timedelta(0)

    def tzname(self, when: datetime.datetime | None) -> str:
        return "UTC"

    def localize(self, when: datetime.datetime) -> datetime.datetime:
        return when.replace(tzinfo=self)


def _give_time_zones() -> None:
    """Stand in for the library that DuckDB asks for time zones, which need not be installed: here all are one."""
    module = types.ModuleType("pytz")
    module.__dict__.update({"timezone": lambda name: _Utc(), "utc": _Utc()})
    sys.modules["pytz"] = module


def _beside(name: str) -> Any:
    """Load a module that lies beside this one, without a look at anything else there."""
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), f"{name}.py")
    spec = importlib.util.spec_from_file_location(f"redrive_{name}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


if __name__ == "__main__":
    main()
