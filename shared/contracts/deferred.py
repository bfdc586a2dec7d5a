"""Expressions in a job that its worker finishes: how they are written, and that only their places make them such."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

TEMPLATE: Final = "$template"
SCOPE: Final = "$scope"
ROOTS: Final = frozenset({"config", "input", "sink"})

JobPath: TypeAlias = tuple[str | int, ...]
"""The way to a value in a job, from `config`, `input` or `sink`, through what these refer to where they are stored."""

Evaluate: TypeAlias = Callable[[str, dict[str, Any]], Any]


class MisplacedExpressionError(ValueError):
    """There is no expression where the job says that one is."""


def written(text: str, names: dict[str, Any]) -> dict[str, Any]:
    """Return an expression, and the names it reads besides the worker's own, as a job carries them."""
    return {TEMPLATE: text, SCOPE: names}


def expressions_at(data: Any, places: Iterable[JobPath]) -> list[str]:
    """Return the texts of the expressions at these places; raises MisplacedExpressionError."""
    out = []
    for place in places:
        value = data
        for key in place:
            value = _member(value, key)
        out.append(_opened(value)[0])
    return out


def finished(data: Any, places: Iterable[JobPath], evaluate: Evaluate) -> Any:
    """Return data with the expressions at these places evaluated, inner ones first; all else is left alone.

    Nothing is changed in place. Raises MisplacedExpressionError.
    """
    root = _Spot()
    for place in places:
        spot = root
        for key in place:
            spot = spot.below.setdefault(key, _Spot())
        spot.is_expression = True
    return _finished(data, root, evaluate)


@dataclass(slots=True)
class _Spot:
    """A place that is one of an expression, or on the way to some."""

    is_expression: bool = False
    below: dict[str | int, _Spot] = field(default_factory=dict)


def _finished(value: Any, spot: _Spot, evaluate: Evaluate) -> Any:
    if spot.below:
        changed = {key: _finished(_member(value, key), inner, evaluate) for key, inner in spot.below.items()}
        value = {**value, **changed} if isinstance(value, dict) else _replaced(value, changed)
    return evaluate(*_opened(value)) if spot.is_expression else value


def _replaced(values: list[Any], changed: dict[str | int, Any]) -> list[Any]:
    return [changed.get(index, value) for index, value in enumerate(values)]


def _member(value: Any, key: str | int) -> Any:
    if isinstance(value, dict) and isinstance(key, str) and key in value:
        return value[key]
    if isinstance(value, list) and isinstance(key, int) and 0 <= key < len(value):
        return value[key]
    raise MisplacedExpressionError(f"nothing is at {str(key)[:80]!r}, where an expression is said to be")


def _opened(value: Any) -> tuple[str, dict[str, Any]]:
    if isinstance(value, dict) and value.keys() == {TEMPLATE, SCOPE}:
        text, names = value[TEMPLATE], value[SCOPE]
        if isinstance(text, str) and isinstance(names, dict):
            return text, names
    raise MisplacedExpressionError("what is said to be an expression is none")
