"""Migrations: from nothing to the newest tables and back, from several places at once."""

from __future__ import annotations

import asyncio
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection

from shared.errors import RejectedError, UnavailableError
from shared.store.connecting import create_plain_engine
from shared.store.migrate import current, downgrade, migration_config, upgrade
from shared.store.postgres.store import PostgresStore
from shared.store.tables import metadata
from tests.support.postgres import execute, fetch
from tests.support.repository import ROOT
from tests.support.storing import apply_all, created, new_execution, signal

pytest_plugins = ("tests.support.stores",)

PARTITION = re.compile(r"event_(default|p\d{4}_\d{2})")
TABLES = "SELECT tablename FROM pg_tables WHERE schemaname = 'redrive' ORDER BY 1"
PARTITIONS = (
    "SELECT inhrelid::regclass::text AS name FROM pg_inherits WHERE inhparent = 'redrive.event'::regclass ORDER BY 1"
)


async def test_an_empty_database_is_brought_to_the_newest_revision(empty_database: str) -> None:
    assert await current(empty_database) is None

    await upgrade(empty_database)

    newest = ScriptDirectory.from_config(migration_config()).get_current_head()
    assert await current(empty_database) == newest
    names = {row["tablename"] for row in await fetch(empty_database, TABLES)}
    assert {table.name for table in metadata.tables.values()} <= names


async def test_upgrading_again_changes_nothing(database: str) -> None:
    before = await fetch(database, TABLES)

    await upgrade(database)

    assert await fetch(database, TABLES) == before


async def test_nothing_is_left_after_the_way_back(empty_database: str) -> None:
    everything = "SELECT count(*) FROM pg_class AS c JOIN pg_namespace AS s ON s.oid = c.relnamespace"
    (before,) = await fetch(empty_database, everything)
    await upgrade(empty_database)

    await downgrade(empty_database)

    assert await current(empty_database) is None
    assert await fetch(empty_database, everything) == [before]
    assert await fetch(empty_database, "SELECT FROM pg_namespace WHERE nspname = 'redrive'") == []
    await upgrade(empty_database)
    assert await current(empty_database) is not None


async def test_several_who_migrate_at_once_do_it_once(empty_database: str) -> None:
    await asyncio.gather(*(upgrade(empty_database) for _ in range(5)))

    assert len(await fetch(empty_database, "SELECT version_num FROM redrive.alembic_version")) == 1


async def test_the_tables_of_the_code_are_those_of_the_migrations(database: str) -> None:
    def differences(connection: Connection) -> list[object]:
        context = MigrationContext.configure(
            connection,
            opts={"version_table_schema": "redrive", "include_schemas": True, "compare_server_default": True},
        )
        context.opts["include_name"] = lambda name, kind, _: (
            not ((kind == "schema" and name != "redrive") or (kind == "table" and PARTITION.fullmatch(name or "")))
        )
        return list(compare_metadata(context, metadata))

    engine = create_plain_engine(database)
    async with engine.connect() as connection:
        found = await connection.run_sync(differences)
    await engine.dispose()

    assert found == []


async def test_every_revision_can_be_undone_and_done_again(empty_database: str) -> None:
    revisions = [item.revision for item in ScriptDirectory.from_config(migration_config()).walk_revisions()][::-1]

    for revision in revisions:
        await upgrade(empty_database, revision)
        await downgrade(empty_database, "-1")
        await upgrade(empty_database, revision)

    assert await current(empty_database) == revisions[-1]


async def test_partitions_are_made_ahead_and_take_the_events_of_their_month(database: str) -> None:
    store = PostgresStore.connect(database)
    before = len(await fetch(database, PARTITIONS))

    await asyncio.gather(*(store.prepare(12) for _ in range(3)))
    execution = await created(store)
    await store.append_facts([signal(execution)])

    names = [row["name"] for row in await fetch(database, PARTITIONS)]
    assert before == 5
    assert len(names) == 14
    assert await fetch(database, "SELECT FROM redrive.event_default") == []
    assert len((await apply_all(store, execution))[execution]) == 2
    await store.close()


async def test_events_of_a_month_without_a_partition_go_to_the_default_and_stay_there(database: str) -> None:
    store = PostgresStore.connect(database)
    execution = await created(store)
    await execute(database, "UPDATE redrive.execution SET bucket = bucket + interval '6 months'")

    await store.append_facts([signal(execution)])
    await store.prepare(12)

    assert len(await fetch(database, "SELECT FROM redrive.event_default")) == 1
    assert len(await fetch(database, PARTITIONS)) == 13
    await store.close()


async def test_a_month_can_be_detached_while_work_goes_on(database: str) -> None:
    store = PostgresStore.connect(database)
    old = new_execution()
    await store.create_executions([old])
    name = (await fetch(database, "SELECT tableoid::regclass::text AS name FROM redrive.event"))[0]["name"]

    await execute(database, f"ALTER TABLE redrive.event DETACH PARTITION {name}")

    assert len(await fetch(database, f"SELECT FROM {name}")) == 1
    assert await store.events(old.execution_id) == []
    await store.close()


async def test_a_store_over_a_database_that_was_not_migrated_says_so(empty_database: str) -> None:
    store = PostgresStore.connect(empty_database)

    with pytest.raises(UnavailableError):
        await store.ping()

    await store.close()


async def test_a_database_that_is_not_there_is_unavailable() -> None:
    with pytest.raises(UnavailableError):
        await upgrade("postgresql://nobody@127.0.0.1:1/none")


@pytest.mark.parametrize("url", ["", "sqlite:///x.db", "mysql://a/b", "postgresql+psycopg://a/b"])
async def test_only_postgres_is_taken(url: str) -> None:
    with pytest.raises(RejectedError):
        await upgrade(url)


def test_the_command_line_of_alembic_finds_the_migrations(empty_database: str) -> None:
    alembic = Path(sys.executable).with_name("alembic")
    environment = {**os.environ, "REDRIVE_DATABASE_URL": empty_database, "PYTHONPATH": str(ROOT)}

    for command in (["upgrade", "head"], ["check"], ["downgrade", "base"]):
        done = subprocess.run(
            [alembic, *command], cwd=ROOT, env=environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
