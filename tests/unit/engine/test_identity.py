"""A fact counts once: said twice, late or about an attempt that is over, it changes nothing."""

from __future__ import annotations

from dataclasses import replace

import pytest

from shared.contracts import payloads as p
from shared.contracts.events import Event
from shared.contracts.ids import fact_id
from shared.contracts.jobs import Job
from shared.contracts.outcomes import Outcome, success
from shared.engine.snapshot import snapshot
from tests.support.deciding import BUSY, DOWN, Played, play, takes

RETRY = """
- { step: a, tool: { kind: noop }, retry: { max_attempts: 3, jitter: false }, next: b }
- { step: b, tool: { kind: noop } }
"""


def outcome_of(job: Job, outcome: Outcome) -> Event:
    said = p.TaskProcessed(job.job_id, outcome.as_json())
    return Event("e1", said, job.address, event_id=fact_id(job.job_id, "processed"), source="worker:w1")


def started(job: Job) -> Event:
    return Event(
        "e1", p.TaskStarted(job.job_id), job.address, event_id=fact_id(job.job_id, "started"), source="worker:w1"
    )


def changes(played: Played, fact: Event) -> bool:
    before = snapshot(played.state)
    decision = played.tell(fact)
    assert decision.is_nothing == (snapshot(played.state) == before)
    return not decision.is_nothing


def test_an_outcome_heard_twice_changes_nothing() -> None:
    played = play(RETRY, {"a": success(), "b": takes(10, success())}, run_for=1)

    assert not changes(played, outcome_of(played.jobs[0], success()))
    assert not changes(played, outcome_of(played.jobs[0], BUSY))


def test_an_outcome_of_an_attempt_that_is_over_changes_nothing() -> None:
    played = play(RETRY, {"a": [BUSY, takes(10, success())]}, run_for=5)

    assert played.state.runs["a~1"].frames[-1].attempt == 2
    assert not changes(played, outcome_of(played.jobs[0], success()))
    assert not changes(played, started(played.jobs[0]))
    assert changes(played, outcome_of(played.jobs[1], success()))


def test_a_start_that_is_heard_after_the_end_changes_nothing() -> None:
    played = play(RETRY, {"b": takes(10, success())}, run_for=1)

    assert not changes(played, started(played.jobs[0]))


def test_an_outcome_may_be_heard_without_a_start() -> None:
    played = play(RETRY, {"a": takes(10, success()), "b": takes(10, success())}, run_for=1)
    job = played.jobs[0]

    assert changes(played, outcome_of(job, success(3)))
    assert played.state.known["a"].value == 3


@pytest.mark.parametrize("outcome", [success(), BUSY])
def test_after_the_end_nothing_changes_any_more(outcome: Outcome) -> None:
    played = play(RETRY)

    assert not any(changes(played, outcome_of(job, outcome)) for job in played.jobs)


def test_an_outcome_of_another_s_job_changes_nothing() -> None:
    played = play(RETRY, {"a": takes(10, success())}, run_for=1)
    job = played.jobs[0]
    forged = Event("e1", p.TaskProcessed("another", success().as_json()), job.address)
    lost = Event("e1", p.TaskProcessed(job.job_id, success().as_json()), None)

    assert not changes(played, forged)
    assert not changes(played, lost)


def test_a_request_heard_twice_starts_nothing_twice() -> None:
    played = play(RETRY)

    assert not changes(played, played.log[0])


def test_a_job_that_kills_its_workers_is_an_outcome_that_rules_see() -> None:
    played = play(RETRY, {"a": takes(100, success()), "b": success()}, run_for=1)
    job = played.jobs[0]
    fact = Event("e1", p.JobPoisoned(job.job_id, "delivery limit", 6), job.address, event_id="dead", source="ingest")

    assert changes(played, fact)
    assert not changes(played, fact)
    assert played.aliases()[-3:] == ["job_dead", "action_error", "step_retry"]
    error = played.said(p.TaskProcessed)[0].outcome["error"]
    assert (error["kind"], error["retryable"], error["details"]) == ("worker_lost", True, {"deliveries": 6})
    assert not changes(played, outcome_of(job, success()))


def test_a_job_that_was_published_again_is_noted_as_long_as_it_is_current_and_changes_nothing() -> None:
    played = play(RETRY, {"a": takes(100, success()), "b": success()}, run_for=1)
    job = played.jobs[0]
    said = p.JobRepublished(job.job_id, "overdue, and its queues are empty", 3.0)
    fact = Event("e1", said, job.address, event_id="again", source="sweep")

    assert changes(played, fact)
    assert played.aliases()[-1] == "job_republished"
    assert changes(played, outcome_of(job, success()))
    assert not changes(played, replace(fact, event_id="later"))


def test_a_job_that_waits_for_a_pool_is_noted_and_its_outcome_still_counts() -> None:
    played = play(RETRY, {"a": takes(100, success()), "b": success()}, run_for=1)
    job = played.jobs[0]
    said = p.JobWaiting(job.job_id, "gpu", "2024-05-01T12:00:00+00:00", "the pool has no queue")
    fact = Event("e1", said, job.address, event_id="waits", source="sweep")

    assert changes(played, fact)
    assert played.aliases()[-1] == "job_waiting"
    assert changes(played, outcome_of(job, success()))
    assert not changes(played, replace(fact, event_id="later"))


def test_outcomes_in_any_order_count_for_the_iteration_they_are_about() -> None:
    played = play(
        "- { step: a, loop: { in: 3, mode: parallel }, tool: { kind: noop } }\n", {"a": takes(60, DOWN)}, run_for=1
    )
    for job in reversed(played.jobs):
        played.tell(outcome_of(job, success(job.address.iteration)))
        played.tell(outcome_of(job, success("again")))

    assert played.result == [0, 1, 2]
    played.go_on()


def test_ids_of_jobs_are_the_same_in_every_run_of_the_same_execution() -> None:
    assert [job.job_id for job in play(RETRY).jobs] == [job.job_id for job in play(RETRY).jobs]
