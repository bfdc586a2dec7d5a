"""A YAML document as a tree of values that know where they stand."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeAlias

from shared.language.place import Place

ScalarValue: TypeAlias = bool | int | float | str | None


@dataclass(frozen=True, slots=True)
class Scalar:
    """A text, number, truth value or nothing; `indent` is how far the lines of a block text stand in."""

    value: ScalarValue
    place: Place
    quoted: bool = False
    block: bool = False
    indent: int = 0
    weight: int = 1
    depth: int = 1


@dataclass(frozen=True, slots=True)
class Sequence:
    """A list."""

    items: tuple[Node, ...]
    place: Place
    weight: int
    depth: int = 1


@dataclass(frozen=True, slots=True)
class Entry:
    """One key of a mapping with its value."""

    key: str
    place: Place
    value: Node


@dataclass(frozen=True, slots=True)
class Mapping:
    """A mapping with text keys, in the order written."""

    entries: tuple[Entry, ...]
    place: Place
    weight: int
    depth: int = 1

    def get(self, *names: str) -> Node | None:
        """Return the value under the first of these keys that is there."""
        for name in names:
            for entry in self.entries:
                if entry.key == name:
                    return entry.value
        return None

    def entry(self, *names: str) -> Entry | None:
        """Return the key and value under the first of these keys that is there."""
        for name in names:
            for entry in self.entries:
                if entry.key == name:
                    return entry
        return None

    def keys(self) -> Iterator[str]:
        """Give the keys in the order written."""
        return (entry.key for entry in self.entries)


Node: TypeAlias = Scalar | Sequence | Mapping


def text_of(node: Node | None) -> str | None:
    """Return the text of a node, or nothing if it is no text."""
    if isinstance(node, Scalar) and isinstance(node.value, str):
        return node.value
    return None


def has_template(node: Node | None) -> bool:
    """Say whether a node is a text with an expression in it."""
    text = text_of(node)
    return text is not None and is_template(text)


def is_template(text: str) -> bool:
    """Say whether a text has an expression in it."""
    return "{{" in text or "{%" in text or "{#" in text


def plain(node: Node) -> object:
    """Return a node as ordinary Python data."""
    match node:
        case Scalar(value=value):
            return value
        case Sequence(items=items):
            return [plain(item) for item in items]
        case Mapping(entries=entries):
            return {entry.key: plain(entry.value) for entry in entries}


def described(node: Node) -> str:
    """Say in a few words what a node is."""
    match node:
        case Scalar(value=None):
            return "nothing"
        case Scalar(value=bool(value)):
            return "true" if value else "false"
        case Scalar(value=int(value) | float(value)):
            return f"the number {value}"
        case Scalar(value=str(value)):
            shown = value if len(value) <= 30 else value[:27] + "…"
            return f"the text {shown!r}"
        case Sequence():
            return "a list"
        case Mapping():
            return "a mapping"
    return "something else"
