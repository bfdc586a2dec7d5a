"""Whatever the order, number and delay of what is reported, an execution comes to the same end."""

import heapq
import json
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import partial
from random import Random
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from shared.contracts import payloads as p
from shared.contracts.events import Event, event_to_json
from shared.contracts.ids import fact_id
from shared.contracts.jobs import Job, job_to_json
from shared.engine.chance import SeededChance
from shared.engine.decide import decide, requested
from shared.engine.program import Program
from shared.engine.rehearsal import START
from shared.engine.snapshot import restore, snapshot
from shared.engine.state import State
from shared.engine.stimuli import Pause, Resume, Stimulus, TimerFired
from shared.engine.turn import Decision
from shared.engine.workload import merged_workload
from shared.engine.world import World
from tests.support.generated_playbooks import Scenario, Tools, scenarios

LONGEST_LATENCY_S = 20.0
EXECUTION = "e1"


@dataclass(frozen=True)
class Trouble:
    """How badly messages are treated: late, repeated, forgotten by a restart, held up by a pause."""

    seed: int
    latency: float = 0.0
    repeats: float = 0.0
    restarts: float = 0.0
    pauses: float = 0.0


CALM = Trouble(0)
troubles = st.builds(
    Trouble,
    st.integers(0, 2**32),
    latency=st.sampled_from([0.0, 0.3, 1.0]),
    repeats=st.sampled_from([0.0, 0.3, 1.0]),
    restarts=st.sampled_from([0.0, 0.3]),
    pauses=st.sampled_from([0.0, 0.05]),
)


class Delivery:
    """An execution whose messages are carried badly; what is due at one instant comes in any order."""

    def __init__(self, scenario: Scenario, trouble: Trouble) -> None:
        self.program = Program(scenario.plan)
        self.state = State(EXECUTION)
        self.log: list[Event] = []
        self.jobs: dict[str, Job] = {}
        self.cancelled: set[str] = set()
        self.now = START
        self._tools = Tools(scenario)
        self._trouble = trouble
        self._random = Random(trouble.seed)
        self._due: list[tuple[datetime, float, int, Callable[[], object]]] = []
        self._held: list[Stimulus] = []
        self._count = 0
        workload = merged_workload(self.program.plan, None)
        self._report(requested(EXECUTION, p.ExecutionRequested("plan", workload)), 0.0)

    def run(self) -> "Delivery":
        """Carry everything there is to carry."""
        while self._due:
            self.now, _, _, act = heapq.heappop(self._due)
            act()
        return self

    def tell(self, stimulus: Stimulus) -> Decision:
        """Let the execution hear something now."""
        if self._is_hit(self._trouble.restarts):
            self.state = restore(json.loads(json.dumps(snapshot(self.state))))
        decision = decide(self.program, self.state, stimulus, World(self.now, SeededChance(EXECUTION)))
        if decision.held:
            self._held.append(stimulus)
        self.log += decision.events
        self.cancelled.update(decision.cancelled)
        for job in decision.jobs:
            self.jobs[job.job_id] = job
            assert job.available_at is not None
            self._at(job.available_at, self._late(), partial(self._hand_over, job))
        if self.state.status == "running" and self._is_hit(self._trouble.pauses):
            self._pause()
        return decision

    def facts_of(self, job: Job) -> list[Event]:
        """Return what a worker reports of a job."""
        outcome, _ = self._tools.run(job)
        said = [p.TaskStarted(job.job_id, "w"), p.TaskProcessed(job.job_id, outcome.as_json())]
        names = ["started", "processed"]
        return [
            Event(EXECUTION, payload, job.address, event_id=fact_id(job.job_id, name), occurred_at=self.now, source="w")
            for payload, name in zip(said, names, strict=True)
        ]

    def _hand_over(self, job: Job) -> None:
        if job.role == "timer":
            self._report(TimerFired(job.job_id), 0.0)
        elif job.job_id not in self.cancelled or self._is_hit(self._trouble.repeats):
            started, processed = self.facts_of(job)
            self._report(started, 0.0)
            self._report(processed, self._tools.run(job)[1])

    def _report(self, stimulus: Stimulus, after_s: float) -> None:
        times = 1 + self._is_hit(self._trouble.repeats) + self._is_hit(self._trouble.repeats)
        for _ in range(times):
            self._at(self.now, after_s + self._late(), partial(self.tell, stimulus))

    def _pause(self) -> None:
        self.tell(Pause())
        self._at(self.now, self._late(), self._resume)

    def _resume(self) -> None:
        if self.state.status == "paused":
            self.tell(Resume())
            held, self._held = self._held, []
            for stimulus in held:
                self.tell(stimulus)

    def _at(self, when: datetime, after_s: float, act: Callable[[], object]) -> None:
        self._count += 1
        lot = self._random.random() if self._trouble is not CALM else 0.0
        heapq.heappush(self._due, (when + timedelta(seconds=after_s), lot, self._count, act))

    def _late(self) -> float:
        return self._random.uniform(0, LONGEST_LATENCY_S) if self._is_hit(self._trouble.latency) else 0.0

    def _is_hit(self, chance: float) -> bool:
        return self._random.random() < chance


