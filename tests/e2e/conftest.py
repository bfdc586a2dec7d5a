"""One system for the tests of a module: two servers, and as many services as the module asks for."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.system import System, running_system


@pytest.fixture(scope="module")
def system(tmp_path_factory: pytest.TempPathFactory) -> Iterator[System]:
    """Give a system with two ingests, two orchestrators and three workers."""
    folder: Path = tmp_path_factory.mktemp("system")
    with running_system(folder) as found:
        found.start_all(ingests=2, orchestrators=2, workers=3)
        yield found
