"""Connections: how a URL is read, how an engine is set up, and what a driver's error means for the caller."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import asyncpg
from sqlalchemy import URL, event, make_url
from sqlalchemy.exc import ArgumentError, DBAPIError, DisconnectionError, SQLAlchemyError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine
from sqlalchemy.pool import NullPool

from shared.errors import ConflictError, RedriveError, RejectedError, UnavailableError
from shared.store.encoding import json_text

# Classes of SQLSTATE, or whole codes, by what the caller should do.
_CONFLICT = ("40", "55P03", "23505")
_REJECTED = ("22", "54", "23")
# Every name is written with its schema. A role called like the schema would otherwise hide it from alembic.
_SEARCH_PATH = "pg_catalog"
_DRIVERS = ("postgresql", "postgres", "postgresql+asyncpg")


@dataclass(frozen=True, slots=True)
class Limits:
    """How much of the server one process takes, and how long it waits."""

    pool_size: int = 10
    pool_wait_s: float = 30.0
    connect_s: float = 10.0
    statement_s: float = 30.0
    lock_s: float = 10.0
    idle_in_transaction_s: float = 60.0


def driver_url(url: str) -> URL:
    """Return a Postgres URL for the driver; raise RejectedError for any other."""
    try:
        parsed = make_url(url)
    except ArgumentError:
        raise RejectedError("the database's URL cannot be read; it looks like postgresql://user@host/name") from None
    if parsed.drivername not in _DRIVERS:
        raise RejectedError(f"only Postgres is supported, not {parsed.drivername}")
    return parsed.set(drivername="postgresql+asyncpg")


def create_engine(url: str, limits: Limits, application: str) -> AsyncEngine:
    """Return an engine with a bounded pool, timeouts on the server, and no connection that is known to be dead."""
    settings = {
        "application_name": application,
        "search_path": _SEARCH_PATH,
        "statement_timeout": _ms(limits.statement_s),
        "lock_timeout": _ms(limits.lock_s),
        "idle_in_transaction_session_timeout": _ms(limits.idle_in_transaction_s),
        "timezone": "UTC",
        "jit": "off",
        # Every statement finds its rows by key or in the order of an index, however many there are. The planner, which
        # goes by statistics, would read whole tables while they are small and keep that plan while they grow.
        "plan_cache_mode": "force_generic_plan",
        "enable_seqscan": "off",
        "enable_hashjoin": "off",
        "enable_mergejoin": "off",
    }
    engine = create_async_engine(
        driver_url(url),
        pool_size=limits.pool_size,
        max_overflow=0,
        pool_timeout=limits.pool_wait_s,
        json_serializer=lambda value: json_text(value, "value"),
        json_deserializer=json.loads,
        connect_args={
            "timeout": limits.connect_s,
            "command_timeout": limits.statement_s + limits.lock_s,
            "server_settings": settings,
        },
    )
    event.listen(engine.sync_engine.pool, "checkout", _refuse_closed)
    return engine


def create_plain_engine(url: str) -> AsyncEngine:
    """Return an engine for migrations: no pool, no timeouts."""
    return create_async_engine(
        driver_url(url), poolclass=NullPool, connect_args={"server_settings": {"search_path": _SEARCH_PATH}}
    )


def _ms(seconds: float) -> str:
    return str(int(seconds * 1000))


def _refuse_closed(connection: Any, record: Any, proxy: Any) -> None:
    """Make the pool open another connection when this one ended while it lay idle."""
    if connection.driver_connection.is_closed():
        raise DisconnectionError


@contextmanager
def translated() -> Iterator[None]:
    """Raise what went wrong in a driver as an error that says what to do."""
    try:
        yield
    except RedriveError:
        raise
    except Exception as problem:
        meaning = meaning_of(problem)
        if meaning is None:
            raise
        raise meaning from problem


def meaning_of(problem: BaseException) -> RedriveError | None:
    """Return what a driver's error means; nothing, if it is none."""
    cause: BaseException = problem
    if isinstance(problem, PoolTimeoutError):
        return UnavailableError("no database connection became free in time")
    if isinstance(problem, DBAPIError) and problem.orig is not None:
        cause = problem.orig.__cause__ or problem.orig
    if isinstance(cause, asyncpg.DataError) or (isinstance(problem, DBAPIError) and isinstance(cause, RejectedError)):
        return RejectedError(f"a value cannot be stored: {cause}")
    code = getattr(cause, "sqlstate", None)
    if isinstance(code, str):
        return _meaning_of_code(code, cause)
    if isinstance(cause, OSError | asyncio.TimeoutError | asyncpg.InterfaceError | asyncpg.InternalClientError):
        return UnavailableError(f"the database cannot be reached: {cause or type(cause).__name__}")
    if isinstance(cause, SQLAlchemyError):
        return UnavailableError(f"the database did not answer: {cause}")
    return None


def _meaning_of_code(code: str, cause: BaseException) -> RedriveError:
    if code.startswith(_CONFLICT):
        return ConflictError(f"someone else moved first: {cause}")
    if code.startswith(_REJECTED):
        return RejectedError(f"a value cannot be stored: {cause}")
    return UnavailableError(f"the database cannot do this now ({code}): {cause}")
