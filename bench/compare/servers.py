"""The servers that a peer runs on: a durable private Postgres and a private RabbitMQ, like those Redrive gets."""

from __future__ import annotations

import asyncio
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch

from shared.runtime.embedded import ADMIN, PrivatePostgres
from tests.support.postgres import connect, execute, fetch
from tests.support.rabbit import RabbitNode, new_node
from tests.support.system import free_port

LOOK_EVERY_S = 0.025
MACHINE_PROGRAMS = "usr/lib/postgresql/*/bin"


@dataclass(frozen=True, slots=True)
class Servers:
    """What a peer is given to run on."""

    postgres: PrivatePostgres
    port: int
    folder: Path

    def make_database(self, name: str) -> Database:
        """Make a database."""
        main = self.postgres.url().replace(":5432/", f":{self.port}/")
        asyncio.run(execute(main, f'CREATE DATABASE "{name}"'))
        return Database(self.postgres.url(name).replace(":5432/", f":{self.port}/"), self.port, name)


@dataclass(frozen=True, slots=True)
class Database:
    """One database of the private Postgres, and what it has to say."""

    url: str
    port: int
    name: str

    def address(self, driver: str, *, tcp: bool = False) -> str:
        """Return where a client of the peer finds it: by its socket, or by the loopback if a client knows no other."""
        if tcp:
            return f"{driver}://{ADMIN}@127.0.0.1:{self.port}/{self.name}"
        return self.url.replace("postgresql+asyncpg", driver, 1)

    def rows(self, query: str, *values: Any) -> list[Any]:
        """Return the rows of a query."""
        return asyncio.run(fetch(self.url, query, *values))

    def await_count(self, query: str, wanted: int, within_s: float, *values: Any) -> int:
        """Return what a query counts, once it is as much as wanted or the time is up."""
        return await_count(self.url, query, wanted, within_s, *values)

    def has_table(self, name: str) -> bool:
        """Say whether a table was made yet."""
        return bool(self.rows("SELECT to_regclass($1) IS NOT NULL", name)[0][0])


@contextmanager
def servers() -> Iterator[Servers]:
    """Give a Postgres of one's own, its data on the disk; it is ended and removed afterwards."""
    folder = Path(tempfile.mkdtemp(prefix="redrive-bench-"))
    folder.chmod(0o755)
    port = free_port()
    settings = {"listen_addresses": "127.0.0.1", "port": str(port)}
    postgres = PrivatePostgres(folder / "postgres", durable=True, settings=settings)
    try:
        postgres.start()
        yield Servers(postgres, port, folder)
    finally:
        postgres.stop()
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def broker() -> Iterator[RabbitNode]:
    """Give a RabbitMQ of one's own; it is ended and removed afterwards."""
    node = new_node()
    try:
        yield node
    finally:
        node.remove()


def wipe(node: RabbitNode) -> None:
    """Kill RabbitMQ, delete its data and start it again."""
    node.kill()
    node.wipe()
    node.start()


def programs_with_trigrams() -> Path | None:
    """Return the programs of a Postgres on this machine that has pg_trgm, the newest; the wheel's has not."""
    found = sorted(Path("/").glob(MACHINE_PROGRAMS), key=lambda each: float(each.parent.name), reverse=True)
    for programs in found:
        if (programs / "postgres").exists() and (_share(programs) / "extension" / "pg_trgm.control").exists():
            return programs
    return None


@contextmanager
def postgres_from(programs: Path | None) -> Iterator[None]:
    """Let every private Postgres be made of these programs, so that all peers and Redrive get the same server."""
    if programs is None:
        yield
        return
    with patch("shared.runtime.embedded._usable_binaries", lambda _: programs):
        yield


def await_count(url: str, query: str, wanted: int, within_s: float, *values: Any) -> int:
    """Return what a query counts, once it is as much as wanted or the time is up."""
    return asyncio.run(_await_count(url, query, wanted, within_s, values))


async def _await_count(url: str, query: str, wanted: int, within_s: float, values: tuple[Any, ...]) -> int:
    deadline = time.monotonic() + within_s
    connection = await connect(url)
    try:
        while True:
            found = int(await connection.fetchval(query, *values))
            if found >= wanted or time.monotonic() > deadline:
                return found
            await asyncio.sleep(LOOK_EVERY_S)
    finally:
        await connection.close()


def _share(programs: Path) -> Path:
    said = subprocess.run([str(programs / "pg_config"), "--sharedir"], capture_output=True, text=True, check=False)
    return Path(said.stdout.strip() or programs.parent / "share")
