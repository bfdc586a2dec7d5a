"""What decisions mean for the tables, where the contract suite does not look."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from shared.contracts import payloads as p
from shared.contracts.events import Event
from shared.contracts.ids import Address, job_id
from shared.engine.turn import Decision
from shared.store.projection import Writes, writes_of
from shared.store.records import DecisionRecord

EXECUTION = "6f0d7a52-3b0c-5e0e-9d3e-5a1d5e0a7c11"
PLACE = Address("fetch", 1, None, "run", 1, 2)
JOB = job_id(EXECUTION, PLACE)


def writes(*said: p.Payload, **more: object) -> Writes:
    events = tuple(Event(EXECUTION, item, PLACE, seq=seq) for seq, item in enumerate(said, 1))
    return writes_of({EXECUTION: DecisionRecord(len(said), "running", (Decision(events, **more),))})  # type: ignore[arg-type]


def processed(status: str = "success", message: str | None = None) -> p.TaskProcessed:
    error = None if message is None else {"kind": "x", "message": message}
    return p.TaskProcessed(JOB, {"status": status, "result": 1, "error": error, "meta": {}})


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (None, None),
        ("soon", None),
        ("2026-01-01T00:00:00", datetime(2026, 1, 1, tzinfo=UTC)),
        ("2026-01-01T01:00:00+01:00", datetime(2026, 1, 1, tzinfo=UTC)),
    ],
)
def test_a_lease_that_a_worker_wrote_wrongly_is_no_lease(text: str | None, expected: datetime | None) -> None:
    found = writes(p.TaskStarted(JOB, "w1", lease_until=text))

    assert found.job_changes[JOB].lease_until == expected


def test_a_task_that_ended_is_not_cancelled_even_if_its_job_is_called_off() -> None:
    found = writes(processed(), cancelled=(JOB,))

    assert found.job_changes[JOB].status == "completed"


def test_an_outcome_after_a_retry_ends_the_sequence() -> None:
    assert writes(processed()).retries[EXECUTION, "fetch~1.run"].status == "completed"
    assert writes(processed("error", "no")).retries[EXECUTION, "fetch~1.run"].status == "failed"


def test_pages_are_no_retries() -> None:
    more = p.TaskRetryScheduled(JOB, 1, 2, 9, 0.0, {}, "2026-01-01T00:00:00Z", retry_type="on_success")

    assert writes(more).executions[0].retries == 0
    assert writes(more, more).retries[EXECUTION, "fetch~1.run"].status == "waiting"


def test_a_gathered_result_is_the_last_of_its_sequence() -> None:
    found = writes(processed(), p.TaskSequenceCompleted(4, 4, "append", [1, 2]))

    assert found.retries[EXECUTION, "fetch~1.run"].last_result == [1, 2]


def test_a_skipped_step_counts_as_begun_and_ended() -> None:
    (change,) = writes(p.StepSkipped((1,))).executions

    assert (change.steps_started, change.steps_ended) == (1, 1)
