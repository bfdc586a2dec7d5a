"""A run as a tree on a terminal: a pure function of its events and the time."""

from __future__ import annotations

from typing import Any

from services.cli.run_progress import MOST_STEPS, Progress
from services.cli.run_tree import text_of, tree
from tests.unit.cli.run_events import FLAKY_STEP, attempt, event, retry


def after(*events: dict[str, Any], now_s: float = 0.0) -> Progress:
    progress = Progress("tour")
    for each in events:
        progress.apply(each, now_s)
    return progress


def lines(progress: Progress, now_s: float = 0.0, height: int | None = None) -> list[str]:
    return [text_of(line) for line in tree(progress, now_s, height)]


def test_a_wait_counts_down_with_the_attempt_and_the_reason() -> None:
    progress = after(*FLAKY_STEP)

    assert lines(progress, 0.1)[1] == "  ◷ fetch  attempt 2 of 3  in 0.9 s  HTTP 503 from GET /users"
    assert lines(progress, 0.8)[1] == "  ◷ fetch  attempt 2 of 3  in 0.2 s  HTTP 503 from GET /users"
    assert lines(progress, 5.0)[1].endswith("in 0 s  HTTP 503 from GET /users")


def test_a_step_that_ended_says_how_long_it_took() -> None:
    progress = after(*FLAKY_STEP)
    progress.apply(event("task.started", "fetch~1.fetch#2"), 1.0)
    progress.apply(attempt("fetch~1.fetch#2"), 1.2)
    progress.apply(event("step.completed", "fetch~1"), 1.2)
    progress.apply(event("execution.completed"), 1.3)

    assert lines(progress, 60.0) == [
        "tour  completed  1.3 s",
        "  ✓ fetch  attempt 2 of 3  1.2 s",
        "  2 attempts, 1 of them again",
    ]


def test_what_the_sinks_of_a_step_stored_is_added_up() -> None:
    progress = after(
        event("step.started", "n~1"),
        event("loop.started", "n~1", collection_size=2, mode="parallel", concurrency=2),
        attempt("n~1[0].n#1", stored=3),
        event("loop.iteration_completed", "n~1[0]", index=0),
        attempt("n~1[1].n#1", stored=0),
        event("loop.iteration_completed", "n~1[1]", index=1),
        event("step.completed", "n~1"),
    )

    assert lines(progress)[1] == f"  ✓ n  {'━' * 24} 2/2  3 rows stored"


def test_a_loop_is_a_bar_with_what_waits_first_and_its_first_errors() -> None:
    progress = after(
        event("step.started", "n~1"),
        event("loop.started", "n~1", collection_size=8, mode="parallel", concurrency=5),
        *(event("task.scheduled", f"n~1[{index}].n#1") for index in range(5)),
        attempt("n~1[3].n#1", "not now"),
        retry("n~1[3].n#1", 2, 2, 4.0),
        event("loop.iteration_completed", "n~1[0]", index=0),
        event("loop.iteration_failed", "n~1[1]", index=1, error={"message": "gone"}),
    )

    assert lines(progress, 1.0)[1:] == [
        "  ⠋ n  ━━━━━━╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌ 2/8, 1 failed",
        "      ◷ [3]  attempt 2 of 2  in 3 s  not now",
        "      ⠋ [2]",
        "      ⠋ [4]",
        "      ✗ [1] gone",
    ]


def test_an_empty_loop_is_a_full_bar() -> None:
    progress = after(event("step.started", "n~1"), event("loop.started", "n~1", collection_size=0, mode="parallel"))

    assert lines(progress)[1].endswith("━ 0/0")


def test_a_loop_of_many_keeps_only_what_is_under_way() -> None:
    progress = after(event("step.started", "n~1"), event("loop.started", "n~1", collection_size=5000, mode="parallel"))
    for index in range(5000):
        progress.apply(event("task.scheduled", f"n~1[{index}].n#1"), 0.0)
        progress.apply(event("loop.iteration_failed", f"n~1[{index}]", index=index, error={"message": "no"}), 0.0)

    loop = progress.steps["n~1"].loop
    assert loop is not None
    assert not loop.active
    assert len(loop.errors) == 3
    assert " 5000/5000, 5000 failed" in lines(progress)[1]


def test_pages_and_tasks_are_named() -> None:
    progress = after(
        event("step.started", "all~1"),
        event("task.scheduled", "all~1.get@2#1"),
        event("task.scheduled", "all~1.store#1", delay_s=3.0),
    )

    assert lines(progress, 1.0)[1:] == ["  ⠋ all", "      ⠋ get  page 2", "      ◷ store  in 2 s"]


def test_calls_after_a_success_are_pages_and_no_retries() -> None:
    progress = after(event("step.started", "all~1"), event("task.scheduled", "all~1.all#1", max_attempts=3))
    for following in (2, 3):
        progress.apply(
            event("task.retry_scheduled", "all~1.all#1", retry_type="on_success", next_attempt=following, delay_s=0),
            0.0,
        )

    assert "page 3" in lines(progress)[1]
    assert "attempt" not in lines(progress)[1]
    assert progress.retries == 0


def test_a_signal_is_waited_for_by_its_name() -> None:
    progress = after(event("step.started", "ask~1"), event("task.scheduled", "ask~1.ask#1", signal="approved"))

    assert lines(progress)[1] == "  ◷ ask  waits for 'approved'"


def test_the_newest_steps_are_kept_where_there_is_no_room_for_all() -> None:
    progress = after(*(event(kind, f"s~{n}") for n in range(1, 30) for kind in ("step.started", "step.completed")))

    shown = lines(progress, height=10)

    assert len(shown) == 10
    assert shown[1] == "  … 21 earlier"
    assert shown[-1] == "  ✓ s (visit 29)"
    assert len(lines(progress)) == 30


def test_steps_without_end_are_not_all_remembered() -> None:
    visits = MOST_STEPS + 200
    progress = after(*(event(kind, f"s~{n}") for n in range(1, visits + 1) for kind in ("step.started", "step.failed")))

    assert len(progress.steps) == MOST_STEPS
    assert progress.left_out == 200


def test_a_failed_execution_says_why_at_the_end() -> None:
    progress = after(
        event("step.started", "a~1"),
        event("step.failed", "a~1", error={"message": "no"}),
        event("execution.failed", error={"message": "no"}),
    )

    assert lines(progress) == ["tour  failed  0 s", "  ✗ a", "      no", "  no", "  0 attempts"]
