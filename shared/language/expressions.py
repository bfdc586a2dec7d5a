"""Every expression in some part of a Plan."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

from shared.language.plan import Expression


def expressions_in(part: object) -> Iterator[Expression]:
    """Give the expressions of a value, a task, a step or any other part of a Plan."""
    if isinstance(part, Expression):
        yield part
    elif isinstance(part, tuple):
        for item in part:
            yield from expressions_in(item)
    elif dataclasses.is_dataclass(part):
        for spec in dataclasses.fields(part):
            yield from expressions_in(getattr(part, spec.name))
