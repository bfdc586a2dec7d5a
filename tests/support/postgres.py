"""A private Postgres for tests, and fresh databases in it; the fixtures are in `stores`."""

from __future__ import annotations

import asyncio
import atexit
import os
import shutil
import tempfile
from collections.abc import Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from functools import cache
from pathlib import Path
from typing import Any, TypeVar
from uuid import uuid4

import asyncpg

from shared.runtime.embedded import PrivatePostgres
from shared.store.connecting import driver_url
from shared.store.migrate import upgrade

T = TypeVar("T")
TEMPLATE = "migrated"
SETTINGS = {"shared_buffers": "32MB", "max_connections": "200", "max_wal_size": "128MB", "min_wal_size": "32MB"}
MEMORY = Path("/dev/shm")
NEEDED_BYTES = 2**30


def finished(work: Coroutine[Any, Any, T]) -> T:
    """Return what a coroutine returns, run on a loop of its own, whatever loop the test has."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(asyncio.run, work).result()


def make_folder() -> Path:
    """Return an empty folder that a server's own user can enter."""
    folder = Path(tempfile.mkdtemp(prefix="redrive-tests-", dir=_quick_place()))
    folder.chmod(0o755)
    return folder


def _quick_place() -> Path | None:
    """Return a folder in memory, where copying a database takes a tenth of the time, if there is one with room."""
    if os.access(MEMORY, os.W_OK) and shutil.disk_usage(MEMORY).free > NEEDED_BYTES:
        return MEMORY
    return None


@contextmanager
def private_server() -> Iterator[PrivatePostgres]:
    """Give a running server; its data survives a crash of the server, not of the machine."""
    folder = make_folder()
    server = PrivatePostgres(folder, durable=False, settings=SETTINGS)
    server.start()
    try:
        yield server
    finally:
        server.stop()
        shutil.rmtree(folder)


@contextmanager
def private_database(server: PrivatePostgres, template: str = "template1") -> Iterator[str]:
    """Give the URL of a new database, a copy of another one, and drop it in the end."""
    name = f"test_{uuid4().hex}"
    finished(execute(server.url(), f'CREATE DATABASE "{name}" TEMPLATE "{template}"'))
    try:
        yield server.url(name)
    finally:
        if server.is_running:
            finished(execute(server.url(), f'DROP DATABASE "{name}" WITH (FORCE)'))


@cache
def shared_server() -> PrivatePostgres:
    """Return the server that the tests of this process have in common, started at first use and ended with it."""
    ending = ExitStack()
    atexit.register(ending.close)
    return ending.enter_context(private_server())


@cache
def migrated_template(server: PrivatePostgres) -> str:
    """Make a migrated database to copy, once for each server, and return its name."""
    finished(execute(server.url(), f'CREATE DATABASE "{TEMPLATE}"'))
    finished(upgrade(server.url(TEMPLATE)))
    return TEMPLATE


async def execute(url: str, statement: str, *values: Any) -> None:
    """Run one statement on a connection of its own."""
    connection = await connect(url)
    try:
        await connection.execute(statement, *values)
    finally:
        await connection.close()


async def fetch(url: str, query: str, *values: Any) -> list[Any]:
    """Return the rows of a query, on a connection of its own."""
    connection = await connect(url)
    try:
        return list(await connection.fetch(query, *values))
    finally:
        await connection.close()


async def connect(url: str) -> Any:
    """Return a plain connection."""
    found = driver_url(url)
    return await asyncpg.connect(
        host=found.query["host"], port=found.port, user=found.username, database=found.database
    )
