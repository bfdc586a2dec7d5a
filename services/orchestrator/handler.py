"""One micro-batch of executions: load, decide, commit, publish."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from services.orchestrator.cache import CachedValues, States
from services.orchestrator.children import Nursery
from services.orchestrator.programs import Programs
from services.orchestrator.publish import Publisher
from shared.contracts.events import Event
from shared.engine.chance import SeededChance
from shared.engine.decide import decide
from shared.engine.evolve import evolve
from shared.engine.program import Program
from shared.engine.snapshot import restore, snapshot
from shared.engine.state import State
from shared.engine.stimuli import Stimulus, TimerFired
from shared.engine.turn import Decision
from shared.engine.world import MissingValueError, World
from shared.runtime.crashpoints import crash_point
from shared.store.port import Batch, Store
from shared.store.records import DecisionRecord, Head, NewExecution

SNAPSHOT_EVERY = 50
MAX_FETCHES = 10_000


@dataclass(slots=True)
class Told:
    """What one execution was told in this batch, and what followed from it."""

    state: State
    decisions: list[Decision] = field(default_factory=list)
    ignored: list[str] = field(default_factory=list)
    fired: list[str] = field(default_factory=list)
    children: list[NewExecution] = field(default_factory=list)
    facts: list[Event] = field(default_factory=list)


class Handler:
    """Decides for executions that were woken; the same wake-up twice finds nothing left to do."""

    def __init__(
        self,
        store: Store,
        publisher: Publisher,
        *,
        env: Mapping[str, str] | None = None,
        committed: Callable[[Sequence[Decision]], None] | None = None,
    ) -> None:
        self._store = store
        self._committed = committed
        self._publisher = publisher
        self._programs = Programs(store)
        self._nursery = Nursery(store)
        self._states = States()
        self._values = CachedValues()
        self._env = env or {}

    async def handle(self, executions: Sequence[str], timers: Mapping[str, Sequence[str]] | None = None) -> int:
        """Apply every stored fact of these executions, commit what follows, publish it; return how much was decided."""
        timers = timers or {}
        told: list[Told] = []
        async with self._store.deciding({*executions, *timers}) as batch:
            for head in batch.executions.values():
                found = await self._decide(batch, head, timers.get(head.execution_id, ()))
                if found is not None:
                    told.append(found)
            crash_point("orchestrator.before_commit")
        crash_point("orchestrator.after_commit")
        for found in told:
            self._states.put(found.state)
        decisions = [decision for found in told for decision in found.decisions]
        try:
            await self._publisher.publish(
                decisions,
                [child.execution_id for found in told for child in found.children],
                [fact.execution_id for found in told for fact in found.facts],
            )
        finally:
            if self._committed is not None:
                self._committed(decisions)
        return len(decisions)

    async def _decide(self, batch: Batch, head: Head, timers: Sequence[str]) -> Told | None:
        facts = batch.unapplied.get(head.execution_id, [])
        stimuli: list[Stimulus] = [*facts, *(TimerFired(job_id) for job_id in timers)]
        if not stimuli:
            return None
        program = await self._programs.of(head.plan_digest)
        for _ in range(MAX_FETCHES):
            state = await self._state(batch, head)
            try:
                told = self._tell(program, state, stimuli, batch)
            except MissingValueError as missing:
                self._values.put(missing.ref, await batch.result(missing.ref))
                continue
            await self._nursery.settle(told.decisions, told.children, told.facts)
            self._record(batch, head, told)
            return told
        raise RuntimeError(f"execution {head.execution_id} needs more than {MAX_FETCHES} stored values at once")

    async def _state(self, batch: Batch, head: Head) -> State:
        """Return the state at the stored version: the cached one, or the snapshot and the events after it."""
        state = self._states.take(head.execution_id, head.version)
        if state is not None:
            return state
        if head.version == 0:
            return State(head.execution_id)
        history = (await batch.histories([head.execution_id]))[head.execution_id]
        state = restore(history.snapshot) if history.snapshot is not None else State(head.execution_id)
        for event in history.events:
            evolve(state, event)
        return state

    def _tell(self, program: Program, state: State, stimuli: Sequence[Stimulus], batch: Batch) -> Told:
        world = World(batch.now, SeededChance(state.execution_id), self._values, self._env)
        told = Told(state)
        for stimulus in stimuli:
            decision = decide(program, state, stimulus, world)
            if decision.held:
                continue
            for ref, value in decision.stored.items():
                self._values.put(ref, value)
            if not decision.is_nothing:
                told.decisions.append(decision)
            elif isinstance(stimulus, Event):
                told.ignored.append(stimulus.identity)
            if isinstance(stimulus, TimerFired):
                told.fired.append(stimulus.job_id)
        return told

    def _record(self, batch: Batch, head: Head, told: Told) -> None:
        if not told.decisions and not told.ignored and not told.fired:
            return
        state = told.state
        is_due = state.is_over or state.seq - head.snapshot_seq >= SNAPSHOT_EVERY
        record = DecisionRecord(
            version=state.seq,
            status=state.status,
            decisions=tuple(told.decisions),
            snapshot=snapshot(state) if is_due else None,
            ignored=tuple(told.ignored),
            fired=tuple(told.fired),
            children=tuple(told.children),
            facts=tuple(told.facts),
        )
        batch.record(head.execution_id, record)
