"""The state of one evaluation: its scope, its fuel, and what it found missing."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime

from shared.templates.limits import FUEL, MAX_OUTPUT, MAX_STACK
from shared.templates.problems import over_limit
from shared.templates.undefined import Undefined


@dataclass(frozen=True)
class Helpers:
    """Give a template the time and the chance that the decision was taken with."""

    now: datetime | None = None
    random: Callable[[], float] | None = None


NO_HELPERS = Helpers()


class Run:
    """Carry one evaluation from its first node to its last."""

    __slots__ = ("frames", "fuel", "helpers", "line", "missing", "out", "out_size", "scope", "stack")

    def __init__(self, scope: Mapping[str, object], helpers: Helpers) -> None:
        self.scope = scope
        self.helpers = helpers
        self.fuel = FUEL
        self.missing: dict[str, None] = {}
        self.frames: list[dict[str, object]] = []
        self.out: list[str] = []
        self.out_size = 0
        self.stack = 0
        self.line = 1

    def charge(self, units: int) -> None:
        """Spend fuel; the evaluation ends when there is none left."""
        self.fuel -= units
        if self.fuel < 0:
            raise over_limit("it runs too many steps")

    def undefined(self, name: str) -> Undefined:
        """Make the value of a name that is not there."""
        return Undefined(name, self.missing)

    def emit(self, piece: str) -> None:
        """Add a piece to the text that is being rendered."""
        size = len(piece)
        self.out_size += size
        if self.out_size > MAX_OUTPUT:
            raise over_limit("its text grows beyond 1 MiB")
        self.charge(size >> 6)
        self.out.append(piece)

    def capture(self, body: Callable[["Run"], None]) -> str:
        """Render a block aside and return its text."""
        outer, outer_size = self.out, self.out_size
        self.out, self.out_size = [], 0
        body(self)
        text = "".join(self.out)
        self.out, self.out_size = outer, outer_size
        return text

    def descend(self, levels: int) -> None:
        """Enter a macro or a recursive loop whose body nests so many levels deep."""
        self.charge(1)
        self.stack += levels
        if self.stack > MAX_STACK:
            raise over_limit("it calls itself too deeply")

    def ascend(self, levels: int) -> None:
        """Leave what was entered with `descend`."""
        self.stack -= levels
