"""A budget bounds the time a task may spend, its waits included."""

import pytest

from shared.contracts import payloads as p
from tests.support.deciding import BUSY, Played, body, play, takes


def spend(budget: str, outcomes: object = None, more: str = "") -> Played:
    return play(
        f"""
        - step: a
          tool:
            - name: t
              kind: noop
              eval:
                - {{ expr: "{{{{ outcome.status == 'error' }}}}", do: retry, attempts: 100, delay: 1,
                    budget: {budget}{more} }}
        """,
        {"t": BUSY if outcomes is None else outcomes},  # type: ignore[dict-item]
    )


@pytest.mark.parametrize(
    ("budget", "delays"),
    [("7", [1, 2, 4]), ("6.9", [1, 2]), ("3", [1, 2]), ("0.5", []), ("1m", [1, 2, 4, 8, 16]), ("'{{ 3 }}'", [1, 2])],
)  # req: N5
def test_no_attempt_is_scheduled_beyond_the_budget(budget: str, delays: list[float]) -> None:
    played = spend(budget)

    assert [said.delay_s for said in played.said(p.TaskRetryScheduled)] == delays
    (said,) = played.said(p.TaskRetryExhausted)
    assert (said.reason, said.attempts, said.max_attempts) == ("budget", len(delays) + 1, 100)
    assert said.elapsed_s == sum(delays)
    assert played.status == "failed"


def test_the_time_of_the_calls_counts_too() -> None:  # req: N5
    played = spend("10", [takes(4, BUSY), takes(4, BUSY)])

    assert [said.delay_s for said in played.said(p.TaskRetryScheduled)] == [1]
    (said,) = played.said(p.TaskRetryExhausted)
    assert (said.budget_s, said.elapsed_s) == (10, 9)


def test_what_follows_a_spent_budget_is_what_follows_spent_attempts() -> None:
    played = spend("2", more=", on_exhausted: continue")

    assert played.said(p.TaskRetryExhausted)[0].follows == "continue"
    assert played.status == "completed"


def test_a_success_within_the_budget_is_a_success() -> None:
    played = spend("10", [BUSY, BUSY, body({"n": 1})])

    assert played.status == "completed"
    assert [said.decision["budget"] for said in played.said(p.TaskRetryScheduled)] == [
        {"budget_s": 10, "elapsed_s": 0}, {"budget_s": 10, "elapsed_s": 1},
    ]  # fmt: skip
