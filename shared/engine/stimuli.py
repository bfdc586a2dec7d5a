"""What can be asked of an execution besides the facts that are reported about it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from shared.contracts.events import Event


@dataclass(frozen=True, slots=True)
class Cancel:
    """End the execution."""

    by: str | None = None
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class Pause:
    """Take no decision until it is resumed."""

    by: str | None = None
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class Resume:
    """Take decisions again."""

    by: str | None = None
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class Redrive:
    """Run again what failed, or a named step, of an execution that ended."""

    mode: Literal["failed", "step"] = "failed"
    step: str | None = None
    by: str | None = None
    reason: str | None = None
    workload: Any = None
    plan: str | None = None


@dataclass(frozen=True, slots=True)
class TimerFired:
    """The time of a step's run is up."""

    job_id: str


Command: TypeAlias = Cancel | Pause | Resume | Redrive
Stimulus: TypeAlias = Event | Command | TimerFired


class NotPossibleError(ValueError):
    """The execution is not in a state in which this can be asked of it."""