def end(delivery: Delivery) -> dict[str, Any]:
    """Return all of an execution's end that does not name a time or the place of an event in the log."""
    state = delivery.state
    attempts = Counter(job.address.node for job in delivery.jobs.values())
    endings: dict[str, Any] = {}
    for entry in delivery.log:
        match entry.payload:
            case p.IterationCompleted(result=result):
                endings[_node(entry)] = result
            case p.IterationFailed(error=error):
                endings[_node(entry)] = error["kind"]
            case p.StepCompleted(result=result):
                endings[_node(entry)] = ["completed", result]
            case p.StepFailed(error=error):
                endings[_node(entry)] = ["failed", error["kind"]]
            case p.TaskRetryScheduled(delay_s=delay_s):
                endings[_node(entry)] = delay_s
            case _:
                pass
    return {
        "status": state.status,
        "result": state.result,
        "ctx": state.ctx,
        "attempts": attempts,
        "visits": state.visits,
        "endings": endings,
    }


def _node(entry: Event) -> str:
    assert entry.address is not None
    return entry.address.node


def decision_json(decision: Decision) -> Any:
    """Return a decision as data that compares."""
    events = [event_to_json(entry) for entry in (*decision.events, *decision.facts)]
    others = [decision.cancelled, decision.stored, decision.held, repr(decision.children)]
    return json.loads(json.dumps([events, [job_to_json(job) for job in decision.jobs], *others]))


@given(scenarios(steady=True), troubles)
def test_order_repetition_and_delay_change_nothing(scenario: Scenario, trouble: Trouble) -> None:
    calm = Delivery(scenario, CALM).run()

    troubled = Delivery(scenario, trouble).run()

    assert end(troubled) == end(calm)


@given(scenarios(steady=True), troubles)
def test_order_decides_only_which_failure_ends_an_execution(scenario: Scenario, trouble: Trouble) -> None:
    hasty = replace(scenario, text=scenario.text.replace('"finish"', '"fail_fast"'))

    finished, cut_short = Delivery(scenario, CALM).run(), Delivery(hasty, trouble).run()

    assert cut_short.state.status == finished.state.status
    assert end(cut_short)["attempts"].keys() <= end(finished)["attempts"].keys()


@given(scenarios(wild=True), troubles)
def test_every_execution_ends_whatever_happens_to_its_messages(scenario: Scenario, trouble: Trouble) -> None:
    delivery = Delivery(scenario, trouble).run()

    assert delivery.state.is_over
    assert not delivery.state.runs
    assert not delivery.state.tokens or delivery.state.status == "failed"


@given(scenarios(wild=True), troubles)
def test_a_fact_has_one_place_in_the_log(scenario: Scenario, trouble: Trouble) -> None:
    delivery = Delivery(scenario, trouble).run()

    assert [entry.seq for entry in delivery.log] == list(range(1, len(delivery.log) + 1))
    assert [name for name, count in Counter(entry.identity for entry in delivery.log).items() if count > 1] == []


@given(scenarios(wild=True), troubles)
def test_after_the_end_nothing_is_in_flight_and_nothing_is_heard(scenario: Scenario, trouble: Trouble) -> None:
    delivery = Delivery(scenario, trouble).run()
    answered = {entry.payload.job_id for entry in delivery.log if isinstance(entry.payload, p.TaskProcessed)}
    before = snapshot(delivery.state)

    late: list[Stimulus] = [TimerFired(name) for name in delivery.jobs]
    late += [fact for job in delivery.jobs.values() for fact in delivery.facts_of(job)]
    decisions = [delivery.tell(stimulus) for stimulus in late]

    timers = {job.job_id for job in delivery.jobs.values() if job.role == "timer"}
    assert set(delivery.jobs) - answered - delivery.cancelled <= timers
    assert all(decision.is_nothing for decision in decisions)
    assert snapshot(delivery.state) == before


@settings(max_examples=settings().max_examples // 2)
@given(scenarios(wild=True), troubles)
def test_the_same_state_and_stimulus_give_the_same_decision(scenario: Scenario, trouble: Trouble) -> None:
    delivery = Twice(scenario, trouble)

    delivery.run()


class Twice(Delivery):
    """Takes every decision twice and compares."""

    def tell(self, stimulus: Stimulus) -> Decision:
        before = json.dumps(snapshot(self.state))
        first, second = (restore(json.loads(before)) for _ in range(2))
        world = World(self.now, SeededChance(EXECUTION))
        one, other = (decide(self.program, state, stimulus, world) for state in (first, second))
        assert decision_json(one) == decision_json(other)
        assert snapshot(first) == snapshot(second)
        return super().tell(stimulus)
