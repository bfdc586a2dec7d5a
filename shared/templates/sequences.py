"""What a template can walk over, and in which order."""

from collections.abc import Mapping, Sequence, Set
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal

from shared.templates.limits import MAX_LIST
from shared.templates.plain import Budget, built, to_plain
from shared.templates.problems import OperationError, over_limit
from shared.templates.run import Run
from shared.templates.undefined import Undefined


def elements(run: Run, value: object) -> Sequence[object]:
    """Give the elements of a list, the keys of a mapping, the characters of a text; nothing has none."""
    if isinstance(value, list | tuple | range):
        found: Sequence[object] = value
    elif value is None:
        return ()
    elif isinstance(value, Undefined):
        value.touch()
        return ()
    elif isinstance(value, Mapping | str):
        check_length(run, len(value))
        return list(value)
    elif isinstance(value, Set):
        check_length(run, len(value))
        return to_plain(value, Budget())  # type: ignore[return-value]
    elif isinstance(value, Sequence) and not isinstance(value, bytes | bytearray):
        found = value
    else:
        raise OperationError("type", f"a value of type {type(value).__name__} has no elements")
    run.charge(1 + (len(found) >> 3))
    return found


def check_length(run: Run, length: int) -> None:
    """Accept the length of a list that is about to be built."""
    if length > MAX_LIST:
        raise over_limit(f"it builds a list of more than {MAX_LIST} elements")
    run.charge(1 + (length >> 3))


def slice_of(run: Run, value: object, bounds: list[object]) -> object:
    """Give value[start:stop:step] of a text or a list; nothing of nothing."""
    if value is None or isinstance(value, Undefined):
        return run.undefined("") if value is None else value
    if not isinstance(value, str | list | tuple | range):
        raise OperationError("type", f"a value of type {type(value).__name__} cannot be sliced")
    numbers = [bound for bound in bounds if bound is None or isinstance(bound, int)]
    if len(numbers) != len(bounds):
        raise OperationError("type", "the bounds of a slice are whole numbers")
    wanted = slice(*numbers)
    if isinstance(value, str):
        return built(run, str.__str__(value)[wanted])
    check_length(run, len(range(*wanted.indices(len(value)))))
    return list(value[wanted])


def sort_key(run: Run, value: object, case_sensitive: bool) -> tuple[int, object]:
    """Give what a value is ordered by; null and undefined come first, kinds do not mix."""
    match value:
        case None | Undefined():
            return (0, 0)
        case int() | float() | Decimal():
            return (1, value)
        case str():
            run.charge(len(value) >> 4)
            text = str.__str__(value)
            return (2, text if case_sensitive else text.lower())
        case datetime():
            return (3, value if value.tzinfo else value.replace(tzinfo=UTC))
        case date():
            return (4, value)
        case timedelta():
            return (5, value)
        case _:
            raise OperationError("type", f"values of type {type(value).__name__} have no order")


def one_kind(keys: Sequence[tuple[int, object]]) -> None:
    """Refuse to order texts against numbers."""
    if len({kind for kind, _ in keys if kind}) > 1:
        raise OperationError("type", "values of different types have no order")
