"""The state of one execution: what is running, what waits, what is known; small, whatever the history's length."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from shared.contracts.ids import Address
from shared.engine.ranges import Ranges

NO_LOOP = -1


@dataclass(slots=True)
class Token:
    """A right to run a step, with what the arc carried and the fan-outs it was born of."""

    id: int
    step: str
    args: dict[str, Any] = field(default_factory=dict)
    groups: tuple[int, ...] = ()
    origin: str | None = None


@dataclass(slots=True)
class Group:
    """One inclusive fan-out: where it happened and which steps its branches began with."""

    fan: str
    heads: tuple[str, ...]


@dataclass(slots=True)
class Frame:
    """One pass through a pipeline: of a step, or of one iteration of its loop."""

    iteration: int | None = None
    task: str | None = None
    page: int = 1
    attempt: int = 0
    tries: int = 0
    calls: int = 0
    job_id: str | None = None
    kind: str | None = None
    signal: str | None = None
    started: bool = False
    since: float = 0.0
    element: Any = None
    source_index: int | None = None
    iter: dict[str, Any] = field(default_factory=dict)
    names: dict[str, Any] = field(default_factory=dict)
    results: dict[str, Any] = field(default_factory=dict)
    entries: dict[str, int] = field(default_factory=dict)
    jumps: dict[str, int] = field(default_factory=dict)
    gathered: list[Any] = field(default_factory=list)
    next_call: dict[str, Any] | None = None
    sequence: dict[str, Any] | None = None
    outcome: dict[str, Any] | None = None
    outcome_id: str | None = None
    cause: str | None = None


@dataclass(slots=True)
class Batch:
    """Elements that wait for their iterations; where `first` is none, each stands behind the index it had before."""

    elements: Any
    size: int
    first: int | None = None
    taken: int = 0


@dataclass(slots=True)
class Claims:
    """What a cursor brought: the elements that wait, those whose iteration failed, and whether more may come."""

    max_rows: int
    process: str = "row"
    tolerate_percent: bool = False
    is_exhausted: bool = False
    waiting: list[Batch] = field(default_factory=list)
    failed: list[list[Any]] = field(default_factory=list)
    failed_bytes: int = 0
    set_aside: list[Batch] = field(default_factory=list)


@dataclass(slots=True)
class LoopRun:
    """The progress of a loop: counters and ranges of numbers, never its results once they are large."""

    iterator: str
    total: int
    concurrency: int
    collection: Any = None
    sources: Any = None
    tolerate: float = 0
    parallel: bool = False
    collect: str = "all"
    next: int = 0
    redo: Ranges = field(default_factory=Ranges)
    succeeded: int = 0
    failed: Ranges = field(default_factory=Ranges)
    results: dict[int, Any] | None = field(default_factory=dict)
    result_bytes: int = 0
    errors: list[dict[str, Any]] = field(default_factory=list)
    ctx_writes: dict[str, Any] = field(default_factory=dict)
    claims: Claims | None = None

    @property
    def size(self) -> int | None:
        """Return how many elements the loop has, if that is known while it runs."""
        return self.total if self.claims is None else None


@dataclass(slots=True)
class StepRun:
    """One visit to a step; the claims of its loop have the frame that a step without a loop has."""

    step: str
    visit: int
    args: dict[str, Any] = field(default_factory=dict)
    groups: tuple[int, ...] = ()
    origin: str | None = None
    frames: dict[int, Frame] = field(default_factory=dict)
    loop: LoopRun | None = None
    timer: str | None = None
    failed: bool = False

    @property
    def key(self) -> str:
        """Return the run's name, `step~visit`."""
        return f"{self.step}~{self.visit}"

    @property
    def in_flight(self) -> int:
        """Return how many iterations are under way."""
        return len(self.frames) - (NO_LOOP in self.frames)

    def is_claim(self, frame: Frame) -> bool:
        """Say whether a frame claims elements for the loop instead of working on one."""
        return frame.iteration is None and self.loop is not None

    def address(self, frame: Frame | None = None, *, task: bool = False) -> Address:
        """Return the run's place in the execution, or a frame's, or its task's."""
        if frame is None:
            return Address(self.step, self.visit)
        if not task:
            return Address(self.step, self.visit, frame.iteration)
        return Address(self.step, self.visit, frame.iteration, frame.task, frame.page, frame.attempt)


@dataclass(slots=True)
class Known:
    """What later expressions can read of a step that ended."""

    value: Any = None
    status: str = "success"
    tasks: dict[str, Any] = field(default_factory=dict)
    stats: dict[str, Any] | None = None
    errors: Any = None
    error: dict[str, Any] | None = None


@dataclass(slots=True)
class State:
    """Everything a decision needs to know of an execution besides its Plan."""

    execution_id: str
    status: str = "new"
    seq: int = 0
    workload: Any = None
    parent: dict[str, Any] | None = None
    ctx: dict[str, Any] = field(default_factory=dict)
    runs: dict[str, StepRun] = field(default_factory=dict)
    tokens: dict[int, Token] = field(default_factory=dict)
    groups: dict[int, Group] = field(default_factory=dict)
    visits: dict[str, int] = field(default_factory=dict)
    known: dict[str, Known] = field(default_factory=dict)
    last_completed: str | None = None
    suspended: dict[str, StepRun] = field(default_factory=dict)
    fired_joins: set[tuple[str, int]] = field(default_factory=set)
    signals: dict[str, list[Any]] = field(default_factory=dict)
    failure: dict[str, Any] | None = None
    result: Any = None
    timer: str | None = None
    next_token: int = 1
    next_group: int = 1

    @property
    def is_over(self) -> bool:
        """Say whether the execution has ended."""
        return self.status in ("completed", "failed", "cancelled")

    def frames(self) -> Iterator[tuple[StepRun, Frame]]:
        """Give every frame that is under way, with its run."""
        for run in self.runs.values():
            for frame in run.frames.values():
                yield run, frame

    def find(self, address: Address) -> tuple[StepRun, Frame] | None:
        """Return the frame an address points into, if it is under way."""
        run = self.runs.get(f"{address.step}~{address.visit}")
        if run is None:
            return None
        frame = run.frames.get(NO_LOOP if address.iteration is None else address.iteration)
        return None if frame is None else (run, frame)
