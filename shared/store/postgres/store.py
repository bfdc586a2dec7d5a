"""The store on Postgres, put together."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import text
from typing_extensions import override

from shared.store.connecting import Limits, create_engine
from shared.store.port import Store
from shared.store.postgres.credentials import PostgresCredentials
from shared.store.postgres.dead_letters import PostgresDeadLetters
from shared.store.postgres.deciding import PostgresWriting
from shared.store.postgres.playbooks import PostgresPlaybooks
from shared.store.postgres.reading import PostgresReading
from shared.store.postgres.sweeping import PostgresSweeping


class PostgresStore(
    PostgresPlaybooks,
    PostgresWriting,
    PostgresSweeping,
    PostgresReading,
    PostgresCredentials,
    PostgresDeadLetters,
    Store,
):
    """Everything that is kept, in one database."""

    @classmethod
    def connect(cls, url: str, *, limits: Limits | None = None, application: str = "redrive") -> PostgresStore:
        """Return a store for a database that was migrated; connections are opened as they are needed."""
        return cls(create_engine(url, limits or Limits(), application))

    @override
    async def ping(self) -> None:
        async with self._transaction() as connection:
            await connection.execute(text("SELECT version_num FROM redrive.alembic_version"))

    @override
    async def now(self) -> datetime:
        async with self._transaction() as connection:
            found: datetime = (await connection.execute(text("SELECT clock_timestamp()"))).scalar_one()
            return found

    @override
    async def prepare(self, months_ahead: int = 3) -> None:
        async with self._transaction() as connection:
            await connection.execute(text("SELECT redrive.make_event_partitions(:months)"), {"months": months_ahead})

    @override
    async def close(self) -> None:
        await self._engine.dispose()
