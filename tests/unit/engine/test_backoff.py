"""How long a retry waits: growth, cap, jitter, and what is no delay at all."""

from __future__ import annotations

import math
from typing import Any

import pytest

from shared.contracts import payloads as p
from shared.contracts.outcomes import Outcome, http_failure, success
from shared.engine.backoff import MAX_DELAY_S, Backoff, NotADelayError, delay_before_next
from tests.support.deciding import BUSY, Played, play


def delays(backoff: Backoff, tries: int = 5, chance: float = 0.0) -> list[float]:
    return [delay_before_next(backoff, number, chance).seconds for number in range(1, tries + 1)]


def waits(played: Played) -> list[float]:
    return [said.delay_s for said in played.said(p.TaskRetryScheduled)]


def retried(options: str, outcome: Outcome = BUSY) -> Played:
    rule = f"{{ expr: \"{{{{ outcome.status == 'error' }}}}\", do: retry, {options} }}"
    return play(f"- step: a\n  tool:\n    - name: t\n      kind: noop\n      eval:\n        - {rule}\n", {"t": outcome})


@pytest.mark.parametrize(
    ("backoff", "expected"),
    [
        (Backoff("fixed", 2.0), [2, 2, 2, 2, 2]),
        (Backoff("linear", 2.0), [2, 4, 6, 8, 10]),
        (Backoff("exponential", 1.0), [1, 2, 4, 8, 16]),
        (Backoff("exponential", 0.5, multiplier=3.0), [0.5, 1.5, 4.5, 13.5, 40.5]),
        (Backoff("exponential", 1.0, max_delay_s=5.0), [1, 2, 4, 5, 5]),
        (Backoff("linear", 2.0, max_delay_s=5.0), [2, 4, 5, 5, 5]),
        (Backoff("fixed", 10.0, max_delay_s=5.0), [5, 5, 5, 5, 5]),
        (Backoff("fixed", 0), [0, 0, 0, 0, 0]),
        (Backoff("exponential", 2.0, multiplier=1.0), [2, 2, 2, 2, 2]),
    ],
)  # req: C1, C3, C5
def test_a_delay_grows_as_its_kind_says(backoff: Backoff, expected: list[float]) -> None:
    assert delays(backoff) == expected


@pytest.mark.parametrize("kind", ["linear", "exponential"])
def test_no_growth_goes_beyond_a_year(kind: str) -> None:
    assert delay_before_next(Backoff(kind, 10.0), 10**6, 0.0).seconds <= MAX_DELAY_S
    assert math.isfinite(delay_before_next(Backoff(kind, 1e300), 10**9, 0.0).seconds)


@pytest.mark.parametrize(
    ("jitter", "lowest", "highest"), [("none", 10, 10), ("half", 5, 15), ("full", 0, 10), ("equal", 5, 10)]
)  # req: C4
def test_jitter_stays_within_its_bounds(jitter: str, lowest: float, highest: float) -> None:
    found = [
        delay_before_next(Backoff("fixed", 10.0, jitter=jitter), 1, chance / 1000).seconds for chance in range(1000)
    ]

    assert lowest <= min(found)
    assert max(found) <= highest
    if jitter != "none":
        assert max(found) - min(found) > (highest - lowest) * 0.99


def test_jitter_comes_after_the_cap() -> None:
    assert delays(Backoff("exponential", 8.0, max_delay_s=10.0, jitter="half"), 2, chance=0.75) == [10.0, 12.5]


@pytest.mark.parametrize("wrong", [math.nan, math.inf, -math.inf, "3", None, True])
def test_what_is_no_finite_number_is_no_delay(wrong: Any) -> None:
    with pytest.raises(NotADelayError):
        delay_before_next(Backoff("fixed", wrong), 1, 0.0)


def test_a_delay_is_never_negative() -> None:
    assert delays(Backoff("linear", -5.0)) == [0, 0, 0, 0, 0]


