"""Arithmetic and comparison as templates see them: bounded, and lenient towards what is missing."""

import operator
from collections.abc import Callable, Mapping, Sequence, Set
from datetime import date, timedelta
from decimal import Decimal
from typing import Any, Final

from shared.templates.costs import SCALARS, charge_compared, charge_deep, charge_search
from shared.templates.formatting import percent_format
from shared.templates.limits import MAX_INT_BITS, MAX_LIST, MAX_TEXT
from shared.templates.plain import bounded_int, built, plain_decimal, to_text
from shared.templates.problems import OperationError, over_limit
from shared.templates.run import Run
from shared.templates.undefined import Undefined

Operator = Callable[[Run, object, object], object]
_PYTHON: Final[dict[str, Callable[[Any, Any], object]]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
    "//": operator.floordiv,
    "%": operator.mod,
    "**": operator.pow,
}
_ORDER: Final[dict[str, Callable[[Any, Any], bool]]] = {
    "lt": operator.lt,
    "lteq": operator.le,
    "gt": operator.gt,
    "gteq": operator.ge,
}
_NUMBERS: Final = frozenset({int, float})
_KINDS: Final[dict[type, str]] = {
    str: "a text",
    int: "a number",
    float: "a number",
    bool: "a boolean",
    list: "a list",
    dict: "a mapping",
}


def arithmetic(symbol: str) -> Operator:
    """Give the bounded form of one of + - * / // % **."""
    compute = _PYTHON[symbol]
    quick = symbol in "+-"

    def apply(run: Run, left: object, right: object) -> object:
        if quick and type(left) in _NUMBERS and type(right) in _NUMBERS:
            return _bounded(compute(left, right))
        for side in (left, right):
            if isinstance(side, Undefined):
                raise side.needed(f"'{symbol}' needs a value")
        return _compute(run, symbol, _exact(left), _exact(right))

    return apply


def negate(value: object) -> object:
    """Give -value."""
    return _signed("-", value, operator.neg)


def affirm(value: object) -> object:
    """Give +value."""
    return _signed("+", value, operator.pos)


def concat(run: Run, values: list[object]) -> str:
    """Join values as text, the operator ~."""
    return joined(run, "", [to_text(run, value) for value in values])


def joined(run: Run, separator: str, texts: list[str]) -> str:
    """Join texts, refusing beforehand what would grow too long."""
    if sum(map(len, texts)) + len(separator) * max(0, len(texts) - 1) > MAX_TEXT:
        raise over_limit("it builds a text beyond 1 MiB")
    return built(run, separator.join(texts))


def equal(run: Run, left: object, right: object) -> bool:
    """Compare for equality; an undefined equals null."""
    if type(left) in SCALARS or type(right) in SCALARS:
        charge_compared(run, left)
        return bool(left == right)
    charge_deep(run, left)
    return bool(left == right)


def unequal(run: Run, left: object, right: object) -> bool:
    """Compare for inequality."""
    return not equal(run, left, right)


def ordering(name: str) -> Callable[[Run, object, object], bool]:
    """Give one of lt lteq gt gteq, which is false as soon as one side is null or undefined."""
    compare = _ORDER[name]

    def apply(run: Run, left: object, right: object) -> bool:
        if type(left) in _NUMBERS and type(right) in _NUMBERS:
            return compare(left, right)
        if _is_nothing(left) | _is_nothing(right):
            return False
        charge_compared(run, left)
        if isinstance(left, list | tuple):
            charge_deep(run, left)
        if not _comparable(left, right):
            raise OperationError("type", f"{_kind(left)} and {_kind(right)} have no order")
        return compare(left, right)

    return apply


def contains(run: Run, needle: object, haystack: object) -> bool:
    """Tell whether needle is in haystack; nothing is in null or undefined."""
    if _is_nothing(haystack):
        return False
    if isinstance(haystack, str):
        charge_search(run, haystack, needle)
        if _is_nothing(needle):
            return False
        if not isinstance(needle, str):
            raise OperationError("type", f"a text cannot contain {_kind(needle)}")
        return str.__str__(needle) in str.__str__(haystack)
    if isinstance(haystack, Mapping | Set):
        charge_compared(run, needle)
        return isinstance(needle, str | int | float | None) and needle in haystack
    if isinstance(haystack, Sequence) and not isinstance(haystack, bytes | bytearray):
        run.charge((len(haystack) >> 3) + len(haystack) * (len(needle) >> 8 if isinstance(needle, str) else 0))
        if type(needle) not in SCALARS and not isinstance(needle, str | Undefined):
            charge_deep(run, haystack)
        return needle in haystack
    raise OperationError("type", f"{_kind(haystack)} cannot be searched with 'in'")


