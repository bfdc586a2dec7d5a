"""One decision under way: the state as it changes, the events written so far, the work that follows from them."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from shared.contracts.events import Event
from shared.contracts.ids import Address
from shared.contracts.jobs import Job
from shared.contracts.payloads import IterationCompleted, Payload
from shared.contracts.pools import ORCHESTRATOR_POOL
from shared.engine.evolve import evolve
from shared.engine.program import Program
from shared.engine.render import NO_NAMES, Renderer
from shared.engine.scope import Scope
from shared.engine.state import Frame, State, StepRun
from shared.engine.world import INLINE_BYTES, Values, World, kept

SOURCE = "orchestrator"
TIMER_POOL = ORCHESTRATOR_POOL
MAX_PAUSE_S = 100 * 366 * 86400.0


@dataclass(frozen=True, slots=True)
class Child:
    """A child execution to start: its id follows from the job that asked for it."""

    execution_id: str
    job_id: str
    path: str
    version: Any
    workload: dict[str, Any]
    parent: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Decision:
    """What a stimulus led to: events to store, jobs to publish, and what concerns other executions."""

    events: tuple[Event, ...] = ()
    jobs: tuple[Job, ...] = ()
    children: tuple[Child, ...] = ()
    facts: tuple[Event, ...] = ()
    cancelled: tuple[str, ...] = ()
    stored: dict[str, Any] = field(default_factory=dict)
    held: bool = False

    @property
    def is_nothing(self) -> bool:
        """Say whether nothing follows."""
        return not self.events and not self.held


class _Layered:
    """Values at hand, those that this very decision brings about included."""

    __slots__ = ("_beneath", "_turn")

    def __init__(self, turn: Turn, beneath: Values) -> None:
        self._turn = turn
        self._beneath = beneath

    def load(self, ref: str) -> Any:
        if ref in self._turn.stored:
            return self._turn.stored[ref]
        found = self._beneath.load(ref)
        return self._with_latest(ref, found) if ref.startswith("loop:") else found

    def _with_latest(self, ref: str, results: list[Any]) -> list[Any]:
        """Return the results of a loop with those that ended in this decision and that no log holds yet."""
        run = ref.rpartition("/")[2]
        out = list(results)
        for event in self._turn.events:
            said, place = event.payload, event.address
            if isinstance(said, IterationCompleted) and place is not None and f"{place.step}~{place.visit}" == run:
                out.extend([None] * (said.index + 1 - len(out)))
                out[said.index] = said.result
        return out


class Turn:
    """Collects a decision; every event is applied to the state as soon as it is written."""

    def __init__(self, program: Program, state: State, world: World) -> None:
        self.program = program
        self.state = state
        self.stored: dict[str, Any] = {}
        self.world = World(world.now, world.chance, _Layered(self, world.values), world.env)
        self.events: list[Event] = []
        self.jobs: list[Job] = []
        self.children: list[Child] = []
        self.facts: list[Event] = []
        self.cancelled: list[str] = []
        self.ready: deque[tuple[StepRun, Frame]] = deque()

    def emit(
        self,
        payload: Payload,
        address: Address | None = None,
        *,
        parent: str | None = None,
        meta: dict[str, Any] | None = None,
    ) -> Event:
        """Write an event at the next place of the log and apply it."""
        state = self.state
        seq = state.seq + 1
        event = Event(
            execution_id=state.execution_id,
            payload=payload,
            address=address,
            seq=seq,
            parent_event_id=parent,
            retry_sequence_id=address.sequence if address is not None and address.task is not None else None,
            occurred_at=self.world.now,
            source=SOURCE,
            meta=meta or {},
        )
        self.events.append(event)
        evolve(state, event)
        return event

    def accept(self, fact: Event, *, parent: str | None = None) -> None:
        """Give a fact from outside its place in the log and apply it; `parent` led to it, if it names none."""
        address = fact.address
        sequence = address.sequence if address is not None and address.task is not None else None
        event = Event(
            execution_id=fact.execution_id,
            payload=fact.payload,
            address=address,
            seq=self.state.seq + 1,
            event_id=fact.event_id,
            parent_event_id=fact.parent_event_id or parent,
            retry_sequence_id=fact.retry_sequence_id or sequence,
            occurred_at=fact.occurred_at or self.world.now,
            source=fact.source,
            meta=fact.meta,
        )
        self.events.append(event)
        evolve(self.state, event)

    def scope(self, run: StepRun | None = None, frame: Frame | None = None, **more: Any) -> Scope:
        """Return the scope of an expression that stands in this run and frame."""
        args = more.pop("args", run.args if run is not None else {})
        return Scope(self.program, self.state, self.world, run, frame, args=args, **more)

    def renderer(self, scope: Scope, later: frozenset[str] = NO_NAMES) -> Renderer:
        """Return a renderer that is as strict as the playbook, and leaves what reads these names to the worker."""
        return Renderer(scope, strict=self.program.plan.strict, later=later, keep=self.keep)

    def keep(self, value: Any, limit: int = INLINE_BYTES) -> Any:
        """Return a value, or a reference to it if it is large."""
        return kept(value, self.stored, limit)

    def later(self, delay_s: float) -> datetime:
        """Return the time a number of seconds from now."""
        return self.world.now + timedelta(seconds=min(delay_s, MAX_PAUSE_S))

    def timer(self, identity: str, address: Address, seconds: float) -> Job:
        """Return a job that wakes the orchestrator itself."""
        return Job(
            job_id=identity,
            execution_id=self.state.execution_id,
            address=address,
            kind="timer",
            config={"timeout_s": seconds},
            pool=TIMER_POOL,
            available_at=self.later(seconds),
            delay_s=seconds,
            role="timer",
        )

    def decision(self) -> Decision:
        """Return what was collected."""
        return Decision(
            tuple(self.events),
            tuple(self.jobs),
            tuple(self.children),
            tuple(self.facts),
            tuple(self.cancelled),
            self.stored,
        )
