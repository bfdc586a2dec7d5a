"""A tool or sink that is made when it is first needed, for what it is built on takes long to load."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

T = TypeVar("T")


@dataclass(slots=True)
class Late(Generic[T]):
    """The kind of something, and how it is made."""

    kind: str
    make: Callable[[], T]
    made: T | None = None

    def get(self) -> T:
        """Return it, made now or before."""
        if self.made is None:
            self.made = self.make()
        return self.made
