"""The value of a name that is not there: empty, falsy, equal to null, and remembered once it is used."""

from collections.abc import Iterator

from shared.templates.limits import MAX_MISSING
from shared.templates.names import shown
from shared.templates.problems import OperationError

_MAX_NAME = 10_000


class Undefined:
    """Stand for a missing name; every use of it is noted in `missing`, asking whether it is defined is not.

    An undefined without a name (`a if false`) was left out on purpose and is never noted.
    """

    __slots__ = ("_missing", "name")

    def __init__(self, name: str, missing: dict[str, None]) -> None:
        self.name = name
        self._missing = missing

    def touch(self) -> None:
        """Note that the missing value was used."""
        if self.name and len(self._missing) < MAX_MISSING:
            self._missing[self.name] = None

    def child(self, key: object) -> "Undefined":
        """Read something of nothing, which is nothing again."""
        if not self.name or len(self.name) > _MAX_NAME:
            return self
        return Undefined(f"{self.name}.{shown(key)}", self._missing)

    def needed(self, why: str) -> OperationError:
        """Make the error of an operation that cannot do with nothing."""
        self.touch()
        return OperationError("undefined", f"'{self.name or 'a value'}' is undefined: {why}")

    def __bool__(self) -> bool:
        self.touch()
        return False

    def __eq__(self, other: object) -> bool:
        self.touch()
        return other is None or isinstance(other, Undefined)

    def __hash__(self) -> int:
        return hash(None)

    def __len__(self) -> int:
        self.touch()
        return 0

    def __iter__(self) -> Iterator[object]:
        self.touch()
        return iter(())

    def __str__(self) -> str:
        self.touch()
        return ""

    def __repr__(self) -> str:
        return f"Undefined({self.name!r})"
