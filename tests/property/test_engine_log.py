"""What the log of any execution says, and that the log alone is enough."""

import json
from collections import defaultdict
from datetime import datetime, timedelta

from hypothesis import given

from shared.contracts import payloads as p
from shared.contracts.events import Event, event_from_json, event_to_json
from shared.contracts.jobs import job_from_json, job_to_json
from shared.engine.evolve import evolve
from shared.engine.snapshot import restore, snapshot
from shared.engine.state import State
from shared.language.plan import Plan, Retry
from tests.property.test_engine_order import EXECUTION, Delivery, Trouble, troubles
from tests.support.generated_playbooks import Scenario, scenarios

MAX_CUTS = 80


def folded(state: State, log: list[Event]) -> State:
    for entry in log:
        state = evolve(state, entry)
    return state


def most_attempts(plan: Plan, step: str, task: str) -> int:
    """Return how often a task may be tried in a row by any of its rules."""
    found = plan.step(step)
    assert found is not None
    rules = [rule for item in found.tasks if item.name == task for rule in item.rules]
    limits = [rule.then.attempts for rule in rules if isinstance(rule.then, Retry)]
    return max([1, *(int(limit) for limit in limits if isinstance(limit, int | float))])


@given(scenarios(wild=True), troubles)
def test_every_event_and_job_survives_its_encoding(scenario: Scenario, trouble: Trouble) -> None:
    delivery = Delivery(scenario, trouble).run()
    for job in delivery.jobs.values():
        assert job_from_json(json.loads(json.dumps(job_to_json(job), allow_nan=False))) == job
    for entry in delivery.log:
        encoded = json.dumps(event_to_json(entry), allow_nan=False)
        decoded = event_from_json(json.loads(encoded))

        assert decoded.payload == entry.payload
        assert json.dumps(event_to_json(decoded)) == encoded


@given(scenarios(wild=True), troubles)
def test_events_since_a_snapshot_give_the_state_at_every_cut(scenario: Scenario, trouble: Trouble) -> None:
    delivery = Delivery(scenario, trouble).run()
    log = [event_from_json(json.loads(json.dumps(event_to_json(entry)))) for entry in delivery.log]
    whole = snapshot(delivery.state)

    assert snapshot(folded(State(EXECUTION), log)) == whole
    state = State(EXECUTION)
    for cut, entry in enumerate(log):
        if cut % (1 + len(log) // MAX_CUTS) == 0:
            kept = json.dumps(snapshot(state))
            assert snapshot(folded(restore(json.loads(kept)), log[cut:])) == whole
        state = evolve(state, entry)


@given(scenarios(wild=True), troubles)
def test_no_attempt_is_beyond_its_limit(scenario: Scenario, trouble: Trouble) -> None:
    delivery = Delivery(scenario, trouble).run()
    tries: dict[str, int] = {}
    calls: dict[str, int] = {}
    started: defaultdict[str, set[int]] = defaultdict(set)
    for entry in delivery.log:
        if entry.address is None or entry.address.task is None or entry.address.attempt is None:
            continue
        sequence = entry.address.sequence
        match entry.payload:
            case p.TaskScheduled():
                assert sequence not in tries
                tries[sequence] = calls[sequence] = 1
            case p.TaskRetryScheduled(retry_type="on_success", max_attempts=most):
                tries[sequence], calls[sequence] = 1, calls[sequence] + 1
                assert calls[sequence] <= most
            case p.TaskRetryScheduled(max_attempts=most):
                tries[sequence] += 1
                assert tries[sequence] <= most
                assert tries[sequence] <= most_attempts(scenario.plan, entry.address.step, entry.address.task)
            case p.TaskRetryExhausted(reason="attempts", attempts=attempts, max_attempts=most):
                assert tries[sequence] == attempts >= most
            case p.TaskStarted():
                assert entry.address.attempt not in started[sequence]
                started[sequence].add(entry.address.attempt)
                assert max(started[sequence]) <= tries[sequence] + calls[sequence] * most_attempts(
                    scenario.plan, entry.address.step, entry.address.task
                )
            case _:
                pass


@given(scenarios(wild=True), troubles)
def test_nothing_is_scheduled_or_started_early(scenario: Scenario, trouble: Trouble) -> None:
    delivery = Delivery(scenario, trouble).run()
    available: dict[str, datetime] = {}
    for entry in delivery.log:
        assert entry.occurred_at is not None
        match entry.payload:
            case p.TaskScheduled() | p.TaskRetryScheduled() as said:
                assert said.available_at is not None
                available[said.job_id] = datetime.fromisoformat(said.available_at)
                assert available[said.job_id] == entry.occurred_at + timedelta(seconds=said.delay_s)
                assert delivery.jobs[said.job_id].available_at == available[said.job_id]
            case p.TaskStarted(job_id=job_id):
                assert entry.occurred_at >= available[job_id]
            case _:
                pass
    assert set(available) == {job.job_id for job in delivery.jobs.values() if job.role == "task"}
