"""The tests of `x is …`, and of `| select(…)`."""

from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from typing import Final

from shared.templates.costs import charge_compared
from shared.templates.operators import COMPARISONS
from shared.templates.plain import to_text
from shared.templates.problems import OperationError
from shared.templates.run import Run
from shared.templates.undefined import Undefined

Check = Callable[..., bool]


def _defined(run: Run, value: object) -> bool:
    return not isinstance(value, Undefined)


def _undefined(run: Run, value: object) -> bool:
    return isinstance(value, Undefined)


def _none(run: Run, value: object) -> bool:
    return value is None or isinstance(value, Undefined)


def _true(run: Run, value: object) -> bool:
    return value is True


def _false(run: Run, value: object) -> bool:
    return value is False


def _string(run: Run, value: object) -> bool:
    return isinstance(value, str)


def _number(run: Run, value: object) -> bool:
    return isinstance(value, int | float | Decimal) and not isinstance(value, bool)


def _integer(run: Run, value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _float(run: Run, value: object) -> bool:
    return isinstance(value, float)


def _boolean(run: Run, value: object) -> bool:
    return isinstance(value, bool)


def _mapping(run: Run, value: object) -> bool:
    return isinstance(value, Mapping)


def _sequence(run: Run, value: object) -> bool:
    return isinstance(value, Sequence | Mapping)


def _iterable(run: Run, value: object) -> bool:
    return isinstance(value, Sequence | Mapping | set | frozenset | Undefined)


def _divisibleby(run: Run, value: object, num: int) -> bool:
    if isinstance(value, Undefined):
        value.touch()
        return False
    if not isinstance(value, int) or not isinstance(num, int):
        raise OperationError("type", "divisibleby compares whole numbers")
    return value % num == 0


def _odd(run: Run, value: object) -> bool:
    return not _divisibleby(run, value, 2) and not isinstance(value, Undefined)


def _even(run: Run, value: object) -> bool:
    return _divisibleby(run, value, 2)


def _startingwith(run: Run, value: object, prefix: str) -> bool:
    charge_compared(run, prefix)
    return to_text(run, value).startswith(prefix)


def _endingwith(run: Run, value: object, suffix: str) -> bool:
    charge_compared(run, suffix)
    return to_text(run, value).endswith(suffix)


def _comparing(name: str) -> Check:
    compare = COMPARISONS[name]

    def check(run: Run, value: object, other: object) -> bool:
        return compare(run, value, other)

    return check


CHECKS: Final[dict[str, Check]] = {
    "defined": _defined,
    "undefined": _undefined,
    "none": _none,
    "true": _true,
    "false": _false,
    "string": _string,
    "number": _number,
    "integer": _integer,
    "float": _float,
    "boolean": _boolean,
    "mapping": _mapping,
    "sequence": _sequence,
    "iterable": _iterable,
    "divisibleby": _divisibleby,
    "odd": _odd,
    "even": _even,
    "startingwith": _startingwith,
    "endingwith": _endingwith,
    "in": _comparing("in"),
    **{name: _comparing("eq") for name in ("eq", "equalto", "==")},
    **{name: _comparing("ne") for name in ("ne", "!=")},
    **{name: _comparing("lt") for name in ("lt", "lessthan", "<")},
    **{name: _comparing("lteq") for name in ("le", "<=")},
    **{name: _comparing("gt") for name in ("gt", "greaterthan", ">")},
    **{name: _comparing("gteq") for name in ("ge", ">=")},
}
