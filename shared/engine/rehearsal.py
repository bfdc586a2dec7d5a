"""A whole execution on simulated time: the real decider, with outcomes that are given instead of tools that run."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from shared.contracts.events import Event
from shared.contracts.ids import Address, fact_id, parse_node
from shared.contracts.jobs import Job
from shared.contracts.outcomes import Outcome, failure, success
from shared.contracts.payloads import (
    ExecutionRequested,
    IterationCompleted,
    LoopClaimed,
    LoopStarted,
    SignalReceived,
    StepStarted,
    TaskProcessed,
    TaskStarted,
)
from shared.engine.chance import SeededChance
from shared.engine.decide import decide, requested
from shared.engine.program import Program
from shared.engine.state import State
from shared.engine.stimuli import Stimulus, TimerFired
from shared.engine.tasks import ERROR_KIND
from shared.engine.turn import Child, Decision
from shared.engine.workload import merged_workload
from shared.engine.world import KnownValues, World

START = datetime(2026, 1, 1, tzinfo=UTC)
MAX_JOBS = 1_000_000


@dataclass(frozen=True, slots=True)
class Reply:
    """What a tool would have answered, and how long it would have taken."""

    outcome: Outcome
    duration_s: float = 0.0


Respond = Callable[[Job], Reply | Outcome]


@dataclass(slots=True)
class Rehearsed:
    """One execution of a rehearsal: its state, its log and the jobs it asked for."""

    program: Program
    state: State
    log: list[Event] = field(default_factory=list)
    jobs: list[Job] = field(default_factory=list)
    held: list[Stimulus] = field(default_factory=list)


class _Stored(KnownValues):
    """Values that decisions stored, and the results of large loops, which the logs hold."""

    def __init__(self, executions: Mapping[str, Rehearsed]) -> None:
        super().__init__()
        self._executions = executions

    def load(self, ref: str) -> Any:
        """Return the value, or raise MissingValueError."""
        return self._of_loop(ref) if ref.startswith("loop:") else super().load(ref)

    def _of_loop(self, ref: str) -> list[Any]:
        """Return the results of a loop in order, of all the runs that it took: a redriven one resumes another."""
        execution_id, _, run = ref.removeprefix("loop:").partition("/")
        wanted: set[str | None] = {run}
        size, results = 0, dict[int, Any]()
        for event in reversed(self._executions[execution_id].log):
            if event.address is None or f"{event.address.step}~{event.address.visit}" not in wanted:
                continue
            match event.payload:
                case StepStarted(resumes=resumed):
                    wanted.add(resumed)
                case LoopStarted(collection_size=int(found)):
                    size = found
                case LoopClaimed(first=first, iterations=count):
                    size = max(size, first + count)
                case IterationCompleted(index=index, result=result):
                    results.setdefault(index, result)
        return [results.get(index) for index in range(size)]


class Rehearsal:
    """Runs executions to their end without broker, store, worker or clock."""

    def __init__(
        self,
        respond: Respond,
        *,
        playbooks: Mapping[str, Program] | None = None,
        start: datetime = START,
        env: Mapping[str, str] | None = None,
        keep_log: bool = True,
        respond_for_children: bool = False,
    ) -> None:
        self.now = start
        self.executions: dict[str, Rehearsed] = {}
        self._respond = respond
        self._playbooks = playbooks or {}
        self._env = env or {}
        self._keep_log = keep_log
        self._respond_for_children = respond_for_children
        self._due: list[tuple[datetime, int, str, Job | Event]] = []
        self._count = 0
        self._cancelled: set[str] = set()
        self.values: KnownValues = _Stored(self.executions)

    def submit(self, program: Program, workload: dict[str, Any] | None = None, execution_id: str = "e1") -> Rehearsed:
        """Ask for an execution; nothing runs until `run` is called."""
        said = ExecutionRequested("plan", merged_workload(program.plan, workload))
        return self._begin(program, execution_id, said)

    def _begin(self, program: Program, execution_id: str, said: ExecutionRequested) -> Rehearsed:
        found = Rehearsed(program, State(execution_id))
        self.executions[execution_id] = found
        self.tell(execution_id, requested(execution_id, said))
        return found

    def tell(self, execution_id: str, stimulus: Stimulus) -> Decision:
        """Give a stimulus to an execution now, and take up what follows."""
        found = self.executions[execution_id]
        world = World(self.now, SeededChance(execution_id), self.values, self._env)
        decision = decide(found.program, found.state, stimulus, world)
        if decision.held:
            found.held.append(stimulus)
        self._take_up(found, decision)
        return decision

    def release(self, execution_id: str) -> None:
        """Tell an execution again what it was told while it was paused."""
        found = self.executions[execution_id]
        waiting, found.held = found.held, []
        for stimulus in waiting:
            self.tell(execution_id, stimulus)

    def signal(self, execution_id: str, name: str, payload: Any = None) -> Decision:
        """Send a signal to an execution."""
        self._count += 1
        identity = fact_id(execution_id, f"signal:{self._count}")
        fact = Event(execution_id, SignalReceived(name, payload), event_id=identity, occurred_at=self.now, source="api")
        return self.tell(execution_id, fact)

    def expect(self, fact: Event) -> None:
        """Have a fact told at the time it speaks of."""
        self._push(max(self.now, fact.occurred_at or self.now), fact.execution_id, fact)

    def run(self, until: datetime | None = None) -> None:
        """Let time pass until nothing is due any more, or until the given time."""
        while self._due and (until is None or self._due[0][0] <= until):
            when, _, execution_id, item = heapq.heappop(self._due)
            self.now = max(self.now, when)
            if isinstance(item, Event):
                if execution_id in self.executions:
                    self.tell(execution_id, item)
            elif item.job_id not in self._cancelled:
                self._work(execution_id, item)
        if until is not None:
            self.now = max(self.now, until)

    def _take_up(self, found: Rehearsed, decision: Decision) -> None:
        self.values.by_ref.update(decision.stored)
        if self._keep_log:
            found.log.extend(decision.events)
            found.jobs.extend(decision.jobs)
        self._cancelled.update(decision.cancelled)
        for job in decision.jobs:
            if job.available_at is not None:
                self._push(job.available_at, found.state.execution_id, job)
        for child in decision.children:
            self._start_child(found.state.execution_id, child)
        for fact in decision.facts:
            self._push(self.now, fact.execution_id, fact)

    def _push(self, when: datetime, execution_id: str, item: Job | Event) -> None:
        self._count += 1
        if self._count > MAX_JOBS:
            raise RuntimeError(f"more than {MAX_JOBS:,} jobs; the playbook does not end")
        heapq.heappush(self._due, (when, self._count, execution_id, item))

    def _start_child(self, parent_id: str, child: Child) -> None:
        program = self._playbooks.get(child.path)
        if program is None:
            job = Job(child.job_id, parent_id, _node(child.parent["node"]), "playbook")
            absent = Reply(failure("child", f"no playbook '{child.path}'"))
            reply = self._reply(job) if self._respond_for_children else absent
            ended = self.now + timedelta(seconds=reply.duration_s)
            self._push(ended, parent_id, self._processed(job, reply.outcome, ended))
            return
        workload = merged_workload(program.plan, child.workload)
        self._begin(program, child.execution_id, ExecutionRequested("plan", workload, child.parent))

    def _work(self, execution_id: str, job: Job) -> None:
        if job.role == "timer":
            self.tell(execution_id, TimerFired(job.job_id))
            return
        self.tell(execution_id, self._started(job))
        reply = self._reply(job)
        ended = self.now + timedelta(seconds=reply.duration_s)
        fact = self._processed(job, reply.outcome, ended)
        if reply.duration_s > 0:
            self._push(ended, execution_id, fact)
        else:
            self.tell(execution_id, fact)

    def _reply(self, job: Job) -> Reply:
        if job.kind == ERROR_KIND:
            return Reply(Outcome("error", error=job.config))
        if job.kind == "wait":
            late = failure("timeout", f"no signal '{job.config.get('signal')}' came in time")
            return Reply(late if job.role == "signal" else success())
        answer = self._respond(job)
        return answer if isinstance(answer, Reply) else Reply(answer)

    def _started(self, job: Job) -> Event:
        attempt = job.address.attempt or 1
        retry = {"attempt": attempt, "max_attempts": job.max_attempts, "is_retry": attempt > 1}
        said = TaskStarted(job.job_id, "rehearsal", 1, retry)
        identity = fact_id(job.job_id, "started")
        return Event(job.execution_id, said, job.address, event_id=identity, occurred_at=self.now, source="worker:r")

    def _processed(self, job: Job, outcome: Outcome, at: datetime) -> Event:
        meta = {"attempt": job.address.attempt, **outcome.meta}
        said = TaskProcessed(job.job_id, {**outcome.as_json(), "meta": meta})
        identity = fact_id(job.job_id, "processed")
        return Event(job.execution_id, said, job.address, event_id=identity, occurred_at=at, source="worker:r")


def _node(text: str) -> Address:
    found = parse_node(text)
    assert found is not None
    return found
