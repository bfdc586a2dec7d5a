"""What every part of the Postgres store stands on: an engine, and two ways to a connection of its pool."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from typing import Any, TypeAlias

from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from shared.store.connecting import translated

# asyncpg has no types of its own.
Driver: TypeAlias = Any


class Connected:
    """Holds the engine."""

    def __init__(self, engine: AsyncEngine) -> None:
        self._engine = engine

    @asynccontextmanager
    async def _transaction(self) -> AsyncIterator[AsyncConnection]:
        """Give a connection with a transaction, for statements of SQLAlchemy; driver errors are translated."""
        with translated():
            async with self._engine.begin() as connection:
                yield connection

    @asynccontextmanager
    async def _driver(self) -> AsyncIterator[Driver]:
        """Give the driver's own connection, each statement a transaction; errors are left to the caller."""
        with translated():
            connection = await self._engine.connect()
        try:
            with translated():
                driver: Driver = (await connection.get_raw_connection()).driver_connection
            try:
                yield driver
            finally:
                if driver.is_closed():
                    await connection.invalidate()
        finally:
            # A connection that is given back half-way through a cancellation would be lost to the pool.
            await asyncio.shield(connection.close())


def columns(rows: Iterable[Sequence[Any]], width: int) -> list[Sequence[Any]]:
    """Return the columns of rows, as many as a statement has parameters even where there are no rows."""
    found: list[Sequence[Any]] = list(zip(*rows, strict=True))
    return found or [()] * width


def count_of(status: str) -> int:
    """Return how many rows a statement touched, from what the server said of it."""
    return int(status.rpartition(" ")[2])
