"""The service that most tests of ingest ask."""

from collections.abc import AsyncIterator

import pytest

from tests.unit.ingest.service import Service, serving


@pytest.fixture
async def service() -> AsyncIterator[Service]:
    async with serving() as service:
        yield service
