"""Retries: which rule decides, how often, and on what outcome."""

from __future__ import annotations

from typing import Any

import pytest

from shared.contracts import payloads as p
from shared.contracts.outcomes import Outcome, failure, http_failure, success
from tests.support.deciding import BUSY, DOWN, Played, body, play


def attempts(played: Played) -> int:
    return len(played.events("action_started"))


def legacy(policy: str, outcomes: list[Outcome]) -> Played:
    return play(f"- step: a\n  tool: http\n  url: http://api\n  retry: {policy}\n", {"a": outcomes})


def test_without_a_policy_a_failure_is_final() -> None:  # req: B7, B18
    played = play("- step: a\n  tool: noop\n", {"a": [BUSY]})

    assert played.aliases("action_error", "step_retry", "step_failed_terminal", "execution_failed") == [
        "action_error", "step_failed_terminal", "execution_failed",
    ]  # fmt: skip
    assert played.error["message"] == "503 Service Unavailable"


@pytest.mark.parametrize(
    ("policy", "runs"),
    [("true", 3), ("5", 5), ("1", 1), ("{ max_attempts: 4 }", 4), ("{ on_error: { max_attempts: 2 } }", 2),
     ("{ max_attempts: '{{ 1 + 1 }}' }", 2)],
)  # fmt: skip
def test_attempts_are_counted_with_the_first(policy: str, runs: int) -> None:  # req: A4, A7, B3, C2
    played = legacy(policy, [BUSY] * runs)

    assert attempts(played) == runs
    assert played.status == "failed"
    (said,) = played.said(p.TaskRetryExhausted)
    assert (said.attempts, said.max_attempts, said.reason, said.follows) == (runs, runs, "attempts", "fail")


def test_false_means_no_retry() -> None:  # req: A4
    assert attempts(legacy("false", [BUSY])) == 1


@pytest.mark.parametrize(
    ("when", "outcome", "runs"),
    [
        ("{{ status_code >= 500 }}", http_failure(503), 3),
        ("{{ status_code >= 500 }}", http_failure(404), 1),
        ("{{ status_code in [429, 503] }}", http_failure(429), 3),
        ("{{ status_code != 200 }}", body({}, status=202), 3),
        ("{{ status_code != 200 }}", body({}), 1),
        ("{{ error != None }}", DOWN, 3),
        ("{{ 'refused' in (error | lower) }}", DOWN, 3),
        ("{{ 'deadlock' in (error | lower) }}", DOWN, 1),
        ("{{ not success }}", DOWN, 3),
        ("{{ success == False and attempt < 2 }}", DOWN, 2),
        ("{{ data.ready == false }}", body({"ready": False}), 3),
        ("{{ result.body.ready == false }}", body({"ready": False}), 3),
        ("{{ execution_id == 'e1' and node_id == 'a' }}", DOWN, 3),
        ("{{ 'yes' }}", DOWN, 3),
        ("{{ 'On' }}", DOWN, 3),
        ("{{ '1' }}", DOWN, 3),
        ("{{ 'no' }}", DOWN, 1),
        ("{{ 'maybe' }}", DOWN, 1),
        ("{{ missing }}", DOWN, 1),
        ("{{ not missing }}", DOWN, 3),
    ],
)  # req: B4, B10, B11, B12, B13
def test_a_condition_judges_the_outcome(when: str, outcome: Outcome, runs: int) -> None:
    played = play(
        f'- step: a\n  tool: http\n  url: http://api\n  retry: {{ max_attempts: 3, retry_when: "{when}" }}\n',
        {"a": outcome},
    )

    assert attempts(played) == runs


def test_a_stop_condition_wins_over_a_retry_condition() -> None:  # req: B5, D5
    policy = '{ max_attempts: 5, retry_when: "{{ status_code >= 500 }}", stop_when: "{{ status_code == 501 }}" }'
    played = legacy(policy, [http_failure(503), http_failure(501)])

    assert attempts(played) == 2
    assert (played.status, played.error["code"]) == ("failed", 501)


