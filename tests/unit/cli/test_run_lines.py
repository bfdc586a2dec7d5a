"""A run as quiet lines."""

from __future__ import annotations

from typing import Any

import pytest

from services.cli.run_lines import line_of
from services.cli.run_words import seconds
from tests.unit.cli.run_events import FLAKY_STEP, attempt, event, retry


def test_a_failed_attempt_and_its_retry_are_two_lines_and_nothing_is_said_of_what_goes_well() -> None:
    said = [line_of(each) for each in FLAKY_STEP]

    assert said == [
        "execution e1 started",
        "fetch: started",
        None,
        None,
        "fetch: attempt 1 failed: HTTP 503 from GET /users",
        "fetch: again in 1 s, attempt 2 of 3",
    ]
    assert line_of(attempt("fetch~1.fetch#2")) is None


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (attempt("n~1.n#1", stored=1200), "n: 1,200 rows stored"),
        (attempt("n~1[3].n#1", stored=1200), None),
        (event("loop.started", "n~1", collection_size=8, mode="parallel", concurrency=3),
         "n: loops over 8 elements, up to 3 at once"),
        (event("loop.started", "n~1", collection_size=1, mode="sequential", concurrency=1), "n: loops over 1 element"),
        (event("loop.started", "n~1", collection_size=None, mode="parallel", concurrency=3),
         "n: loops over what it can claim, up to 3 at once"),
        (event("loop.claimed", "n~1.claim@1#1", rows=10, first=0, iterations=10), "n.claim: claimed 10 rows"),
        (event("loop.claimed", "n~1.claim@2#1", rows=0, first=10, iterations=0), "n.claim: nothing left to claim"),
        (event("loop.iteration_failed", "n~1[2]", index=2, error={"message": "gone"}), "n[2]: failed: gone"),
        (event("loop.completed", "n~1", total_iterations=8, successful=7, failed=1), "n: 7 of 8 succeeded, 1 failed"),
        (event("task.scheduled", "n~1.n#1", kind="wait", delay_s=90), "n: waits 1 min 30 s"),
        (event("task.scheduled", "n~1.n#1", kind="wait", signal="go"), "n: waits for the signal 'go'"),
        (event("task.scheduled", "n~1.get@3#1", kind="http"), "n.get: page 3"),
        (event("task.retry_exhausted", "n~2.n#3", attempts=3, reason="attempts"),
         "n~2: no attempt is left after 3 (attempts)"),
        (event("step.failed", "n~1", error={"message": "no"}, handled=True), "n: failed: no; an arc takes it up"),
        (event("step.skipped", "n~1", reason="when"), "n: skipped (when)"),
        (event("execution.failed", error={"message": "all is lost"}), "execution failed: all is lost"),
        (event("execution.cancelled", reason="enough"), "execution cancelled: enough"),
        (event("next.evaluated", "n~1"), None),
    ],
)  # fmt: skip
def test_what_matters_is_one_line(given: dict[str, Any], said: str | None) -> None:
    assert line_of(given) == said


def test_an_error_of_many_lines_with_control_characters_is_one_short_line() -> None:
    line = line_of(attempt("a~1.a#1", "first\nsecond \x1b[31m" + "x" * 500))

    assert line is not None
    assert line.startswith("a: attempt 1 failed: first second ·[31mxxx")
    assert "\n" not in line
    assert "\x1b" not in line
    assert len(line) < 200


def test_a_delay_is_known_from_the_due_time_where_it_is_not_said() -> None:
    due = event("task.scheduled", "a~1.a#1", at_s=0, available_at="2024-05-01T12:00:05+00:00")

    assert line_of(due) == "a: waits 5 s"
    assert line_of(retry("a~1[3].b#1", 2, 4, 0.25)) == "a[3].b: again in 0.2 s, attempt 2 of 4"


@pytest.mark.parametrize(
    ("value", "said"),
    [(0, "0 s"), (0.04, "0 s"), (1.0, "1 s"), (2.5, "2.5 s"), (9.96, "10 s"), (59.4, "59 s"), (60, "1 min"),
     (125, "2 min 5 s"), (3600, "1 h"), (12000, "3 h 20 min"), (-3, "0 s")],
)  # fmt: skip
def test_durations_are_said_as_people_say_them(value: float, said: str) -> None:
    assert seconds(value) == said
