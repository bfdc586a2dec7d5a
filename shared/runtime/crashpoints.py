"""Places where a test may kill the process, so that recovery from there is shown and not hoped for."""

from __future__ import annotations

import os
from collections import Counter

EXIT_CODE = 137
VARIABLE = "REDRIVE_CRASH_AT"

_passed: Counter[str] = Counter()


def crash_point(name: str) -> None:
    """End the process at once, as kill -9 would, if REDRIVE_CRASH_AT names this place.

    `name` means the first time that it is passed, `name:n` the n-th.
    """
    wanted = os.environ.get(VARIABLE)
    if wanted is None:
        return
    place, _, number = wanted.partition(":")
    if place != name:
        return
    _passed[name] += 1
    if _passed[name] >= int(number or 1):
        os._exit(EXIT_CODE)
