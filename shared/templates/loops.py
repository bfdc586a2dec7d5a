"""What `loop` is inside a `{% for %}`."""

from collections.abc import Callable, Sequence
from typing import Final

from shared.templates.run import Run

LOOP_ATTRIBUTES: Final = frozenset(
    {"index", "index0", "revindex", "revindex0", "first", "last"}
    | {"length", "depth", "depth0", "previtem", "nextitem"}
)

Recurse = Callable[[Run, object, int], str]


class Loop:
    """Tell the body of a loop where it is."""

    __slots__ = ("_items", "_recurse", "_run", "depth0", "index0")

    def __init__(self, run: Run, items: Sequence[object], depth0: int, recurse: Recurse | None) -> None:
        self._run = run
        self._items = items
        self._recurse = recurse
        self.depth0 = depth0
        self.index0 = 0

    @property
    def index(self) -> int:
        return self.index0 + 1

    @property
    def length(self) -> int:
        return len(self._items)

    @property
    def revindex(self) -> int:
        return len(self._items) - self.index0

    @property
    def revindex0(self) -> int:
        return len(self._items) - self.index0 - 1

    @property
    def first(self) -> bool:
        return self.index0 == 0

    @property
    def last(self) -> bool:
        return self.index0 == len(self._items) - 1

    @property
    def depth(self) -> int:
        return self.depth0 + 1

    @property
    def previtem(self) -> object:
        return self._items[self.index0 - 1] if self.index0 else self._run.undefined("loop.previtem")

    @property
    def nextitem(self) -> object:
        return self._run.undefined("loop.nextitem") if self.last else self._items[self.index0 + 1]

    def cycle(self, choices: tuple[object, ...]) -> object:
        """Give the choices in turn."""
        return choices[self.index0 % len(choices)] if choices else self._run.undefined("loop.cycle()")

    def recurse(self, items: object) -> str | None:
        """Render the loop's body over further elements; None if the loop is not recursive."""
        return None if self._recurse is None else self._recurse(self._run, items, self.depth0 + 1)
