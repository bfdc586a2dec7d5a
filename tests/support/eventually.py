"""Waiting for what must become true, with a deadline."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

T = TypeVar("T")

PAUSE_S = 0.02


async def eventually(look: Callable[[], Awaitable[T]], within_s: float = 10.0) -> T:
    """Return the first truthy answer; fail when there is none in time."""
    deadline = time.monotonic() + within_s
    while True:
        answer = await look()
        if answer:
            return answer
        assert time.monotonic() < deadline, f"not within {within_s} s; the last answer was {answer!r}"
        await asyncio.sleep(PAUSE_S)
