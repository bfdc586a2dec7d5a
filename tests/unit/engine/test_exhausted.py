"""What follows when the attempts are spent: failure, the next task, the end of the step, another task."""

from shared.contracts import payloads as p
from shared.contracts.outcomes import success
from tests.support.deciding import BUSY, DOWN, Played, play


def exhaust(follows: str, third: str = "") -> Played:
    return play(
        f"""
        - step: a
          tool:
            - name: first
              kind: noop
              eval:
                - expr: "{{{{ outcome.status == 'error' }}}}"
                  do: retry
                  attempts: 2
                  on_exhausted: {follows}
                  {third}
            - name: second
              kind: noop
            - name: rescue
              kind: noop
              input: {{ before: "{{{{ first }}}}" }}
        """,
        {"first": [BUSY, BUSY], "second": success("second"), "rescue": success("rescued")},
    )


def test_failing_is_what_follows_unless_said_otherwise() -> None:  # req: B13
    played = exhaust("fail")

    assert played.aliases("action_error", "step_retry", "step_retry_exhausted", "step_failed_terminal") == [
        "action_error", "step_retry", "action_error", "step_retry_exhausted", "step_failed_terminal",
    ]  # fmt: skip
    assert played.error["message"] == "503 Service Unavailable"
    assert played.said(p.TaskRetryExhausted)[0].last_error == "503 Service Unavailable"


def test_continue_goes_on_with_the_next_task() -> None:
    played = exhaust("continue")

    assert [job.address.task for job in played.jobs] == ["first", "first", "second", "rescue"]
    assert played.jobs[-1].input == {"before": None}
    assert played.result == "rescued"


def test_break_completes_the_step() -> None:
    played = exhaust("break")

    assert [job.address.task for job in played.jobs] == ["first", "first"]
    assert (played.status, played.result) == ("completed", None)


def test_jump_goes_to_the_task_it_names() -> None:  # req: D2
    played = exhaust("{ jump: rescue }")

    assert [job.address.task for job in played.jobs] == ["first", "first", "rescue"]
    assert played.said(p.TaskRetryExhausted)[0].follows == "jump"
    assert played.result == "rescued"


def test_what_follows_keeps_the_record_of_the_rule() -> None:
    played = exhaust("continue", "set_ctx: { gave_up: true }")
    said = played.said(p.TaskAdvanced)[0]

    assert (said.decision["follows"], said.decision["matched"]) == ("retry_exhausted", "eval[0]")
    assert said.decision["rules"][0]["value"] is True
    assert played.state.ctx == {"gave_up": True}


def test_a_write_that_cannot_be_evaluated_afterwards_fails_the_task() -> None:
    played = play(
        """
        - step: a
          tool:
            - name: t
              kind: noop
              set: { total: "{{ outcome.error.message + 1 }}" }
              eval: [ { expr: "{{ outcome.status == 'error' }}", do: retry, attempts: 1, on_exhausted: continue } ]
        """,
        {"t": [DOWN]},
    )

    assert (played.status, played.error["kind"]) == ("failed", "expression")


def test_the_same_task_may_be_come_back_to_with_new_attempts() -> None:  # req: D2
    played = play(
        """
        - step: a
          tool:
            - name: login
              kind: noop
            - name: fetch
              kind: noop
              eval: [ { expr: "{{ outcome.status == 'error' }}", do: retry, attempts: 2,
                  on_exhausted: { jump: login } } ]
        """,
        {"login": success(), "fetch": [BUSY, BUSY, BUSY, success("data")]},
    )

    assert [job.address.node for job in played.jobs] == [
        "a~1.login#1", "a~1.fetch#1", "a~1.fetch#2", "a~1.login@2#1", "a~1.fetch@2#1", "a~1.fetch@2#2",
    ]  # fmt: skip
    assert played.result == "data"
