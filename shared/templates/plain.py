"""Any value a template can hold, turned into plain JSON data or into text."""

import json
import math
from collections.abc import Iterable, Mapping, Sequence, Set
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal

from shared.templates.limits import (
    MAX_INT_BITS,
    MAX_RESULT_CHARS,
    MAX_RESULT_DEPTH,
    MAX_RESULT_NODES,
    MAX_TEXT,
)
from shared.templates.problems import OperationError, over_limit
from shared.templates.run import Run
from shared.templates.undefined import Undefined

_AS_THEY_ARE = frozenset({bool, type(None)})
_SMALL = 1 << 62


class Budget:
    """Bound how much data one result may hold, everything counted where it is repeated."""

    __slots__ = ("chars", "nodes")

    def __init__(self, nodes: int = MAX_RESULT_NODES, chars: int = MAX_RESULT_CHARS) -> None:
        self.nodes = nodes
        self.chars = chars

    def spend(self, nodes: int, chars: int) -> None:
        self.nodes -= nodes
        self.chars -= chars
        if self.nodes < 0 or self.chars < 0:
            raise over_limit("its value is too large")


def to_plain(value: object, budget: Budget, depth: int = 0) -> object:
    """Turn a value into plain JSON data; what is plain already is returned itself, not copied."""
    kind = type(value)
    if kind in _AS_THEY_ARE:
        return value
    if kind is str:
        budget.spend(0, len(value))  # type: ignore[arg-type]
        return value
    if kind is int:
        return bounded_int(value)  # type: ignore[arg-type]
    if kind is float:
        return finite(value)  # type: ignore[arg-type]
    if depth >= MAX_RESULT_DEPTH:
        raise over_limit(f"its value nests deeper than {MAX_RESULT_DEPTH} levels")
    if kind is list:
        return _plain_list(value, budget, depth)  # type: ignore[arg-type]
    if kind is dict:
        return _plain_mapping(value, budget, depth)  # type: ignore[arg-type]
    return _plain_other(value, budget, depth)


def plain_here(run: Run, value: object) -> object:
    """Turn a value into plain JSON data in the middle of a template, at the template's own cost."""
    budget = Budget(nodes=run.fuel, chars=MAX_TEXT)
    plain = to_plain(value, budget)
    run.charge(run.fuel - budget.nodes + ((MAX_TEXT - budget.chars) >> 6))
    return plain


def json_text(run: Run, value: object) -> str:
    """Write a value as JSON on one line."""
    return built(run, json.dumps(plain_here(run, value), ensure_ascii=False, allow_nan=False))


def to_text(run: Run, value: object) -> str:
    """Write a value as text: nothing is empty, lists and mappings are JSON, the rest is as in Python."""
    kind = type(value)
    if kind is str:
        return value  # type: ignore[return-value]
    if value is None:
        return ""
    if kind is int or kind is bool or kind is float:
        return str(value)
    if isinstance(value, str | Undefined):
        return str.__str__(value) if isinstance(value, str) else str(value)
    if isinstance(value, Decimal):
        return str(value)
    plain = plain_here(run, value)
    return plain if isinstance(plain, str) else json_text(run, plain)


def built(run: Run, text: str) -> str:
    """Accept a text that was built inside a template, and charge for it."""
    if len(text) > MAX_TEXT:
        raise over_limit("it builds a text beyond 1 MiB")
    run.charge(1 + (len(text) >> 6))
    return text


def bounded_int(number: int) -> int:
    """Accept a whole number of reasonable size."""
    if number.bit_length() > MAX_INT_BITS:
        raise over_limit(f"it holds a whole number of more than {MAX_INT_BITS} bits")
    return number


def finite(number: float) -> float:
    """Accept a number that JSON can hold."""
    if not math.isfinite(number):
        raise OperationError("value", f"{number} is no number that JSON can hold")
    return number


def rfc3339(moment: datetime) -> str:
    """Write a moment with its offset, Z for UTC; a moment without a zone is UTC."""
    aware = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    text = aware.isoformat()
    return text[:-6] + "Z" if text.endswith("+00:00") else text


def _plain_list(value: Iterable[object], budget: Budget, depth: int) -> list[object]:
    items = value if type(value) is list else list(value)
    budget.spend(1 + len(items), 0)
    plain: list[object] | None = None
    for position, item in enumerate(items):
        kind = type(item)
        if kind in _AS_THEY_ARE or (kind is int and -_SMALL < item < _SMALL):
            continue
        made = to_plain(item, budget, depth + 1)
        if made is not item:
            if plain is None:
                plain = list(items)
            plain[position] = made
    return items if plain is None else plain


def _plain_mapping(value: Mapping[object, object], budget: Budget, depth: int) -> dict[str, object]:
    budget.spend(1 + len(value), 0)
    plain: dict[str, object] = {}
    changed = type(value) is not dict
    for key, item in value.items():
        text = key if type(key) is str else _key_text(key)
        budget.chars -= len(text)
        made = item if type(item) in _AS_THEY_ARE else to_plain(item, budget, depth + 1)
        changed = changed or made is not item or text is not key
        plain[text] = made
    budget.spend(0, 0)
    return plain if changed else value  # type: ignore[return-value]


def _key_text(key: object) -> str:
    match key:
        case str():
            return str.__str__(key)
        case bool():
            return "true" if key else "false"
        case None:
            return "null"
        case int():
            return str(bounded_int(key))
        case float():
            return repr(finite(key))
        case _:
            raise OperationError("value", f"a mapping cannot have a key of type {type(key).__name__}")


def _plain_other(value: object, budget: Budget, depth: int) -> object:
    match value:
        case Undefined():
            value.touch()
            return None
        case str():
            return to_plain(str.__str__(value), budget, depth)
        case bool():
            return bool(value)
        case int():
            return bounded_int(int(value))
        case float():
            return finite(float(value))
        case Decimal():
            return plain_decimal(value)
        case datetime():
            return rfc3339(value)
        case date() | time():
            return value.isoformat()
        case timedelta():
            return value.total_seconds()
        case Mapping():
            return _plain_mapping(value, budget, depth)
        case Set():
            return _plain_set(value, budget, depth)
        case bytes() | bytearray() | memoryview():
            raise OperationError("value", "bytes are no JSON data; decode them first")
        case Sequence():
            return _plain_list(value, budget, depth)
        case _:
            raise OperationError("value", f"a value of type {type(value).__name__} is no JSON data")


def plain_decimal(value: Decimal) -> int | float:
    """Turn an exact decimal into a whole number where it is one, else into a float."""
    if not value.is_finite():
        raise OperationError("value", f"{value} is no number that JSON can hold")
    if value.adjusted() < MAX_INT_BITS // 4 and value == value.to_integral_value():
        return bounded_int(int(value))
    return finite(float(value))


def _plain_set(value: Set[object], budget: Budget, depth: int) -> list[object]:
    items = _plain_list(value, budget, depth)
    try:
        return sorted(items)  # type: ignore[type-var]
    except TypeError:
        return sorted(items, key=lambda item: json.dumps(item, sort_keys=True))
