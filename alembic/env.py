"""How alembic reaches the database: over a connection it is handed, or over REDRIVE_DATABASE_URL."""

import asyncio
import os
import re

from sqlalchemy import Connection

from alembic import context
from shared.store.connecting import create_plain_engine
from shared.store.tables import SCHEMA, metadata

PARTITION = re.compile(r"event_(default|p\d{4}_\d{2})")


def is_ours(name: str | None, kind: str, parents: dict[str, str | None]) -> bool:
    """Say whether alembic looks after a thing: our schema, without the partitions that come and go by month."""
    if kind == "schema":
        return name == SCHEMA
    return not (kind == "table" and name is not None and PARTITION.fullmatch(name))


def migrate(connection: Connection) -> None:
    """Run the migrations that were asked for."""
    context.configure(
        connection=connection,
        target_metadata=metadata,
        version_table_schema=SCHEMA,
        include_schemas=True,
        include_name=is_ours,
        compare_server_default=True,
    )
    with context.begin_transaction():
        context.run_migrations()


async def connect_and_migrate() -> None:
    """Run the migrations on a connection of our own, for the command line of alembic."""
    engine = create_plain_engine(os.environ["REDRIVE_DATABASE_URL"])
    async with engine.begin() as connection:
        await connection.exec_driver_sql(f"CREATE SCHEMA IF NOT EXISTS {SCHEMA}")
        await connection.run_sync(migrate)
    await engine.dispose()


given = context.config.attributes.get("connection")
if given is not None:
    migrate(given)
else:
    asyncio.run(connect_and_migrate())
