"""Garbage collection as services need it: rarely, for nearly all that they make is freed when its last user lets go."""

from __future__ import annotations

import gc

YOUNG = 300_000
MIDDLE = 10
OLD = 10


def collect_rarely() -> None:
    """Leave alone what the program started with, and look for cycles only after much was made."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(YOUNG, MIDDLE, OLD)
