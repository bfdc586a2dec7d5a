"""Which way a job takes: short waits straight to its pool, long ones by the orchestrator, which looks again."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from shared.broker.job_messages import LONG_WAIT_S, due_message, is_publishable, job_message
from shared.broker.ladder import HORIZON_S
from shared.broker.topology import JOBS
from shared.contracts.ids import Address
from shared.contracts.jobs import Job
from shared.contracts.messages import decode_job

AT = datetime(2026, 1, 1, tzinfo=UTC)
PLACE = Address("a", task="a", attempt=2)


def job(delay_s: float, role: str = "task") -> Job:
    return Job("j", "e", PLACE, "noop", pool="gpu", available_at=AT, delay_s=delay_s, role=role)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("delay_s", "left_s", "pool"),
    [
        (0.0, 0.0, "gpu"),
        (LONG_WAIT_S - 0.1, LONG_WAIT_S - 0.1, "gpu"),
        (LONG_WAIT_S, LONG_WAIT_S, "orchestrator"),
        (HORIZON_S, 3.0, "orchestrator"),
        (HORIZON_S, 0.0, "gpu"),
    ],
)
def test_what_waits_long_comes_by_the_orchestrator_however_little_is_left(
    delay_s: float, left_s: float, pool: str
) -> None:
    message = job_message(job(delay_s), left_s)

    assert message.routing_key.rpartition(".")[2] == pool
    assert decode_job(message.body) == job(delay_s)


def test_a_timer_has_the_orchestrator_as_its_pool_and_no_second_look() -> None:
    assert job_message(job(60, "timer"), 60).routing_key.endswith(".gpu")


def test_what_is_due_goes_to_its_pool_at_once() -> None:
    message = due_message(job(60))

    assert (message.exchange, message.routing_key, message.message_id) == (JOBS, "gpu", "j")


def test_what_has_no_time_or_one_beyond_the_ladder_is_not_published() -> None:
    assert is_publishable(job(HORIZON_S))
    assert not is_publishable(job(HORIZON_S + 1))
    assert not is_publishable(Job("j", "e", PLACE, "wait", role="signal"))
