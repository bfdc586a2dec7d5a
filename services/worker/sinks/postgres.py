"""The sink that stores rows in a Postgres table, once for each attempt."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from typing_extensions import override

from services.worker.keychain import CredentialError
from services.worker.sinks.port import Sink, SinkError, Write, Written
from services.worker.sinks.postgres_loading import Load, Mode
from services.worker.sinks.postgres_marker import claim, make_marker_table, note_rows, noted_rows, prune
from services.worker.sinks.postgres_table import columns_for, look_up
from services.worker.sinks.rows import Row, columns_of, rows_of
from services.worker.tools.configs import BadConfigError, Config, Texts, bad_config, read_config
from services.worker.tools.postgres_address import Address, address_of, address_of_dsn
from services.worker.tools.postgres_errors import failure_of
from services.worker.tools.postgres_pools import (
    SERVER_MARGIN_S,
    CommitUnknownError,
    Connection,
    Pools,
    job_settings,
    transaction,
)

PRUNE_EVERY = 200
_NO_CONSTRAINT = "42P10"
_LINE = re.compile(r"COPY \S+, line (\d+)")


class PostgresSinkConfig(Config):
    """What a `postgres` sink may say besides its data."""

    auth: Any = None
    dsn: str | None = None
    table: str
    mode: Mode = "append"
    key: Texts = ()


class PostgresSink(Sink):
    """Writes rows and the marker of the attempt in one transaction."""

    kind = "postgres"
    config_model = PostgresSinkConfig

    def __init__(self, pools: Pools | None = None) -> None:
        self._pools = pools or Pools()
        self._writes = 0

    @override
    async def write(self, write: Write) -> Written:
        try:
            config = _config(write)
            rows = _rows(write.data, config)
            address = await _address(write, config)
            try:
                return await self._written(address, write, config, rows)
            except CommitUnknownError:
                # The marker knows. If it is there the rows are, and if not they are written now.
                return await self._written(address, write, config, rows)
        except (SinkError, CredentialError):
            raise
        except BadConfigError as problem:
            raise SinkError(str(problem), cause="expression") from None
        except Exception as problem:
            raise _translated(problem) from problem

    @override
    async def close(self) -> None:
        await self._pools.close()

    async def _written(
        self, address: Address, write: Write, config: PostgresSinkConfig, rows: Sequence[Row]
    ) -> Written:
        async with self._pools.connection(address) as connection:
            table = await look_up(connection, config.table)
            names = columns_of(rows)
            columns = await columns_for(connection, table, names) if rows else []
            if not table.is_marked:
                await make_marker_table(connection, table)
            await self._prune_now_and_then(connection, table)
            load = Load(table, columns, rows, config.mode, config.key)
            limit_s = None if write.timeout_s is None else write.timeout_s + SERVER_MARGIN_S
            async with transaction(connection, job_settings(write.job_id, write.execution_id, limit_s)):
                if not await claim(connection, table, write):
                    return Written(await noted_rows(connection, table, write), repeated=True)
                count = await load.run(connection)
                await note_rows(connection, table, write, count)
        return Written(count, details={"table": table.name, "mode": config.mode})

    async def _prune_now_and_then(self, connection: Connection, table: Any) -> None:
        """Forget old markers before a write, and not after: time that runs out then would hide that it is there."""
        if self._writes % PRUNE_EVERY == 0:
            await prune(connection, table)
        self._writes += 1


def _config(write: Write) -> PostgresSinkConfig:
    config = read_config("postgres", PostgresSinkConfig, write.config)
    if (config.auth is None) == (config.dsn is None):
        raise bad_config("postgres", "either auth or dsn is needed")
    if (config.mode == "upsert") != bool(config.key):
        raise bad_config("postgres", "mode upsert needs a key, and the other modes take none")
    return config


async def _address(write: Write, config: PostgresSinkConfig) -> Address:
    if config.auth is not None:
        return address_of(await write.credential(config.auth))
    return address_of_dsn(config.dsn or "")


def _rows(data: Any, config: PostgresSinkConfig) -> list[Row]:
    rows = rows_of(data)
    names = columns_of(rows)
    if rows and not names:
        raise SinkError("the rows have no columns", code="22000", cause="sql")
    absent = [name for name in config.key if rows and name not in names]
    if absent:
        raise SinkError(f"no row has the key '{absent[0]}'", code="42703", cause="sql")
    return rows


def _translated(problem: Exception) -> Exception:
    """Return the error that says what went wrong, and in which row where the server says that."""
    found = failure_of(problem)
    if found is None:
        return problem
    message = found.message
    line = _LINE.search(getattr(problem, "context", None) or "")
    if line is not None:
        message = f"row {line[1]}: {message}"
    if found.code == _NO_CONSTRAINT:
        message = "the table has no unique constraint on exactly the columns of key"
    return SinkError(message, code=found.code, retryable=found.retryable, cause=found.kind)
