"""The functions a template may call."""

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Final

from shared.templates.access import Namespace
from shared.templates.limits import MAX_RANGE
from shared.templates.problems import OperationError, over_limit
from shared.templates.run import Run


def _range(run: Run, first: object, stop: object = None, step: object = 1) -> range:
    bounds = (0, first, step) if stop is None else (first, stop, step)
    numbers = [bound for bound in bounds if isinstance(bound, int)]
    if len(numbers) != len(bounds):
        raise OperationError("type", "range needs whole numbers")
    made = range(*numbers)
    if (made.stop - made.start) // made.step > MAX_RANGE:
        raise over_limit(f"range is limited to {MAX_RANGE} elements")
    return made


def _dict(run: Run, *parts: object, **values: object) -> dict[object, object]:
    return _merged(run, "dict", parts, values)


def _namespace(run: Run, *parts: object, **values: object) -> Namespace:
    merged = _merged(run, "namespace", parts, values)
    return Namespace({str(key): value for key, value in merged.items()})


def _merged(run: Run, name: str, parts: tuple[object, ...], values: Mapping[str, object]) -> dict[object, object]:
    merged: dict[object, object] = {}
    for part in parts:
        if not isinstance(part, Mapping):
            raise OperationError("type", f"{name}() needs mappings or named values")
        run.charge(len(part))
        merged.update(part)
    merged.update(values)
    return merged


def _rand(run: Run) -> float:
    if run.helpers.random is None:
        raise OperationError("value", "rand() is not available here")
    return run.helpers.random()


def _now(run: Run) -> datetime:
    now = run.helpers.now
    if now is None:
        raise OperationError("value", "now() is not available here")
    return now if now.tzinfo else now.replace(tzinfo=UTC)


FUNCTIONS: Final[dict[str, Callable[..., object]]] = {
    "range": _range,
    "dict": _dict,
    "namespace": _namespace,
    "rand": _rand,
    "now": _now,
}
