"""Migrations by program: upgrade, downgrade, say where a database stands; several may run at once."""

from __future__ import annotations

from collections.abc import Callable

from alembic.config import Config
from alembic.migration import MigrationContext
from sqlalchemy import Connection, text

from alembic import command
from shared.store.connecting import create_plain_engine, translated
from shared.store.migrations_place import migrations_folder
from shared.store.tables import SCHEMA

_LOCK = 7_305_421_876_001


async def upgrade(url: str, revision: str = "head") -> None:
    """Bring a database to a revision, the newest unless one is named, in one transaction."""
    await _run(url, lambda config: command.upgrade(config, revision))


async def downgrade(url: str, revision: str = "base") -> None:
    """Take a database back to a revision; at the base nothing of ours is left."""
    await _run(url, lambda config: command.downgrade(config, revision))
    if revision == "base":
        await _run(url, None)


async def current(url: str) -> str | None:
    """Return the revision of a database; nothing, if it is empty."""
    engine = create_plain_engine(url)
    try:
        with translated():
            async with engine.connect() as connection:
                return await connection.run_sync(_revision)
    finally:
        await engine.dispose()


def migration_config() -> Config:
    """Return alembic's configuration, with the place of the migrations."""
    config = Config()
    config.set_main_option("script_location", str(migrations_folder()).replace("%", "%%"))
    return config


async def _run(url: str, work: Callable[[Config], None] | None) -> None:
    engine = create_plain_engine(url)
    try:
        with translated():
            async with engine.begin() as connection:
                await connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": _LOCK})
                await connection.run_sync(_migrate, work)
    finally:
        await engine.dispose()


def _migrate(connection: Connection, work: Callable[[Config], None] | None) -> None:
    if work is None:
        _leave(connection)
        return
    connection.execute(text(f"CREATE SCHEMA IF NOT EXISTS {SCHEMA}"))
    config = migration_config()
    config.attributes["connection"] = connection
    work(config)


def _leave(connection: Connection) -> None:
    if _revision(connection) is None:
        connection.execute(text(f"DROP TABLE IF EXISTS {SCHEMA}.alembic_version"))
        connection.execute(text(f"DROP SCHEMA IF EXISTS {SCHEMA}"))


def _revision(connection: Connection) -> str | None:
    return MigrationContext.configure(connection, opts={"version_table_schema": SCHEMA}).get_current_revision()
