"""What is measured of each system, in one form for all."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from bench.system import load_average, percentile

STEPS = 5
DELAY_S = 15
COUNTED_FOR_S = 60.0


@dataclass(frozen=True, slots=True)
class Drill:
    """How many executions waited for their second attempt when all was killed, and how many of them completed."""

    waiting: int
    completed: int

    def __str__(self) -> str:
        return f"{self.completed} of {self.waiting}"


@dataclass(frozen=True, slots=True)
class Latency:
    """Milliseconds, while nothing else runs."""

    executions: int
    ms_per_step: float
    ms_between_steps: float


class Load:
    """How much else the machine had to do: its load average when a system was begun with, and when it was measured."""

    def __init__(self) -> None:
        self._before = load_average()

    def seen(self) -> list[float]:
        """Return both."""
        return [self._before, load_average()]


@dataclass(frozen=True, slots=True)
class Figures:
    """Everything that was measured of one system."""

    name: str
    version: str
    executions: int
    steps_per_s: float
    latency: Latency
    worker_killed: Drill
    broker_wiped: Drill | None
    rows_per_execution: float
    setup: str
    load: Sequence[float]
    also: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Sizes:
    """How much of each there is."""

    executions: int
    warm_up: int
    singles: int
    retried: int


def rate(executions: int, work: Callable[[], None]) -> float:
    """Return the steps a second that a work makes which runs so many executions."""
    began = time.monotonic()
    work()
    return round(executions * STEPS / (time.monotonic() - began), 1)


def one_by_one(count: int, run: Callable[[int], None]) -> list[float]:
    """Run executions one after the other, and return when each was submitted."""
    submitted = []
    for number in range(1, count + 1):
        submitted.append(time.time())
        run(number)
    return submitted


def latency(submitted: Sequence[float], marks: Sequence[Sequence[float]], ended: Sequence[float]) -> Latency:
    """Return the medians, from when each execution was submitted, took each step, and ended."""
    if not len(submitted) == len(marks) == len(ended):
        raise RuntimeError(f"{len(submitted)} were submitted, {len(marks)} ran, {len(ended)} ended")
    whole = [(end - start) * 1000 / STEPS for start, end in zip(submitted, ended, strict=True)]
    between = [(later - earlier) * 1000 for each in marks for earlier, later in pairwise(each)]
    return Latency(len(submitted), round(percentile(whole, 0.5), 1), round(percentile(between, 0.5), 1))


def in_groups(times: Sequence[float], size: int = STEPS) -> list[list[float]]:
    """Return times of executions that ran one after the other, by execution."""
    return [list(times[start : start + size]) for start in range(0, len(times), size)]


def left_s(since: float) -> float:
    """Return how much of the time remains in which an execution counts as completed."""
    return max(0.0, since + COUNTED_FOR_S - time.monotonic())


def expect(found: int, wanted: int, what: str) -> None:
    """Raise if fewer came than must have."""
    if found < wanted:
        raise RuntimeError(f"only {found} of {wanted} {what}")
