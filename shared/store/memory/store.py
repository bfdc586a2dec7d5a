"""The store in memory, put together."""

from __future__ import annotations

from datetime import datetime

from typing_extensions import override

from shared.store.memory.credentials import MemoryCredentials
from shared.store.memory.dead_letters import MemoryDeadLetters
from shared.store.memory.deciding import MemoryWriting
from shared.store.memory.playbooks import MemoryPlaybooks
from shared.store.memory.reading import MemoryReading
from shared.store.memory.sweeping import MemorySweeping
from shared.store.port import Store


class MemoryStore(
    MemoryPlaybooks, MemoryWriting, MemorySweeping, MemoryReading, MemoryCredentials, MemoryDeadLetters, Store
):
    """Everything that is kept, for as long as the process lives; it is told the time by whoever makes it."""

    @override
    async def ping(self) -> None:
        return None

    @override
    async def now(self) -> datetime:
        return self._now()

    @override
    async def prepare(self, months_ahead: int = 3) -> None:
        return None

    @override
    async def close(self) -> None:
        return None
