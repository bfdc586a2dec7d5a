"""DuckDB files opened for a moment, with bounded memory; when another process has one, waiting for a while."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import duckdb

from services.worker.sinks.file_turns import Stop
from services.worker.sinks.port import SinkError

MEMORY = "512MB"
PAUSE_S = 0.05
_HELD_ELSEWHERE = ("Could not set lock", "Conflicting lock")


@contextmanager
def opened(file: str | Path, wait_s: float, stop: Stop, memory: str = MEMORY) -> Iterator[duckdb.DuckDBPyConnection]:
    """Open a database; raises duckdb.Error."""
    with tempfile.TemporaryDirectory(prefix="redrive-duckdb-") as folder:
        config: dict[str, str | bool | int | float | list[str]] = {
            "memory_limit": memory,
            "threads": 1,
            "temp_directory": folder,
            "autoinstall_known_extensions": False,
            "autoload_known_extensions": False,
        }
        with closing(_connected(str(file), config, time.monotonic() + wait_s, stop)) as database:
            stop.wakes(database.interrupt)
            try:
                yield database
            finally:
                stop.wakes_nothing()


def failed(problem: duckdb.Error) -> SinkError:
    """Return what went wrong as the error of a sink."""
    code = type(problem).__name__
    if _is_held_elsewhere(problem):
        message = "the database file is in use by another process"
        return SinkError(message, code=code, retryable=True, cause="connection")
    cause = "limit" if isinstance(problem, duckdb.OutOfMemoryException) else "sql"
    is_conflict = isinstance(problem, duckdb.TransactionException)
    return SinkError(str(problem).strip()[:500], code=code, retryable=is_conflict, cause=cause)


def _connected(
    file: str, config: dict[str, str | bool | int | float | list[str]], give_up: float, stop: Stop
) -> duckdb.DuckDBPyConnection:
    while True:
        try:
            return duckdb.connect(file, config=config)
        except duckdb.Error as problem:
            if not _is_held_elsewhere(problem) or time.monotonic() >= give_up:
                raise
        stop.rest(PAUSE_S)


def _is_held_elsewhere(problem: duckdb.Error) -> bool:
    return any(words in str(problem) for words in _HELD_ELSEWHERE)
