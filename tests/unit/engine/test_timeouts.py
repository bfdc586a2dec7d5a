"""Timeouts: of a step with everything in it, and of the whole execution."""

from __future__ import annotations

from shared.contracts import payloads as p
from shared.contracts.outcomes import success
from tests.support.deciding import BUSY, play, takes


def test_a_step_that_does_not_end_in_time_fails() -> None:
    played = play(
        """
        - step: a
          timeout: 5
          tool: { kind: noop }
          next: [ { step: late, when: "{{ outcome.error.kind == 'timeout' }}" } ]
        - step: late
        """,
        {"a": takes(60, success())},
    )

    assert played.steps() == ["a", "late"]
    assert played.at(played.events("step_failed_terminal")[0]) == 5
    assert played.events("action_completed") == []
    timer = played.jobs[0]
    assert (timer.role, timer.kind, timer.delay_s, timer.pool) == ("timer", "timer", 5, "orchestrator")


def test_a_step_that_ends_in_time_cancels_its_timer() -> None:
    played = play("- step: a\n  timeout: 1m\n  tool: { kind: noop }\n", {"a": takes(5, success())})

    assert (played.status, played.at(played.log[-1])) == ("completed", 5)
    assert played.events("timer_fired") == []


def test_the_waits_of_retries_count() -> None:
    played = play(
        "- step: a\n  timeout: 5\n  tool: { kind: noop }\n  retry: { max_attempts: 9, jitter: false }\n", {"a": BUSY}
    )

    assert (played.status, played.error["kind"]) == ("failed", "timeout")
    assert len(played.events("action_error")) == 3
    assert played.error["message"] == "step 'a' did not end within its timeout"


def test_a_loop_is_ended_with_everything_in_flight() -> None:
    played = play(
        "- step: a\n  timeout: 5\n  loop: { in: 10, mode: parallel, max_in_flight: 3 }\n  tool: { kind: noop }\n",
        {"a": takes(2, success())},
    )

    assert len(played.said(p.IterationCompleted)) == 6
    assert played.status == "failed"


def test_a_timeout_may_be_an_expression() -> None:
    text = "- step: a\n  timeout: '{{ workload.limit }}'\n  tool: { kind: noop }\n"

    assert play(text, {"a": takes(9, success())}, workload={"limit": "3s"}).status == "failed"
    played = play(text, {"a": success()}, workload={"limit": "soon"})
    assert (played.status, played.error["kind"]) == ("failed", "expression")


def test_every_visit_has_a_timer_of_its_own() -> None:
    played = play(
        """
        - step: a
          timeout: 5
          tool: { kind: noop }
          set: { ctx.n: "{{ (ctx.n | default(0)) + 1 }}" }
          next: [ { step: a, when: "{{ ctx.n < 3 }}" } ]
        """,
        {"a": takes(3, success())},
    )

    assert (played.status, len({job.job_id for job in played.jobs if job.role == "timer"})) == ("completed", 3)


def test_the_whole_execution_may_have_a_limit() -> None:
    text = """
    executor: { spec: { limits: { timeout: 10 } } }
    workflow: [ { step: a, tool: { kind: noop } } ]
    """
    late, early = play(text, {"a": takes(60, success())}), play(text, {"a": takes(6, success())})

    assert (late.status, late.error["kind"], late.at(late.log[-1])) == ("failed", "timeout", 10)
    assert late.aliases()[-2:] == ["timer_fired", "execution_failed"]
    assert (early.status, early.events("timer_fired")) == ("completed", [])


def test_a_task_s_own_timeout_goes_to_the_worker() -> None:
    played = play("- step: a\n  tool: { kind: http, url: 'http://x', timeout: { connect: 1, total: 30s } }\n")

    assert (played.jobs[0].timeout_s, played.jobs[0].config["timeout"]) == (30, {"connect": 1, "total": "30s"})
