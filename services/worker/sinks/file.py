"""The sink that stores rows in files: JSON lines, comma-separated values, Parquet."""

from __future__ import annotations

import errno
import hashlib
import re
import sqlite3
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any, ClassVar, Literal

import duckdb
from typing_extensions import override

from services.worker.sinks import file_csv, file_jsonl, file_parquet
from services.worker.sinks.file_journal import Journal, holding_journal
from services.worker.sinks.file_places import PlaceError, Places
from services.worker.sinks.file_turns import TURNS, Stop, Threads
from services.worker.sinks.file_writing import append, fill_with, swap
from services.worker.sinks.port import Sink, SinkError, Write, Written
from services.worker.sinks.rows import Row, columns_of, rows_of
from services.worker.tools.configs import BadConfigError, Config, Texts, read_config

WAIT_S = 30.0
PART_IN_WORK = ".part.redrive-new"
Format = Literal["jsonl", "csv", "parquet"]
Mode = Literal["append", "upsert", "replace"]
_BY_ENDING: dict[str, Format] = {
    ".jsonl": "jsonl", ".ndjson": "jsonl", ".csv": "csv", ".parquet": "parquet", ".pq": "parquet",
}  # fmt: skip
_LINES: dict[str, ModuleType] = {"jsonl": file_jsonl, "csv": file_csv}
_SAFE_NAME = re.compile(r"[A-Za-z0-9._-]{1,100}")
_MAY_PASS = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.ESTALE, errno.EMFILE, errno.ENFILE})


class FileSinkConfig(Config):
    """What a `file` sink may say."""

    path: str
    format: Format | None = None
    mode: Mode = "append"
    key: Texts = ()
    data: Any = None


class FileSink(Sink):
    """Stores rows in files; a write that comes again is known by the journal beside the file."""

    kind = "file"
    config_model: ClassVar[type[Config]] = FileSinkConfig

    def __init__(self, places: Places | None = None) -> None:
        self._places = places or Places()
        self._threads = Threads("redrive-file-sink")

    @override
    async def write(self, write: Write) -> Written:
        config = _config(write)
        try:
            target = self._places.of(config.path)
        except PlaceError as problem:
            raise SinkError(str(problem)) from None
        job = _Job(config, target, _format(config, target), write.identity, rows_of(write.data), _wait_s(write))
        _check_key(config, job.rows)
        async with TURNS.at([target]):
            return await self._threads.run(job.done)

    @override
    async def close(self) -> None:
        self._threads.close()


class _Job:
    """One write to one file, in a thread."""

    def __init__(
        self, config: FileSinkConfig, target: Path, form: Format, identity: str, rows: list[Row], wait_s: float
    ) -> None:
        self._config = config
        self._target = target
        self._form = form
        self._identity = identity
        self.rows = rows
        self._wait_s = wait_s

    def done(self, stop: Stop) -> Written:
        """Write the rows unless they are written, and say which; raises SinkError."""
        name = self._target.name
        try:
            self._target.parent.mkdir(parents=True, exist_ok=True)
            with holding_journal(self._target, self._wait_s, stop) as journal:
                known = journal.rows_of(self._identity)
                if known is None:
                    self._stored(journal, stop)
        except OSError as problem:
            message = f"cannot write '{name}': {problem.strerror or type(problem).__name__}"
            code = errno.errorcode.get(problem.errno or 0)
            raise SinkError(message, code=code, retryable=problem.errno in _MAY_PASS) from None
        except sqlite3.Error as problem:
            raise SinkError(f"the journal of '{name}' cannot be used: {problem}") from None
        except duckdb.Error as problem:
            raise SinkError(f"'{name}': {str(problem)[:500]}", code=type(problem).__name__, cause="sql") from None
        except ValueError as problem:
            raise SinkError(f"'{name}': the rows cannot be written: {str(problem)[:200]}") from None
        details = {"path": self._config.path, "format": self._form}
        return Written(len(self.rows) if known is None else known, known is not None, details)

    def _stored(self, journal: Journal, stop: Stop) -> None:
        if self._form == "parquet":
            self._parquet(journal, stop)
            return
        lines = _LINES[self._form]
        if self._config.mode == "append":
            pieces = lines.appended(self._target, self.rows)
            append(journal, self._target, self._identity, len(self.rows), pieces, stop)
            return
        if self._config.mode == "upsert":
            pieces = lines.merged(self._target, self.rows, self._config.key)
        else:
            pieces = lines.replaced(self._target, self.rows)
        swap(journal, self._target, self._identity, len(self.rows), fill_with(pieces, stop))

    def _parquet(self, journal: Journal, stop: Stop) -> None:
        target, rows, count = self._target, self.rows, len(self.rows)
        if self._config.mode == "append":
            self._part(journal, stop)
        elif not rows and (self._config.mode == "upsert" or not target.exists()):
            journal.confirm(self._identity, 0)
        elif not rows:
            swap(journal, target, self._identity, 0, lambda fresh: file_parquet.emptied(target, fresh, stop))
        elif self._config.mode == "replace":
            swap(journal, target, self._identity, count, lambda fresh: file_parquet.write(fresh, rows, stop))
        else:
            swap(journal, target, self._identity, count, lambda fresh: self._merge(fresh, stop))

    def _part(self, journal: Journal, stop: Stop) -> None:
        folder, rows = self._target, self.rows
        if folder.exists() and not folder.is_dir():
            raise SinkError(f"'{folder.name}' is a file; parquet is appended to a folder of parts")
        if not rows:
            journal.confirm(self._identity, 0)
            return
        folder.mkdir(exist_ok=True)
        part = folder / f"part-{_file_name(self._identity)}.parquet"
        fill = lambda fresh: file_parquet.write(fresh, rows, stop)  # noqa: E731
        swap(journal, part, self._identity, len(rows), fill, PART_IN_WORK)

    def _merge(self, fresh: Path, stop: Stop) -> None:
        rows = file_parquet.deduplicated(self.rows, self._config.key)
        if self._target.exists():
            file_parquet.merge(self._target, fresh, rows, self._config.key, stop)
        else:
            file_parquet.write(fresh, rows, stop)


def _config(write: Write) -> FileSinkConfig:
    try:
        return read_config(FileSink.kind, FileSinkConfig, write.config)
    except BadConfigError as problem:
        raise SinkError(str(problem), cause="expression") from None


def _format(config: FileSinkConfig, target: Path) -> Format:
    found = config.format or _BY_ENDING.get(target.suffix.lower())
    if found is None:
        message = f"the format of '{target.name}' does not follow from its name; say jsonl, csv or parquet"
        raise SinkError(message, cause="expression")
    return found


def _check_key(config: FileSinkConfig, rows: Sequence[Row]) -> None:
    if config.mode != "upsert":
        return
    if not config.key:
        raise SinkError("mode upsert needs a key: the columns that identify a row", cause="expression")
    columns = columns_of(rows)
    for name in config.key:
        if rows and name not in columns:
            raise SinkError(f"the rows have no column '{name}', which is a key; they have {', '.join(columns)}")


def _wait_s(write: Write) -> float:
    return WAIT_S if write.timeout_s is None else min(WAIT_S, write.timeout_s)


def _file_name(identity: str) -> str:
    return identity if _SAFE_NAME.fullmatch(identity) else hashlib.sha256(identity.encode()).hexdigest()