def test_a_delay_shows_the_parts_it_is_made_of() -> None:
    played = retried("attempts: 3, delay: 2, multiplier: 3, max_delay: 5")

    assert [said.delay for said in played.said(p.TaskRetryScheduled)] == [
        said.decision["delay"] for said in played.said(p.TaskRetryScheduled)
    ]
    first, second = (said.delay for said in played.said(p.TaskRetryScheduled))
    assert (first["seconds"], first["base"], first["factor"], first["capped"]) == (2.0, 2.0, 1.0, False)
    assert (second["seconds"], second["base"], second["factor"], second["capped"]) == (5.0, 2.0, 3.0, True)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ("attempts: 5", [1, 2, 4, 8]),
        ("attempts: 4, backoff: fixed, delay: 3", [3, 3, 3]),
        ("attempts: 4, backoff: none, delay: 3", [3, 3, 3]),
        ("attempts: 4, backoff: linear, delay: 3", [3, 6, 9]),
        ("attempts: 3, delay: 500ms", [0.5, 1]),
        ("attempts: 3, delay: 2m, max_delay: 3m", [120, 180]),
        ("attempts: 9", [1, 2, 4, 8, 16, 32, 60, 60]),
        ("attempts: 2, delay: '{{ 1 + 2 }}'", [3]),
        ("attempts: '{{ 1 + 2 }}'", [1, 2]),
        ("delay: 0", [0, 0]),
        ("attempts: 3, backoff: exponential, delay: 1, multiplier: '{{ 5 }}'", [1, 5]),
    ],
)  # req: C2, C6, C8
def test_a_rule_waits_as_it_says(options: str, expected: list[float]) -> None:
    assert waits(retried(options)) == expected


def test_the_older_block_shakes_its_delays_and_eval_does_not() -> None:  # req: C2, C7
    old = waits(play("- step: a\n  tool: noop\n  retry: 5\n", {"a": BUSY}))

    assert all(0.5 * full <= delay <= 1.5 * full for delay, full in zip(old, [1, 2, 4, 8], strict=True))
    assert old != [1, 2, 4, 8]
    assert waits(retried("attempts: 5")) == [1, 2, 4, 8]


def test_the_same_attempt_of_the_same_execution_is_shaken_the_same_way() -> None:  # req: C7
    text = "- step: a\n  tool: noop\n  retry: 4\n"

    assert waits(play(text, {"a": BUSY})) == waits(play(text, {"a": BUSY}))
    assert len(set(waits(play(text, {"a": BUSY})))) == 3


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        ("7", [7, 14]),
        ("0", [0, 0]),
        ("1.5", [1.5, 3.0]),
        ("Thu, 01 Jan 2026 00:00:10 GMT", [10, 0]),
        ("Thu, 01 Jan 2015 00:00:00 GMT", [0, 0]),
        ("soon", [2, 4]),
        (None, [2, 4]),
    ],
)  # req: B20
def test_retry_after_is_understood_as_seconds_or_as_a_date(header: str | None, expected: list[float]) -> None:
    outcome = http_failure(429, headers={} if header is None else {"retry-after": header})
    delay = "{{ outcome.http.headers['retry-after'] | retry_after | default(2) }}"
    played = retried(f'attempts: 3, delay: "{delay}"', outcome)

    assert waits(played) == expected


def test_retry_after_seconds_can_be_read_as_they_are() -> None:  # req: B20
    outcome = http_failure(429, headers={"retry-after": "5"})
    delay = "{{ outcome.http.headers['retry-after'] | default(2) }}"

    assert waits(retried(f'attempts: 2, delay: "{delay}"', outcome)) == [5]
    assert waits(retried(f'attempts: 2, delay: "{delay}"', http_failure(429))) == [2]


@pytest.mark.parametrize(
    "options",
    [
        "delay: \"{{ 'soon' }}\"",
        'delay: "{{ 0 - 5 }}"',
        'delay: "{{ 1e308 * 10 }}"',
        'delay: "{{ [1] }}"',
        'attempts: "{{ 0 }}"',
        "attempts: \"{{ 'many' }}\"",
        'attempts: "{{ 2.5 }}"',
        "max_delay: \"{{ 'never' }}\"",
        "multiplier: \"{{ 'big' }}\"",
        "budget: \"{{ 'small' }}\"",
    ],
)
def test_an_option_that_is_no_number_fails_the_task_and_says_why(options: str) -> None:
    played = retried(options)

    assert played.status == "failed"
    assert (played.error["kind"], played.error["details"]["rule"]) == ("expression", "eval[0]")
    assert played.aliases("step_retry", "task_advanced") == ["task_advanced"]


def test_a_delay_of_ages_ends_the_attempt_in_no_crash() -> None:
    played = play(
        """
        - step: a
          tool:
            - name: t
              kind: noop
              eval:
                - { expr: "{{ true }}", do: jump, to: t, delay: "{{ 10 ** 15 }}" }
        """,
        {"t": success()},
        run_for=10,
    )

    assert played.status == "running"
    assert played.jobs[1].available_at is not None
    assert played.jobs[1].available_at.year > 2100
