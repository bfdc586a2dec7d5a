"""What a decision is given besides Plan and state: the time, chance, stored values, allowed environment."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Protocol

from shared.contracts.references import is_reference
from shared.engine.chance import Chance

__all__ = [
    "INLINE_BYTES", "KnownValues", "LostValueError", "MissingValueError", "Values", "World", "canonical_json",
    "is_reference", "kept", "reference_to",
]  # fmt: skip

INLINE_BYTES = 64 * 1024
PREVIEW_CHARS = 512
_FEW = 8
_SMALL_TEXT = 128
_PLAIN = frozenset({bool, int, float, type(None)})


class MissingValueError(LookupError):
    """A stored value is needed that was not given; load it and decide again."""

    def __init__(self, ref: str) -> None:
        super().__init__(ref)
        self.ref = ref


class LostValueError(LookupError):
    """A stored value is needed that exists nowhere any more; the expression that reads it fails."""

    def __init__(self, ref: str) -> None:
        super().__init__(f"the stored value {ref[:80]} is gone")
        self.ref = ref


class Values(Protocol):
    """Gives stored values by their reference."""

    def load(self, ref: str) -> Any:
        """Return the value; raise MissingValueError if it is not at hand, LostValueError if there is none."""
        ...


@dataclass(slots=True)
class KnownValues:
    """Values that are at hand."""

    by_ref: dict[str, Any] = field(default_factory=dict)

    def load(self, ref: str) -> Any:
        """Return the value, or raise MissingValueError."""
        try:
            return self.by_ref[ref]
        except KeyError:
            raise MissingValueError(ref) from None


@dataclass(frozen=True, slots=True)
class World:
    """The surroundings of one decision."""

    now: datetime
    chance: Chance
    values: Values = field(default_factory=KnownValues)
    env: Mapping[str, str] = field(default_factory=dict)


def canonical_json(value: Any) -> str:
    """Return the one text of a value that its hash is taken of."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), sort_keys=True)


def reference_to(text: str) -> dict[str, Any]:
    """Return the reference under which a value with this canonical text is stored."""
    raw = text.encode()
    digest = hashlib.sha256(raw).hexdigest()
    return {"_ref": f"sha256:{digest}", "_size": len(raw), "_sha256": digest, "_preview": text[:PREVIEW_CHARS]}


def kept(value: Any, stored: dict[str, Any], limit: int = INLINE_BYTES) -> Any:
    """Return the value itself if it is small, else a reference, with the value put among those to store."""
    if _is_surely_small(value) or is_reference(value):
        return value
    text = canonical_json(value)
    if _fits(text, limit):
        return value
    reference = reference_to(text)
    stored[reference["_ref"]] = value
    return reference


def _fits(text: str, limit: int) -> bool:
    return len(text) <= limit and (text.isascii() or len(text.encode("utf-8", "surrogatepass")) <= limit)


def _is_surely_small(value: Any) -> bool:
    """Say whether a value is small at first sight, so that it need not be written out to be measured."""
    if isinstance(value, str):
        return len(value) < _SMALL_TEXT
    if isinstance(value, dict):
        value = [*value, *value.values()] if len(value) <= _FEW else None
    elif isinstance(value, list):
        value = value if len(value) <= _FEW else None
    else:
        return True
    if value is None:
        return False
    return all(type(item) in _PLAIN or (type(item) is str and len(item) < _SMALL_TEXT) for item in value)