def test_a_stop_condition_lets_a_success_go_on() -> None:  # req: B5
    policy = '{ max_attempts: 5, retry_when: "{{ true }}", stop_when: "{{ data.done }}" }'
    played = legacy(policy, [body({"done": False}), body({"done": True})])

    assert attempts(played) == 2
    assert played.status == "completed"


def test_successes_that_never_satisfy_end_in_failure() -> None:
    played = legacy('{ max_attempts: 2, retry_when: "{{ not data.done }}" }', [body({"done": False})] * 2)

    assert played.status == "failed"
    assert (played.error["kind"], played.error["message"]) == (
        "exhausted", "retry still asked for another attempt after 2",
    )  # fmt: skip


def test_policies_in_a_list_are_tried_in_order() -> None:  # req: A9, C11
    played = play(
        """
        - step: a
          tool: http
          url: http://api
          retry:
            - { when: "{{ status_code == 429 }}", max_attempts: 4, initial_delay: 10, backoff: fixed, jitter: false }
            - { when: "{{ status_code >= 500 }}", max_attempts: 3, initial_delay: 1, backoff: fixed, jitter: false }
        """,
        {"a": [http_failure(429), http_failure(503), body({})]},
    )

    assert [said.delay_s for said in played.said(p.TaskRetryScheduled)] == [10, 1]
    assert [said.decision["matched"] for said in played.said(p.TaskRetryScheduled)] == ["retry[0]", "retry[1]"]


RULES = """
- step: a
  tool:
    - name: fetch
      kind: http
      url: http://api
      eval:
        - { expr: "{{ outcome.status == 'error' and outcome.http.status in [429, 500, 502, 503, 504] }}",
            do: retry, attempts: 10, backoff: exponential, delay: 2 }
        - { expr: "{{ outcome.status == 'error' }}", do: fail }
        - else: { do: continue }
    - name: transform
      kind: python
      code: "def main(): ..."
      eval:
        - { expr: "{{ outcome.status == 'error' and 'timeout' in outcome.error.message }}",
            do: retry, attempts: 3, backoff: fixed, delay: 2 }
        - { expr: "{{ outcome.status == 'error' }}", do: fail }
    - name: store
      kind: postgres
      auth: pg
      command: select 1
      eval:
        - { expr: "{{ outcome.status == 'error' and outcome.pg.code in ['40001', '40P01'] }}",
            do: retry, attempts: 5, backoff: linear, delay: 1 }
"""
TIMED_OUT = failure("exception", "read timeout")
DEADLOCK = failure("sql", "deadlock detected", code="40P01", pg={"code": "40P01"})


def test_every_task_of_a_pipeline_has_its_own_rules() -> None:  # req: A11, B17, B19, D1
    played = play(
        RULES,
        {"fetch": [http_failure(429), http_failure(504), body([1])], "transform": [TIMED_OUT, success([2])],
         "store": [DEADLOCK, DEADLOCK, success({"row_count": 1})]},
    )  # fmt: skip

    started = [event.address for event in played.events("action_started") if event.address is not None]
    assert [(address.task, address.attempt) for address in started] == [
        ("fetch", 1), ("fetch", 2), ("fetch", 3), ("transform", 1), ("transform", 2), ("store", 1), ("store", 2),
        ("store", 3),
    ]  # fmt: skip
    assert [said.delay_s for said in played.said(p.TaskRetryScheduled)] == [2, 4, 2, 1, 2]
    assert played.result == {"row_count": 1}


@pytest.mark.parametrize(
    ("outcomes", "task"),
    [
        ({"fetch": [http_failure(404)]}, "fetch"),
        ({"fetch": [body({})], "transform": [failure("exception", "bad")]}, "transform"),
        ({"fetch": [body({})], "store": [failure("sql", "dup", code="23505", pg={"code": "23505"})]}, "store"),
    ],
)  # req: B17
def test_an_error_that_no_rule_retries_fails_the_step(outcomes: dict[str, Any], task: str) -> None:
    played = play(RULES, outcomes)

    assert played.status == "failed"
    assert played.state.failure is not None
    assert played.state.failure["node"] == f"a~1.{task}#1"


