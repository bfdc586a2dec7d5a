"""Statements run on a connection: in one transaction unless they say otherwise, rows read piece by piece."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import asyncpg

from services.worker.tools.postgres_errors import failure_of
from services.worker.tools.postgres_params import UnfitValueError, convert
from services.worker.tools.postgres_pools import Connection, roll_back, transaction
from services.worker.tools.postgres_text import Bound, Statement
from services.worker.tools.postgres_values import row_of, weight_of
from shared.contracts.outcomes import Failure

FIRST_BATCH = 20
MAX_BATCH = 2_000
BATCH_BYTES = 1024 * 1024
# The statement wants no transaction around it, or to end it itself.
_WANTS_NO_TRANSACTION = ("25001", "2D000")
_STALE = Failure("sql", "a type has changed since the worker learned it", "0A000", retryable=True)

Fetch = Literal["rows", "one", "value", "none"]


class StatementError(Exception):
    """A statement failed; `failure` says how, `statement` which it was."""

    def __init__(self, failure: Failure, statement: int, command: str) -> None:
        super().__init__(failure.message)
        self.failure = failure
        self.statement = statement
        self.command = command


class StaleTypeError(StatementError):
    """A type has changed since the connection learned it; another connection would know better."""


class TooMuchError(Exception):
    """There are more rows, or larger ones, than may be held."""


@dataclass(frozen=True, slots=True)
class Reading:
    """How much of the rows is wanted, and how much may be held."""

    fetch: Fetch = "rows"
    max_rows: int = 100_000
    max_bytes: int = 32 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Done:
    """What one statement did: its rows if it gives any, how many rows it touched, and the server's word for it."""

    command: str
    row_count: int
    rows: list[dict[str, Any]] | None = None
    notes: tuple[str, ...] = ()


@dataclass(slots=True)
class Run:
    """The statements of one task on one connection."""

    connection: Connection
    bounds: Sequence[Bound]
    statements: Sequence[Statement]
    reading: Reading
    local_settings: str
    session_settings: str
    done: list[Done] = field(default_factory=list)
    rows: int = 0
    size: int = 0

    async def run(self) -> list[Done]:
        """Return what each statement did; raises StatementError, and what the driver raises between statements."""
        if any(statement.steers_transactions for statement in self.statements):
            await self._as_steered()
        elif len(self.statements) == 1:
            await self._alone(0)
        else:
            async with transaction(self.connection, self.local_settings):
                for index in range(len(self.statements)):
                    await self._step(index)
        return self.done

    async def _as_steered(self) -> None:
        """Follow the transactions that the text itself begins and ends."""
        await self.connection.execute(self.session_settings)
        try:
            for index, statement in enumerate(self.statements):
                if statement.steers_transactions or self.connection.is_in_transaction():
                    await self._step(index)
                else:
                    await self._alone(index)
        except BaseException:
            await roll_back(self.connection)
            raise
        if self.connection.is_in_transaction():
            await roll_back(self.connection)
            message = "the statements begin a transaction that they do not end; it was rolled back"
            raise StatementError(Failure("sql", message, "25000"), len(self.statements) - 1, "BEGIN")

    async def _alone(self, index: int) -> None:
        """Run a statement in a transaction of its own, or in none if it cannot have one."""
        try:
            async with transaction(self.connection, self.local_settings):
                await self._step(index)
        except StatementError as problem:
            if problem.failure.code not in _WANTS_NO_TRANSACTION:
                raise
            await self.connection.execute(self.session_settings)
            try:
                await self._step(index)
            except StaleTypeError as problem:
                # What it did is done, so it is not to be run on another connection.
                raise StatementError(problem.failure, index, problem.command) from None

    async def _step(self, index: int) -> None:
        bound, statement = self.bounds[index], self.statements[index]
        try:
            self.done.append(await self._ran(bound, statement))
        except UnfitValueError as problem:
            raise StatementError(Failure("sql", str(problem), "22000"), index, statement.command) from None
        except (TooMuchError, RecursionError) as problem:
            deep = "a json value nests too deeply to be read; cast it to text"
            message = deep if isinstance(problem, RecursionError) else str(problem)
            raise StatementError(Failure("limit", message), index, statement.command) from None
        except asyncpg.OutdatedSchemaCacheError:
            raise StaleTypeError(_STALE, index, statement.command) from None
        except Exception as problem:
            found = failure_of(problem, bound.names, bound.values)
            if found is None:
                raise
            raise StatementError(found, index, statement.command) from problem

    async def _ran(self, bound: Bound, statement: Statement) -> Done:
        prepared = await self.connection.prepare(bound.text)
        values = _converted(bound, prepared.get_parameters())
        attributes = prepared.get_attributes()
        chars = {column.name for column in attributes if column.type.name in ("char", "char[]")}
        if not attributes or not self.connection.is_in_transaction():
            records = await prepared.fetch(*values)
            command, count = _said(prepared.get_statusmsg())
            return Done(command, count, self._kept(records, chars) if attributes else None)
        rows, count = await self._read(await prepared.cursor(*values), chars)
        twice = sorted(name for name, count in Counter(column.name for column in attributes).items() if count > 1)
        notes = (f"columns that occur twice, of which the last is kept: {', '.join(twice)}",) if twice else ()
        return Done(statement.command, count, rows, notes)

    async def _read(self, cursor: Any, chars: Container[str]) -> tuple[list[dict[str, Any]], int]:
        """Return the rows that are wanted and how many were read; only a batch is held besides."""
        only_first = self.reading.fetch in ("one", "value")
        batch, count = 1 if only_first else FIRST_BATCH, 0
        rows: list[dict[str, Any]] = []
        while True:
            records = await cursor.fetch(batch)
            count += len(records)
            before = self.size
            rows += self._kept(records, chars)
            if len(records) < batch or only_first:
                return rows, count
            mean = max(1, (self.size - before) // len(records))
            batch = max(1, min(MAX_BATCH, 2 * batch, BATCH_BYTES // mean))

    def _kept(self, records: Sequence[Any], chars: Container[str]) -> list[dict[str, Any]]:
        if self.reading.fetch == "none":
            return []
        rows: list[dict[str, Any]] = []
        for record in records:
            row = row_of(record, chars)
            self.size += weight_of(row)
            self.rows += 1
            if self.rows > self.reading.max_rows:
                raise TooMuchError(f"the statements give more than {self.reading.max_rows} rows")
            if self.size > self.reading.max_bytes:
                raise TooMuchError(f"the rows are larger than {self.reading.max_bytes} bytes")
            rows.append(row)
        return rows


def _converted(bound: Bound, kinds: Sequence[Any]) -> list[Any]:
    out: list[Any] = []
    for name, value, kind in zip(bound.names, bound.values, kinds, strict=True):
        try:
            out.append(convert(value, kind))
        except UnfitValueError as problem:
            raise UnfitValueError(f"the parameter '{name}', a value of type {kind.name}: {problem}") from None
    return out


def _said(status: str) -> tuple[str, int]:
    """Return the server's word for what was done, and how many rows it says were touched."""
    words = status.split()
    count = int(words[-1]) if words and words[-1].isdigit() else 0
    return " ".join(word for word in words if not word.isdigit()), count
