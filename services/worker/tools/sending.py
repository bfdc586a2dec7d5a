"""Who sends something out: what tools and sinks that do the same thing have in common."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

from services.worker.keychain import Credential

Lend = Callable[[Any], Awaitable[Credential]]


@dataclass(frozen=True, slots=True)
class Sending:
    """What marks the attempt however often it is delivered, the time it has, and where its credentials come from."""

    identity: str
    timeout_s: float | None
    lend: Lend = field(repr=False)
