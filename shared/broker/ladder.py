"""How a delay becomes a way through the ladder: a number of 50 ms units, written in base 16, one queue a digit."""

from __future__ import annotations

import math

from shared.broker.topology import JOBS, PLACES, RADIX, UNIT_MS, delay_exchange

HORIZON_S = (RADIX**PLACES - 1) * UNIT_MS / 1000
MAX_KEY_BYTES = 255

_UNIT_NS = UNIT_MS * 1_000_000


def steps(delay_s: float) -> tuple[int, ...]:
    """Return the digits of the delay, the highest place first, rounded up to the unit; no delay is all zeros."""
    if not math.isfinite(delay_s) or delay_s > HORIZON_S:
        raise ValueError(f"a delay of {delay_s} s is beyond the ladder's horizon of {HORIZON_S} s")
    # Whole nanoseconds first: 1.1 means 22 units, though as a float it is a little more.
    units = -(-round(max(0.0, delay_s) * 1e9) // _UNIT_NS)
    return tuple(units // RADIX**place % RADIX for place in reversed(range(PLACES)))


def entry(delay_s: float, pool: str) -> tuple[str, str]:
    """Return exchange and routing key by which a job reaches its pool after the delay, never earlier."""
    digits = steps(delay_s)
    highest = next((index for index, digit in enumerate(digits) if digit), None)
    if highest is None:
        return JOBS, _fitting(pool)
    return delay_exchange(PLACES - 1 - highest), _fitting(".".join([*map(str, digits), pool]))


def _fitting(key: str) -> str:
    if len(key.encode()) > MAX_KEY_BYTES:
        raise ValueError(f"a routing key of {len(key.encode())} bytes does not fit; the limit is {MAX_KEY_BYTES}")
    return key
