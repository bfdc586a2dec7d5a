"""Fixtures: one server for each test process, migrated once; a fresh copy, and a store of each kind, for each test.

A test module asks for them with `pytest_plugins = ("tests.support.stores",)`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import pytest

from shared.runtime.embedded import PrivatePostgres
from shared.store.memory.store import MemoryStore
from shared.store.port import Store
from shared.store.postgres.store import PostgresStore
from tests.support import postgres
from tests.support.storing import TickingClock


@pytest.fixture(scope="session")
def postgres_server() -> PrivatePostgres:
    """Give a running server that all tests of this process share."""
    return postgres.shared_server()


@pytest.fixture(scope="session")
def migrated_template(postgres_server: PrivatePostgres) -> str:
    """Return the name of a migrated database to copy."""
    return postgres.migrated_template(postgres_server)


@pytest.fixture
def empty_database(postgres_server: PrivatePostgres) -> Iterator[str]:
    """Give the URL of a database in which nothing is."""
    with postgres.private_database(postgres_server) as url:
        yield url


@pytest.fixture
def database(postgres_server: PrivatePostgres, migrated_template: str) -> Iterator[str]:
    """Give the URL of a migrated database of the test's own."""
    with postgres.private_database(postgres_server, migrated_template) as url:
        yield url


@pytest.fixture(params=["memory", "postgres"])
async def store(request: pytest.FixtureRequest) -> AsyncIterator[Store]:
    """Give a store of each kind, with nothing in it."""
    found: Store = MemoryStore(TickingClock())
    if request.param == "postgres":
        found = PostgresStore.connect(request.getfixturevalue("database"))
    yield found
    await found.close()