def not_contains(run: Run, needle: object, haystack: object) -> bool:
    """Tell whether needle is not in haystack."""
    return not contains(run, needle, haystack)


COMPARISONS: Final[dict[str, Callable[[Run, object, object], bool]]] = {
    "eq": equal,
    "ne": unequal,
    "in": contains,
    "notin": not_contains,
    **{name: ordering(name) for name in _ORDER},
}


def _is_nothing(value: object) -> bool:
    if isinstance(value, Undefined):
        value.touch()
        return True
    return value is None


def _comparable(left: object, right: object) -> bool:
    for kinds in ((str,), (int, float, Decimal), (date,), (timedelta,), (list,), (tuple,)):
        if isinstance(left, kinds):
            return isinstance(right, kinds)
    return False


def _exact(value: object) -> object:
    return plain_decimal(value) if isinstance(value, Decimal) else value


def _compute(run: Run, symbol: str, left: object, right: object) -> object:
    if isinstance(left, int | float) and isinstance(right, int | float):
        _foresee(symbol, left, right)
        return _bounded(_PYTHON[symbol](left, right))
    if isinstance(left, str) and symbol == "%":
        return percent_format(run, str.__str__(left), right)
    if symbol == "+" and isinstance(left, str) and isinstance(right, str):
        return joined(run, "", [str.__str__(left), str.__str__(right)])
    if symbol == "+" and isinstance(left, list | tuple) and isinstance(right, list | tuple):
        _check_length(run, len(left) + len(right))
        return [*left, *right]
    if symbol == "*":
        return _repeat(run, left, right)
    if isinstance(left, date | timedelta) and isinstance(right, date | timedelta) and symbol in "+-":
        return _PYTHON[symbol](left, right)
    raise _no_operator(symbol, left, right)


def _repeat(run: Run, left: object, right: object) -> object:
    times, value = (left, right) if isinstance(left, int) else (right, left)
    if not isinstance(times, int) or not isinstance(value, str | list | tuple):
        raise _no_operator("*", left, right)
    count = max(0, times)
    if isinstance(value, str):
        if count * len(value) > MAX_TEXT:
            raise over_limit("it builds a text beyond 1 MiB")
        return built(run, str.__str__(value) * count)
    _check_length(run, count * len(value))
    return list(value) * count


def _check_length(run: Run, length: int) -> None:
    if length > MAX_LIST:
        raise over_limit(f"it builds a list of more than {MAX_LIST} elements")
    run.charge(1 + (length >> 3))


def _foresee(symbol: str, left: float, right: float) -> None:
    if not isinstance(left, int) or not isinstance(right, int):
        return
    bits = left.bit_length()
    grown = bits + right.bit_length() if symbol == "*" else (bits - 1) * right if symbol == "**" else 0
    if grown > 2 * MAX_INT_BITS:
        raise over_limit(f"it computes a whole number of more than {MAX_INT_BITS} bits")


def _bounded(number: object) -> object:
    if isinstance(number, complex):
        raise OperationError("value", "the result is no real number")
    return bounded_int(number) if isinstance(number, int) else number


def _signed(symbol: str, value: object, compute: Callable[[Any], object]) -> object:
    if isinstance(value, Undefined):
        raise value.needed(f"'{symbol}' needs a number")
    if not isinstance(value, int | float | Decimal):
        raise OperationError("type", f"'{symbol}' needs a number, not {_kind(value)}")
    return compute(_exact(value))


def _no_operator(symbol: str, left: object, right: object) -> OperationError:
    return OperationError("type", f"'{symbol}' does not work with {_kind(left)} and {_kind(right)}")


def _kind(value: object) -> str:
    return "null" if value is None else _KINDS.get(type(value), type(value).__name__)
