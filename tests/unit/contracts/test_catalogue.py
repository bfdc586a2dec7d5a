"""The catalogue of events: which types there are, what older readers call them, who says them."""

import pytest

from shared.contracts.events import Event, types_named
from shared.contracts.payloads import CATALOGUE, FACTS, TaskProcessed

ALIASES = {
    "execution.requested": "playbook_execution_requested",
    "execution.started": "playbook_started",
    "step.started": "step_started",
    "step.skipped": "step_skipped",
    "task.scheduled": "action_queued",
    "task.started": "action_started",
    "task.processed": "action_completed",
    "task.retry_scheduled": "step_retry",
    "task.retry_exhausted": "step_retry_exhausted",
    "task.advanced": "task_advanced",
    "task.sequence_completed": "retry_sequence_completed",
    "loop.started": "iterator_started",
    "loop.iteration_started": "iteration_started",
    "loop.iteration_completed": "iteration_completed",
    "loop.iteration_failed": "iteration_completed",
    "loop.claimed": "iterator_claimed",
    "loop.completed": "iterator_completed",
    "step.completed": "step_completed",
    "step.failed": "step_failed_terminal",
    "next.evaluated": "next_evaluated",
    "execution.completed": "playbook_completed",
    "execution.failed": "execution_failed",
    "execution.cancelled": "execution_cancelled",
    "execution.paused": "execution_paused",
    "execution.resumed": "execution_resumed",
    "execution.redriven": "execution_redriven",
    "control.requested": "control_requested",
    "timer.fired": "timer_fired",
    "job.poisoned": "job_dead",
    "job.republished": "job_republished",
    "job.waiting": "job_waiting",
    "job.rescheduled": "job_rescheduled",
    "signal.received": "signal_received",
    "breaker.opened": "breaker_opened",
    "breaker.half_opened": "breaker_half_opened",
    "breaker.closed": "breaker_closed",
    "budget.denied": "budget_denied",
}
FROM_OUTSIDE = {
    "execution.requested": "ingest",
    "task.started": "worker",
    "task.processed": "worker",
    "job.poisoned": "ingest",
    "job.republished": "sweep",
    "job.waiting": "sweep",
    "job.rescheduled": "ingest",
    "signal.received": "ingest",
    "control.requested": "ingest",
}


def processed(status: str) -> Event:
    return Event("e1", TaskProcessed("j1", {"status": status}))


def test_the_catalogue_has_every_type_and_its_older_name() -> None:  # req: I2
    assert {name: cls.alias for name, cls in CATALOGUE.items()} == ALIASES


def test_facts_are_what_workers_and_callers_say() -> None:
    assert {name: cls.source for name, cls in CATALOGUE.items() if cls.source != "orchestrator"} == FROM_OUTSIDE
    assert set(FROM_OUTSIDE) == FACTS


def test_an_outcome_is_called_by_its_status() -> None:  # req: I2, E4
    assert (processed("success").alias, processed("success").status) == ("action_completed", "COMPLETED")
    assert (processed("error").alias, processed("error").status) == ("action_error", "FAILED")


@pytest.mark.parametrize("name", ["action_error", "action_failed", "action_completed", "task.processed"])
def test_the_names_of_an_outcome_all_mean_one_type(name: str) -> None:  # req: B9, I2
    assert types_named(name) == {"task.processed"}


def test_an_older_name_may_mean_several_types() -> None:
    assert types_named("iteration_completed") == {"loop.iteration_completed", "loop.iteration_failed"}


@pytest.mark.parametrize(
    ("name", "kind"),
    [("step_failed", "step.failed"), ("step_failed_terminal", "step.failed"), ("step.done", "step.completed"),
     ("loop.done", "loop.completed"), ("step_retry", "task.retry_scheduled")],
)  # fmt: skip
def test_an_older_name_is_found_by_what_it_means(name: str, kind: str) -> None:
    assert types_named(name) == {kind}


def test_a_name_that_nothing_has_means_nothing() -> None:
    assert types_named("action_exploded") == frozenset()


@pytest.mark.parametrize(
    ("kind", "status"),
    [("task.started", "STARTED"), ("task.retry_scheduled", "PENDING"), ("step.completed", "COMPLETED"),
     ("step.failed", "FAILED"), ("loop.started", "STARTED"), ("execution.cancelled", "CANCELLED")],
)  # fmt: skip
def test_a_type_has_the_status_that_older_readers_expect(kind: str, status: str) -> None:  # req: E4, I6
    from tests.unit.contracts.examples import events

    assert [event.status for event in events() if event.type == kind] == [status]
