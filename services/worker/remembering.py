"""Values that are asked for once and then remembered for a while."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Hashable
from typing import Generic, TypeVar

from shared.runtime.clock import Clock

K = TypeVar("K", bound=Hashable)
T = TypeVar("T")
LIMIT = 1000


class Remembered(Generic[K, T]):
    """Values by key, each for its own time, the least recently used forgotten first."""

    def __init__(self, clock: Clock, limit: int = LIMIT) -> None:
        self._clock = clock
        self._limit = limit
        self._values: OrderedDict[K, tuple[float, T]] = OrderedDict()
        self._asking: dict[K, asyncio.Task[T]] = {}

    async def get(self, key: K, ask: Callable[[], Awaitable[tuple[T, float]]]) -> T:
        """Return a value; if it is not remembered, ask for it and for how many seconds it may be.

        Whoever comes meanwhile waits for the same answer.
        """
        found = self._values.get(key)
        if found is not None and self._clock.monotonic() < found[0]:
            self._values.move_to_end(key)
            return found[1]
        task = self._asking.get(key)
        if task is None:
            task = asyncio.create_task(self._ask(key, ask))
            task.add_done_callback(_seen)
            self._asking[key] = task
        # One that gives up does not take the answer from the others.
        return await asyncio.shield(task)

    def peek(self, key: K) -> T | None:
        """Return a value if it is remembered, however old."""
        found = self._values.get(key)
        return None if found is None else found[1]

    def forget(self, key: K) -> None:
        """Forget a value."""
        self._values.pop(key, None)

    async def close(self) -> None:
        """Forget everything and ask for nothing any more."""
        self._values.clear()
        tasks = list(self._asking.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _ask(self, key: K, ask: Callable[[], Awaitable[tuple[T, float]]]) -> T:
        began = self._clock.monotonic()
        try:
            value, keep_s = await ask()
        finally:
            self._asking.pop(key, None)
        now = self._clock.monotonic()
        for old in [name for name, (until, _) in self._values.items() if until <= now]:
            del self._values[old]
        self._values[key] = (began + keep_s, value)
        self._values.move_to_end(key)
        while len(self._values) > self._limit:
            self._values.popitem(last=False)
        return value


def _seen(task: asyncio.Task[T]) -> None:
    """Look at how asking ended, so that nobody complains when all who waited have gone."""
    if not task.cancelled():
        task.exception()
