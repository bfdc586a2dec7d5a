"""Chance that can be drawn again: numbers that follow from what they are drawn for."""

from __future__ import annotations

from hashlib import sha256
from typing import Protocol


class Chance(Protocol):
    """Gives numbers from 0 up to, but not including, 1."""

    def draw(self, purpose: str) -> float:
        """Return the number for a purpose: the same purpose gives the same number."""
        ...


class SeededChance:
    """Chance that depends on the execution and the purpose alone, so that a replay draws the same."""

    __slots__ = ("_seed",)

    def __init__(self, seed: str) -> None:
        self._seed = seed

    def draw(self, purpose: str) -> float:
        """Return the number for a purpose."""
        digest = sha256(f"{self._seed}\x1f{purpose}".encode()).digest()
        return (int.from_bytes(digest[:8], "big") >> 11) / float(1 << 53)
