"""Where something stands in a source text."""

from __future__ import annotations

import re
from dataclasses import dataclass

# What YAML counts as the end of a line; Python's splitlines() knows more.
_LINE_BREAK = re.compile("\r\n|[\n\r\x85\u2028\u2029]")


@dataclass(frozen=True, slots=True)
class Place:
    """A line and column, both counted from 1, and how many characters are meant."""

    line: int
    column: int
    width: int = 1


NOWHERE = Place(0, 0)


def lines_of(text: str) -> list[str]:
    """Return the lines of a text as YAML counts them."""
    return _LINE_BREAK.split(text.removeprefix("\ufeff"))


def place_at(text: str, offset: int) -> Place:
    """Return the place of a character of a text."""
    before = _LINE_BREAK.split(text[:offset])
    return Place(len(before), len(before[-1]) + 1)