def test_the_first_rule_that_matches_wins() -> None:  # req: B18
    played = play(
        """
        - step: a
          tool:
            - name: t
              kind: noop
              eval:
                - { expr: "{{ outcome.result > 3 }}", do: break, set_ctx: { by: first } }
                - { expr: "{{ outcome.result > 1 }}", do: continue, set_ctx: { by: second } }
                - else: { do: fail }
        """,
        {"t": [success(2)]},
    )

    assert played.state.ctx == {"by": "second"}
    (said,) = played.said(p.TaskAdvanced)
    assert [rule["value"] for rule in said.decision["rules"]] == [False, True]


def test_rules_without_a_match_keep_to_the_safe_default() -> None:  # req: B18
    text = (
        "- step: a\n  tool: { name: t, kind: noop, eval: [ { expr: '{{ false == outcome.result }}', do: break } ] }\n"
    )

    assert play(text, {"t": [success(1)]}).status == "completed"
    assert play(text, {"t": [BUSY]}).status == "failed"


def test_the_newer_spelling_goes_on_where_nothing_matches() -> None:
    text = """
    - step: a
      tool:
        kind: noop
        spec: { policy: { rules: [ { when: "{{ output.data == 1 }}", then: { do: fail } } ] } }
    """

    assert play(text, {"a": [BUSY]}, api="noetl.io/v2").status == "completed"
    assert play(text, {"a": [success(1)]}, api="noetl.io/v2").error["kind"] == "failed_by_rule"


def test_attempts_without_a_delay_wait_one_second_in_the_newer_spelling() -> None:
    text = """
    - step: a
      tool:
        kind: noop
        spec: { policy: { rules: [ { when: "{{ output.status == 'error' }}", then: { do: retry, attempts: 3 } } ] } }
    """
    played = play(text, {"a": BUSY}, api="noetl.io/v2")

    assert [said.delay_s for said in played.said(p.TaskRetryScheduled)] == [1, 1]


def test_a_retry_sees_what_its_rule_wrote() -> None:  # req: B15
    played = play(
        """
        - step: a
          tool:
            - name: t
              kind: http
              url: "http://api/{{ iter.host | default('one') }}"
              input: { number: "{{ _attempt }}", job: "{{ job.uuid }}", of: "{{ _task }}" }
              eval:
                - { expr: "{{ outcome.status == 'error' }}", do: retry, set_iter: { host: two },
                    set_ctx: { tried: true } }
        """,
        {"t": [DOWN, body({})]},
    )

    assert [job.config["url"] for job in played.jobs] == ["http://api/one", "http://api/two"]
    assert [job.input for job in played.jobs] == [
        {"number": number, "job": job.job_id, "of": "t"} for number, job in enumerate(played.jobs, start=1)
    ]
    assert played.state.ctx == {"tried": True}


def test_retries_of_any_kind_of_task_go_through_the_same_queue() -> None:  # req: B16, B21
    played = play("- step: a\n  pool: big\n  tool: { kind: shell, cmd: ls }\n  retry: 2\n", {"a": [DOWN, success()]})

    assert [(job.pool, job.kind, job.role) for job in played.jobs] == [("big", "shell", "task")] * 2
    assert played.jobs[0].job_id != played.jobs[1].job_id


def test_a_rule_that_fails_may_still_write() -> None:
    played = play(
        """
        - step: a
          tool:
            - name: t
              kind: noop
              eval: [ { expr: "{{ outcome.status == 'error' }}", do: fail,
                  set_ctx: { why: "{{ outcome.error.kind }}" } } ]
          next: [ { step: b, when: "{{ event.name == 'step.failed' and ctx.why == 'connection' }}" } ]
        - step: b
        """,
        {"t": [DOWN]},
    )

    assert (played.status, played.state.ctx) == ("completed", {"why": "connection"})
