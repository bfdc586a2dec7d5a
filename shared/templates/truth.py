"""When a value of a condition counts as true, and the status that has two names."""

from collections.abc import Mapping, Set
from decimal import Decimal

_TRUE_TEXTS = frozenset({"true", "1", "yes", "on"})
_SUCCESS = frozenset({"success", "ok"})
_LONGEST_TRUE_TEXT = 64


class StatusText(str):
    """A status; `success` and `ok` are one and the same."""

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, str):
            return NotImplemented
        mine, theirs = str.__str__(self), str.__str__(other)
        return mine == theirs or (mine in _SUCCESS and theirs in _SUCCESS)

    def __ne__(self, other: object) -> bool:
        equal = self.__eq__(other)
        return equal if equal is NotImplemented else not equal

    def __hash__(self) -> int:
        mine = str.__str__(self)
        return hash("success" if mine in _SUCCESS else mine)


def truthy(value: object) -> bool:
    """Judge any value as a condition: true, non-zero, not empty, or one of the texts true 1 yes on."""
    match value:
        case bool():
            return value
        case int() | float():
            return value == value and value != 0
        case Decimal():
            return not value.is_nan() and value != 0
        case str():
            return len(value) <= _LONGEST_TRUE_TEXT and value.strip().lower() in _TRUE_TEXTS
        case list() | tuple() | range() | Mapping() | Set():
            return len(value) > 0
        case _:
            return False
