"""The journal beside a file: what was written, and what was begun, so that a crash leaves no half and no double.

It is an SQLite file. One process at a time holds it while it writes, by a lock on another file beside it; the kernel
ends the hold with the process. A write is announced before it touches the file, and confirmed after the file is on
disk. What is announced and not confirmed is undone by whoever comes next.
"""

from __future__ import annotations

import fcntl
import os
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from services.worker.sinks.file_turns import Stop
from services.worker.sinks.port import SinkError

# Nothing is delivered again after so long.
KEPT_S = 30 * 24 * 3600
PAUSE_S = 0.02
_SCHEMA = (
    "CREATE TABLE IF NOT EXISTS done (identity TEXT PRIMARY KEY, rows INTEGER NOT NULL, at INTEGER NOT NULL)",
    "CREATE INDEX IF NOT EXISTS done_at ON done (at)",
    "CREATE TABLE IF NOT EXISTS begun (identity TEXT NOT NULL, rows INTEGER NOT NULL, size INTEGER, fresh TEXT)",
)


@dataclass(frozen=True, slots=True)
class Begun:
    """A write that was announced: rows at the end of a file of this size, or a fresh file to be moved into place."""

    identity: str
    rows: int
    size: int | None = None
    fresh: Path | None = None


class Journal:
    """What happened to one file; only the one who holds it has one."""

    def __init__(self, connection: sqlite3.Connection, target: Path) -> None:
        self._connection = connection
        self._target = target

    def rows_of(self, identity: str) -> int | None:
        """Return how many rows a write has stored, or nothing if it is not known."""
        found = self._connection.execute("SELECT rows FROM done WHERE identity = ?", [identity]).fetchone()
        return None if found is None else int(found[0])

    def begin(self, begun: Begun) -> None:
        """Announce a write."""
        fresh = None if begun.fresh is None else os.path.relpath(begun.fresh, self._target.parent)
        self._connection.execute(
            "INSERT INTO begun (identity, rows, size, fresh) VALUES (?, ?, ?, ?)",
            [begun.identity, begun.rows, begun.size, fresh],
        )

    def confirm(self, identity: str, rows: int) -> None:
        """Say that a write is on disk."""
        now = "CAST(strftime('%s', 'now') AS INTEGER)"
        with _transaction(self._connection):
            self._connection.execute(f"INSERT INTO done (identity, rows, at) VALUES (?, ?, {now})", [identity, rows])
            self._connection.execute("DELETE FROM begun")
            self._connection.execute(f"DELETE FROM done WHERE at < {now} - ?", [KEPT_S])

    def undo(self) -> None:
        """Undo what was announced and not confirmed; confirm it if it is in place."""
        for identity, rows, size, fresh in self._connection.execute("SELECT * FROM begun").fetchall():
            if fresh is None:
                _cut(self._target, size)
            elif (left := self._target.parent / fresh).exists():
                left.unlink()
            else:
                self.confirm(identity, rows)
        self._connection.execute("DELETE FROM begun")


@contextmanager
def holding_journal(target: Path, wait_s: float, stop: Stop) -> Iterator[Journal]:
    """Hold the journal of a file, with what a crash has left undone; raises SinkError when others hold it too long."""
    lock = os.open(_lock_of(target), os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o666)
    try:
        _hold(lock, target, wait_s, stop)
        with closing(sqlite3.connect(journal_of(target), isolation_level=None)) as connection:
            connection.execute("PRAGMA synchronous = FULL")
            for statement in _SCHEMA:
                connection.execute(statement)
            journal = Journal(connection, target)
            journal.undo()
            yield journal
    finally:
        os.close(lock)


def journal_of(target: Path) -> Path:
    """Return where the journal of a file is."""
    return target.with_name(f".{target.name}.redrive")


def _lock_of(target: Path) -> Path:
    return target.with_name(f".{target.name}.redrive-lock")


def _hold(lock: int, target: Path, wait_s: float, stop: Stop) -> None:
    give_up = time.monotonic() + wait_s
    while True:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            if time.monotonic() >= give_up:
                message = f"'{target.name}' is being written by another process for more than {wait_s:g} s"
                raise SinkError(message, retryable=True, cause="connection") from None
        stop.rest(PAUSE_S)


@contextmanager
def _transaction(connection: sqlite3.Connection) -> Iterator[None]:
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
    except BaseException:
        with suppress(sqlite3.Error):
            connection.execute("ROLLBACK")
        raise
    connection.execute("COMMIT")


def _cut(target: Path, size: int) -> None:
    """Shorten a file to what it was."""
    with suppress(FileNotFoundError), target.open("r+b") as file:
        if os.fstat(file.fileno()).st_size > size:
            file.truncate(size)
            os.fsync(file.fileno())
