"""Turns at files: one job of this process at a time, in a thread that is never left behind."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")


class StoppedError(Exception):
    """Nobody waits for the work any more."""


class Stop:
    """Tells work in a thread that it should end, and wakes what it waits for."""

    def __init__(self) -> None:
        self._asked = threading.Event()
        self._wake: Callable[[], object] | None = None

    def ask(self) -> None:
        """Ask the work to end."""
        self._asked.set()
        wake = self._wake
        if wake is not None:
            # It may have ended in this moment, and then there is nothing to wake.
            with suppress(Exception):
                wake()

    def wakes(self, wake: Callable[[], object]) -> None:
        """Call this when the work is asked to end, because it may be inside of something long."""
        self._wake = wake
        self.check()

    def wakes_nothing(self) -> None:
        """Forget what was to be called."""
        self._wake = None

    def check(self) -> None:
        """Raise StoppedError if the work was asked to end."""
        if self._asked.is_set():
            raise StoppedError

    def rest(self, seconds: float) -> None:
        """Wait a while, or until asked to end; raises StoppedError."""
        self._asked.wait(seconds)
        self.check()


class Turns:
    """Gives each file to one job at a time."""

    def __init__(self) -> None:
        self._queues: dict[Path, tuple[asyncio.Lock, list[None]]] = {}

    @asynccontextmanager
    async def at(self, files: Iterable[Path]) -> AsyncIterator[None]:
        """Hold all of these files; they are taken in one order everywhere, so that nobody waits in a circle."""
        async with AsyncExitStack() as held:
            for file in sorted(set(files)):
                await held.enter_async_context(self._one(file))
            yield

    @asynccontextmanager
    async def _one(self, file: Path) -> AsyncIterator[None]:
        lock, interested = self._queues.setdefault(file, (asyncio.Lock(), []))
        interested.append(None)
        try:
            async with lock:
                yield
        finally:
            interested.pop()
            if not interested:
                del self._queues[file]


TURNS = Turns()
"""Those of this process: its locks on files are its own as a whole, whoever in it asks."""


class Threads:
    """Runs blocking work beside the event loop."""

    def __init__(self, name: str, size: int = 8) -> None:
        self._pool = ThreadPoolExecutor(size, thread_name_prefix=name)

    async def run(self, work: Callable[[Stop], T]) -> T:
        """Return what the work returns. Cancelled, it is asked to end and waited for.

        Work that was past stopping gives its result even so: it is done, whatever the one who waits would like.
        """
        stop = Stop()
        future = asyncio.get_running_loop().run_in_executor(self._pool, work, stop)
        try:
            return await asyncio.shield(future)
        except asyncio.CancelledError:
            stop.ask()
            await asyncio.wait([future])
            if future.cancelled() or future.exception() is not None:
                raise
            return future.result()

    def close(self) -> None:
        """End the threads; no work follows."""
        self._pool.shutdown(wait=False, cancel_futures=True)
