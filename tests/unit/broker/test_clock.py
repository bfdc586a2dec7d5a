"""The clock that a test moves."""

import asyncio
from datetime import UTC, datetime

from shared.runtime.clock import ManualClock, SystemClock


async def test_time_stands_still_until_it_is_moved() -> None:
    clock = ManualClock(datetime(2024, 5, 1, tzinfo=UTC))

    await clock.advance(90)

    assert clock.now() == datetime(2024, 5, 1, 0, 1, 30, tzinfo=UTC)
    assert clock.monotonic() == 90


async def test_sleepers_wake_each_at_its_own_moment_and_in_order() -> None:
    clock = ManualClock()
    woken: list[tuple[str, float]] = []

    async def sleep(name: str, *naps: float) -> None:
        for nap in naps:
            await clock.sleep(nap)
            woken.append((name, clock.monotonic()))

    sleeping = asyncio.gather(sleep("long", 5), sleep("twice", 1, 3), sleep("never early", 10))
    await clock.advance(9.9)
    assert woken == [("twice", 1), ("twice", 4), ("long", 5)]

    await clock.advance(0.1)
    await sleeping
    assert woken[-1] == ("never early", 10)


async def test_a_sleeper_that_gave_up_is_passed_over() -> None:
    clock = ManualClock()
    sleeping = asyncio.ensure_future(clock.sleep(1))
    await asyncio.sleep(0)
    sleeping.cancel()

    await clock.advance(2)

    assert sleeping.cancelled()


def test_the_system_tells_the_time_in_utc() -> None:
    assert SystemClock().now().tzinfo is UTC
