"""One system, one database and one broker for all pages."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.rabbit import Room
from tests.support.standing import Standing, shop_database, standing_system


@pytest.fixture(scope="session")
def system() -> Iterator[Standing]:
    """Give a system that stays up."""
    with standing_system() as found:
        yield found


@pytest.fixture(scope="session")
def database() -> Iterator[str]:
    """Give the address of a database that playbooks may use."""
    with shop_database() as url:
        yield url


@pytest.fixture(scope="session")
def broker() -> Room:
    """Give a broker that playbooks may publish to."""
    return Room()
