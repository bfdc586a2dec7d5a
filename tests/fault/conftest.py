"""Servers for the tests of a module; each test starts the services it needs."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.system import System, running_system


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[System]:
    """Give a part of its own of the servers; nothing runs on them yet."""
    with running_system(tmp_path_factory.mktemp("system")) as found:
        yield found


@pytest.fixture
def system(servers: System) -> Iterator[System]:
    """Give the servers to one test and end its services afterwards."""
    yield servers
    servers.end_services()
