"""Time as a port: the system's clock, and one that a test moves."""

from __future__ import annotations

import asyncio
import heapq
import time
from abc import ABC, abstractmethod
from datetime import UTC, datetime, timedelta
from itertools import count

from typing_extensions import override

# A task that wakes another that wakes another: as many steps as that chain may be long within one moment.
_STEPS_OF_A_MOMENT = 20


class Clock(ABC):
    """Tells the time and waits for it."""

    @abstractmethod
    def now(self) -> datetime:
        """Return the time of day, in UTC."""

    @abstractmethod
    def monotonic(self) -> float:
        """Return seconds that only ever grow, for measuring spans."""

    @abstractmethod
    async def sleep(self, seconds: float) -> None:
        """Return when that many seconds have passed, never earlier."""


class SystemClock(Clock):
    """The clock of the machine."""

    @override
    def now(self) -> datetime:
        return datetime.now(UTC)

    @override
    def monotonic(self) -> float:
        return time.monotonic()

    @override
    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


class ManualClock(Clock):
    """A clock that stands still until a test moves it."""

    def __init__(self, start: datetime = datetime(2024, 1, 1, tzinfo=UTC)) -> None:
        self._start = start
        self._elapsed_s = 0.0
        self._sleepers: list[tuple[float, int, asyncio.Future[None]]] = []
        self._order = count()

    @override
    def now(self) -> datetime:
        return self._start + timedelta(seconds=self._elapsed_s)

    @override
    def monotonic(self) -> float:
        return self._elapsed_s

    @override
    async def sleep(self, seconds: float) -> None:
        if seconds <= 0:
            await asyncio.sleep(0)
            return
        awake = asyncio.get_running_loop().create_future()
        heapq.heappush(self._sleepers, (self._elapsed_s + seconds, next(self._order), awake))
        await awake

    async def advance(self, seconds: float) -> None:
        """Move on, waking each sleeper at its own moment and letting it act before time goes on."""
        end = self._elapsed_s + seconds
        await _let_others_act()
        while self._sleepers and self._sleepers[0][0] <= end:
            due, _, awake = heapq.heappop(self._sleepers)
            if awake.done():
                continue
            self._elapsed_s = due
            awake.set_result(None)
            await _let_others_act()
        self._elapsed_s = end
        await _let_others_act()


async def _let_others_act() -> None:
    for _ in range(_STEPS_OF_A_MOMENT):
        await asyncio.sleep(0)
