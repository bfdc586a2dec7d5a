"""What operations of Python cost, charged before they are done."""

from collections.abc import Mapping

from shared.templates.limits import MAX_RESULT_DEPTH
from shared.templates.problems import over_limit
from shared.templates.run import Run

SCALARS = frozenset({str, int, float, bool, type(None)})
_CHEAP = 512
_MAX_PATTERN = 256
_NAIVE_SEARCH = 1 << 22


def charge_compared(run: Run, value: object) -> None:
    """Charge for comparing a value once, which only matters if it is a long text."""
    if isinstance(value, str) and len(value) > _CHEAP:
        run.charge(len(value) >> 8)


def charge_search(run: Run, text: str, pattern: object) -> None:
    """Charge for finding a pattern in a text; for short texts Python's search is quadratic."""
    work = len(text) * (len(pattern) if isinstance(pattern, str) else 1)
    run.charge((len(text) >> 8) + (min(work, _NAIVE_SEARCH) >> 10))


def charge_pattern(run: Run, text: str, pattern: object) -> None:
    """Charge for an operation that compares every place of a text with a whole pattern."""
    size = len(pattern) if isinstance(pattern, str) else 1
    if size > _MAX_PATTERN:
        raise over_limit(f"it splits or strips by more than {_MAX_PATTERN} characters")
    run.charge((len(text) >> 6) + (len(text) * size >> 10))


def charge_deep(run: Run, value: object) -> None:
    """Charge for every node and text of a nested value, before Python walks it unmetered."""
    level: list[object] = [value]
    for _ in range(MAX_RESULT_DEPTH + 1):
        below: list[object] = []
        for item in level:
            if isinstance(item, Mapping | list | tuple):
                children = item.values() if isinstance(item, Mapping) else item
                run.charge(3 + len(item) + (sum(len(child) for child in children if type(child) is str) >> 8))
                below.extend(child for child in children if type(child) not in SCALARS)
        if not below:
            return
        level = below
    raise over_limit(f"its values nest deeper than {MAX_RESULT_DEPTH} levels")
