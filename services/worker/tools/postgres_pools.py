"""Connections to the Postgres databases of playbooks: pools by address, few, bounded, and closed when idle."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Any, TypeAlias

import asyncpg
from typing_extensions import override

from services.worker.tools.postgres_address import Address
from services.worker.tools.postgres_values import prepare_connection

MAX_POOLS = 32
MAX_CONNECTIONS = 10
IDLE_S = 60.0
CONNECT_S = 10.0
WAIT_S = 30.0
CLEAN_UP_S = 2.0
COMMIT_S = 3.0
# How much longer than we do the server waits, so that it is we who say what took so long.
SERVER_MARGIN_S = 2.0
# Every job finds the same session, whatever the server's defaults are; SQL may change it for itself.
SESSION = {"application_name": "redrive", "timezone": "UTC"}
IDLE_IN_TRANSACTION_MS = 300_000

# What a driver says when a server refuses, is gone or is silent.
DRIVER_ERRORS = (asyncpg.PostgresError, asyncpg.InterfaceError, asyncpg.InternalClientError, OSError, TimeoutError)

# asyncpg has no types of its own.
Connection: TypeAlias = Any


class NoConnectionError(Exception):
    """There was no connection in time: the server is silent, or all connections are in use."""


class CommitUnknownError(Exception):
    """The connection broke while a transaction was being committed; it may be there or not."""


class Session(asyncpg.Connection):  # type: ignore[misc]
    """A connection that forgets everything between two jobs: settings, roles, temporary tables, locks."""

    @override
    def get_reset_query(self) -> str:
        return "DISCARD ALL"


@dataclass(slots=True)
class _Pool:
    """A pool and how many are using it."""

    pool: Any
    users: int = 0
    is_retired: bool = False


class Pools:
    """Lends connections; as many pools as there are addresses in use, and a few more."""

    def __init__(self, *, max_pools: int = MAX_POOLS, max_connections: int = MAX_CONNECTIONS) -> None:
        self._max_pools = max_pools
        self._max_connections = max_connections
        self._pools: dict[Address, _Pool] = {}

    @property
    def count(self) -> int:
        """Return how many pools there are."""
        return len(self._pools)

    @asynccontextmanager
    async def connection(self, address: Address, wait_s: float = WAIT_S) -> AsyncIterator[Connection]:
        """Lend a connection; raises what the driver raises, and NoConnectionError when there is none in time."""
        entry = await self._entered(address)
        try:
            connection = await _acquired(entry.pool, wait_s)
            try:
                yield connection
            finally:
                await _given_back(entry.pool, connection)
        finally:
            entry.users -= 1
            await _closed_if_idle(entry)
            await self._evict()

    async def renew(self, address: Address) -> None:
        """Let no connection of an address be lent again; those that follow know nothing of what was."""
        entry = self._pools.pop(address, None)
        if entry is not None:
            entry.is_retired = True
            await _closed_if_idle(entry)

    async def close(self) -> None:
        """Close every pool; a connection that is still in use is cut."""
        pools, self._pools = list(self._pools.values()), {}
        for entry in pools:
            await _closed(entry.pool)

    async def _entered(self, address: Address) -> _Pool:
        entry = self._pools.pop(address, None)
        if entry is None:
            entry = _Pool(_new_pool(address, self._max_connections))
        entry.users += 1
        # The last of the dictionary is the one used last.
        self._pools[address] = entry
        await entry.pool
        return entry

    async def _evict(self) -> None:
        idle = [address for address, entry in self._pools.items() if entry.users == 0]
        for address in idle[: max(0, len(self._pools) - self._max_pools)]:
            await _closed(self._pools.pop(address).pool)


def _new_pool(address: Address, max_connections: int) -> Any:
    return asyncpg.create_pool(
        **dict(address.arguments),
        min_size=0,
        max_size=max_connections,
        max_inactive_connection_lifetime=IDLE_S,
        # Nothing is prepared for longer than a job: tables change under a worker, and a proxy may be in between.
        statement_cache_size=0,
        timeout=CONNECT_S,
        server_settings={**SESSION, **dict(address.settings)},
        connection_class=Session,
        init=prepare_connection,
    )


async def _acquired(pool: Any, wait_s: float) -> Connection:
    """Return a connection that answers; those that died while they lay idle are left to the pool."""
    try:
        async with asyncio.timeout(wait_s):
            while True:
                connection = await pool.acquire()
                if await _answers(pool, connection):
                    return connection
    except TimeoutError:
        raise NoConnectionError(f"no connection to the database within {wait_s:g} s") from None


async def _answers(pool: Any, connection: Connection) -> bool:
    try:
        await connection.execute("SELECT 1")
    except BaseException as problem:
        _cut(connection)
        await _given_back(pool, connection)
        if isinstance(problem, DRIVER_ERRORS):
            return False
        raise
    return True


async def _given_back(pool: Any, connection: Connection) -> None:
    # One that does not let itself be cleaned is cut by the pool, which opens another when asked.
    with suppress(*DRIVER_ERRORS):
        await pool.release(connection, timeout=CLEAN_UP_S)


async def _closed_if_idle(entry: _Pool) -> None:
    if entry.is_retired and entry.users == 0:
        await _closed(entry.pool)


async def _closed(pool: Any) -> None:
    try:
        async with asyncio.timeout(CLEAN_UP_S):
            await pool.close()
    except DRIVER_ERRORS:
        pool.terminate()


def job_settings(job_id: str, execution_id: str, statement_s: float | None, verb: str = "SET LOCAL") -> str:
    """Return what makes a job known to the server and to SQL, and keeps a statement from outliving it."""
    settings = {
        "application_name": f"redrive {job_id}",
        "redrive.job_id": job_id,
        "redrive.execution_id": execution_id,
        "idle_in_transaction_session_timeout": str(IDLE_IN_TRANSACTION_MS),
    }
    if statement_s is not None:
        settings["statement_timeout"] = str(max(1, int(statement_s * 1000)))
    return "; ".join(f"{verb} {name} = {_literal(value)}" for name, value in settings.items())


def _literal(text: str) -> str:
    return "'" + text.replace("'", "''").replace("\\", "") + "'"


@asynccontextmanager
async def transaction(connection: Connection, first: str = "") -> AsyncIterator[None]:
    """Begin, and commit at the end or roll back; once the commit is on its way, it is waited for, even if cancelled."""
    await connection.execute(f"BEGIN; {first}")
    try:
        yield
    except BaseException:
        await roll_back(connection)
        raise
    await _commit(connection)


async def roll_back(connection: Connection) -> None:
    """End the transaction without a trace; a connection that does not answer is cut, which has the same effect."""
    try:
        async with asyncio.timeout(CLEAN_UP_S):
            await connection.execute("ROLLBACK")
    except DRIVER_ERRORS:
        _cut(connection)
    except asyncio.CancelledError:
        _cut(connection)
        raise


async def _commit(connection: Connection) -> None:
    commit = asyncio.ensure_future(connection.execute("COMMIT"))
    try:
        try:
            await asyncio.shield(commit)
        except asyncio.CancelledError:
            # Whether it is there must be known: a commit that is cancelled may be there all the same.
            await asyncio.wait_for(commit, COMMIT_S)
    except DRIVER_ERRORS as problem:
        if _is_gone(connection) or isinstance(problem, TimeoutError):
            _cut(connection)
            raise CommitUnknownError from problem
        raise


def _is_gone(connection: Connection) -> bool:
    try:
        return bool(connection.is_closed())
    except asyncpg.InterfaceError:
        # The pool takes back at once what has been closed.
        return True


def _cut(connection: Connection) -> None:
    with suppress(asyncpg.InterfaceError):
        connection.terminate()
