"""Identities that are ordered by the time they were made."""

from __future__ import annotations

import secrets
from datetime import datetime

_RANDOM_BITS = 74


def time_ordered_id(now: datetime, chance: int) -> str:
    """Return the UUID (version 7) of a moment; of `chance` 74 bits are used."""
    milliseconds = int(now.timestamp() * 1000) & (1 << 48) - 1
    bits = chance & (1 << _RANDOM_BITS) - 1
    value = milliseconds << 80 | 0x7 << 76 | bits >> 62 << 64 | 0b10 << 62 | bits & (1 << 62) - 1
    found = f"{value:032x}"
    return f"{found[:8]}-{found[8:12]}-{found[12:16]}-{found[16:20]}-{found[20:]}"


def new_id(now: datetime) -> str:
    """Return an identity that nobody else makes, later than those made in earlier milliseconds."""
    return time_ordered_id(now, secrets.randbits(_RANDOM_BITS))
