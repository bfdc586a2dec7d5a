"""A set of whole numbers kept as ranges, so that a hundred thousand neighbours cost what one does."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator


class Ranges:
    """A set of whole numbers, small where its members are neighbours."""

    __slots__ = ("_ends", "_size", "_starts")

    def __init__(self, pairs: Iterable[tuple[int, int]] = ()) -> None:
        self._starts: list[int] = []
        self._ends: list[int] = []
        self._size = 0
        for start, end in pairs:
            self._starts.append(start)
            self._ends.append(end)
            self._size += end - start + 1

    def __len__(self) -> int:
        return self._size

    def __contains__(self, number: int) -> bool:
        at = bisect_right(self._starts, number) - 1
        return at >= 0 and number <= self._ends[at]

    def __iter__(self) -> Iterator[int]:
        for start, end in zip(self._starts, self._ends, strict=True):
            yield from range(start, end + 1)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Ranges) and self.pairs() == other.pairs()

    __hash__ = None  # type: ignore[assignment]

    def add(self, number: int) -> None:
        """Put a number in."""
        at = bisect_right(self._starts, number) - 1
        if at >= 0 and number <= self._ends[at]:
            return
        self._size += 1
        joins_left = at >= 0 and self._ends[at] == number - 1
        joins_right = at + 1 < len(self._starts) and self._starts[at + 1] == number + 1
        if joins_left and joins_right:
            self._ends[at] = self._ends.pop(at + 1)
            self._starts.pop(at + 1)
        elif joins_left:
            self._ends[at] = number
        elif joins_right:
            self._starts[at + 1] = number
        else:
            self._starts.insert(at + 1, number)
            self._ends.insert(at + 1, number)

    def take_first(self) -> int:
        """Take the smallest number out and return it."""
        first = self._starts[0]
        self._size -= 1
        if first == self._ends[0]:
            self._starts.pop(0)
            self._ends.pop(0)
        else:
            self._starts[0] = first + 1
        return first

    def pairs(self) -> list[list[int]]:
        """Return the ranges, first and last number of each."""
        return [[start, end] for start, end in zip(self._starts, self._ends, strict=True)]
