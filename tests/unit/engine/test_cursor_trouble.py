"""Loops over a cursor when something fails, is stopped, or is run again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from shared.contracts import payloads as p
from shared.contracts.jobs import Job
from shared.contracts.outcomes import Outcome, failure, success
from shared.engine.explain import explain
from shared.engine.rehearsal import Reply
from shared.engine.state import LoopRun
from shared.engine.stimuli import Cancel, NotPossibleError, Pause, Redrive, Resume
from shared.engine.world import LostValueError
from tests.support.deciding import BUSY, DOWN, Played, play, program, takes
from tests.unit.engine.test_cursor import cursor, echo, queue, rows, slow, worked

NO = failure("exception", "no")
BROKEN = failure("sql", "relation does not exist", code="42P01", pg={"code": "42P01"})


def loop_of(played: Played) -> LoopRun:
    (run,) = [*played.state.runs.values(), *played.state.suspended.values()]
    assert run.loop is not None
    return run.loop


def failing(*numbers: int, once: bool = False) -> Callable[[Job], Outcome]:
    """Fail the iterations of some rows, every time or only the first."""
    left = set(numbers)

    def work(job: Job) -> Outcome:
        number = job.input["row"]
        if number not in left:
            return echo(job)
        if once:
            left.discard(number)
        return NO

    return work


def test_a_claim_that_may_succeed_later_is_tried_again() -> None:
    played = cursor(claim=[DOWN, DOWN, rows(1), failure("sql", "deadlock", code="40P01"), rows()])

    assert [job.address.node for job in played.asked("claim")] == [
        "work~1.claim#1", "work~1.claim#2", "work~1.claim#3", "work~1.claim@2#1", "work~1.claim@2#2",
    ]  # fmt: skip
    assert [said.max_attempts for said in played.said(p.TaskRetryScheduled)] == [3, 3, 3]
    assert (played.status, worked(played)) == ("completed", [1])
    assert "rule retryable matched because outcome.error.retryable = True" in explain(played.log)[1].text


@pytest.mark.parametrize(("answers", "asked"), [([BROKEN], 1), ([DOWN, DOWN, DOWN], 3)])
def test_a_claim_that_fails_fails_the_step(answers: list[Outcome], asked: int) -> None:
    played = cursor(claim=answers)
    (said,) = played.said(p.StepFailed)

    assert (played.status, len(played.asked("claim"))) == ("failed", asked)
    assert (said.error["kind"], said.node) == (answers[-1].error["kind"], f"work~1.claim#{asked}")  # type: ignore[index]
    assert played.said(p.LoopCompleted) == []


def test_an_arc_takes_up_a_claim_that_failed() -> None:
    played = play(
        """
        - step: work
          loop: { cursor: { kind: postgres, claim: x } }
          tool: { kind: noop }
          next:
            - { step: sorry, when: "{{ event.name == 'step.failed' }}", args: { why: "{{ work.error.message }}" } }
        - step: sorry
          tool: { kind: noop }
        """,
        {"claim": BROKEN},
    )

    assert (played.status, played.steps()) == ("completed", ["work", "sorry"])
    assert played.asked("sorry")[0].input == {"why": "relation does not exist"}


def test_a_claim_that_fails_cancels_what_is_under_way() -> None:
    played = cursor(", max_in_flight: 2", claim=[rows(1), takes(0.5, BROKEN)], work=slow)

    assert (played.status, played.at(played.log[-1])) == ("failed", 0.5)
    assert played.said(p.IterationCompleted) == []


def test_a_cursor_has_rules_of_its_own() -> None:
    played = cursor(
        claim=[rows(), rows(), rows(1), rows(), rows(), rows()],
        more=", eval: [ { expr: '{{ outcome.result.row_count == 0 }}', do: retry, attempts: 3, delay: 30, "
        "backoff: fixed, on_exhausted: continue }, { expr: \"{{ outcome.status == 'error' }}\", do: fail } ]",
    )

    assert (played.status, worked(played)) == ("completed", [1])
    assert [said.delay_s for said in played.said(p.TaskRetryScheduled)] == [30, 30, 30, 30]
    assert [said.rows for said in played.said(p.LoopClaimed)] == [1, 0]


def test_retries_of_a_claim_can_be_turned_off() -> None:
    played = cursor(claim=DOWN, more=", retry: false")

    assert (played.status, len(played.asked("claim"))) == ("failed", 1)


def test_a_claim_may_wait_and_come_back_to_itself() -> None:
    played = cursor(
        claim=[rows(), rows(1), rows(), rows()],
        more=", eval: [ { expr: '{{ outcome.result.row_count == 0 }}', do: jump, to: claim, delay: 5, max_jumps: 1 },"
        " { else: { do: continue } } ]",
    )

    assert [job.address.page for job in played.asked("claim")] == [1, 2, 3, 4]
    assert (played.status, played.error["kind"], worked(played)) == ("failed", "limit", [1])


def test_a_claim_that_cannot_be_rendered_fails_the_step() -> None:
    played = cursor(more=", params: [ '{{ row.id }}' ]")

    assert (played.status, played.error["kind"]) == ("failed", "expression")


@pytest.mark.parametrize("most", ["0", "'x'", "1.5"])
def test_a_number_of_rows_that_is_none_fails_the_step(most: str) -> None:
    played = cursor(f', frame: {{ max_rows: "{{{{ {most} }}}}" }}')

    assert (played.status, played.error["kind"], played.jobs) == ("failed", "expression", [])


def test_a_worker_that_is_lost_with_a_claim_is_an_error_that_may_pass() -> None:
    played = cursor(claim=[takes(100, rows(1)), rows()], run_for=1)
    (job,) = played.jobs
    played.tell(type(played.log[0])("e1", p.JobPoisoned(job.job_id, "limit"), job.address, event_id="poison"))

    assert played.go_on().status == "completed"
    assert [item.address.node for item in played.asked("claim")] == ["work~1.claim#1", "work~1.claim#2"]


def test_a_claim_heard_twice_counts_once() -> None:
    played = cursor(claim=[rows(1), rows()])
    heard = next(event for event in played.log if event.alias == "action_completed")

    assert played.tell(heard).is_nothing


@pytest.mark.parametrize(
    ("tolerate", "failures", "status"),
    [
        ("", 1, "failed"),
        ("tolerate: 2", 2, "completed"),
        ("tolerate: 2", 3, "failed"),
        ("tolerate: 20%", 2, "completed"),
        ("tolerate: 20%", 3, "failed"),
        ("on_failure: continue", 10, "completed"),
    ],
)
def test_so_many_failures_are_tolerated(tolerate: str, failures: int, status: str) -> None:
    played = cursor("", tolerate, claim=queue(10), work=failing(*range(failures)))

    assert played.status == status


def test_too_many_failures_end_the_loop_at_once_and_cancel_the_claim_under_way() -> None:
    played = cursor(
        ", max_in_flight: 3", claim=[rows(1, 2), takes(50, rows(3))], work=lambda job: takes(job.input["row"], NO)
    )
    (said,) = played.said(p.LoopCompleted)

    assert (said.total_iterations, said.failed, played.at(played.log[-1])) == (2, 1, 1)
    assert played.error["message"] == "1 of 2 iterations failed; the first: no"


def test_a_share_of_failures_is_judged_when_the_number_of_rows_is_known() -> None:
    early = cursor("", "tolerate: 10%", claim=queue(20), work=failing(0, 1))
    late = cursor(
        ", max_in_flight: 4", "tolerate: 10%", claim=[rows(1, 2, 3), rows()],
        work=lambda job: NO if job.input["row"] == 1 else takes(60, echo(job)),
    )  # fmt: skip

    assert early.status == "completed"
    assert (late.status, late.at(late.log[-1])) == ("failed", 0)


def test_a_redriven_loop_runs_the_failed_iterations_again_and_goes_on_claiming() -> None:
    played = cursor(claim=queue(4), work=failing(1, once=True))
    assert (played.status, worked(played)) == ("failed", [0, 1])

    played.tell(Redrive())
    played.go_on()

    assert (played.status, worked(played)) == ("completed", [0, 1, 1, 2, 3])
    assert played.nodes("iteration_started") == ["work~1[0]", "work~1[1]", "work~2[1]", "work~2[2]", "work~2[3]"]
    assert played.asked("after")[0].input == {"all": [0, 1, 2, 3]}
    (said,) = played.said(p.LoopCompleted)[1:]
    assert (said.total_iterations, said.successful, said.failed) == (4, 4, 0)
    assert [job.address.node for job in played.asked("claim")][2:] == [
        "work~2.claim#1", "work~2.claim@2#1", "work~2.claim@3#1",
    ]  # fmt: skip


def test_what_was_under_way_and_what_waited_runs_when_the_loop_is_taken_up_again() -> None:
    played = cursor(", max_in_flight: 2, frame: { max_rows: 6 }", claim=queue(8, 6), work=slow, run_for=1.5)
    played.tell(Cancel())
    assert worked(played.go_on()) == [0, 1, 2, 3]

    played.tell(Redrive())
    played.go_on()

    assert (played.status, worked(played)) == ("completed", [0, 1, 2, 3, 2, 3, 4, 5, 6, 7])
    assert played.asked("after")[0].input == {"all": list(range(8))}


def test_a_claim_cut_off_is_made_again_under_another_name() -> None:
    played = cursor(claim=[takes(9, rows(1)), rows(2), rows()], run_for=1)
    decision = played.tell(Cancel())
    assert decision.cancelled == (played.jobs[0].job_id,)
    played.go_on()

    played.tell(Redrive())
    played.go_on()

    assert (played.status, worked(played)) == ("completed", [2])
    assert [job.address.node for job in played.asked("claim")] == [
        "work~1.claim#1", "work~2.claim#1", "work~2.claim@2#1",
    ]  # fmt: skip


def test_a_loop_whose_claim_failed_goes_on_from_there() -> None:
    played = cursor(", max_in_flight: 2", claim=[rows(1), takes(0.5, BROKEN), rows(2), rows()], work=slow)
    assert played.status == "failed"

    played.tell(Redrive())
    played.go_on()

    assert (played.status, worked(played)) == ("completed", [1, 1, 2])
    assert played.asked("after")[0].input == {"all": [1, 2]}


def test_many_failures_are_set_aside_and_all_of_them_run_again() -> None:
    played = cursor(
        ", max_in_flight: 20, frame: { max_rows: 50 }", "tolerate: 999", claim=queue(1001, 50),
        work=lambda job: NO if job.address.visit == 1 else echo(job),
    )  # fmt: skip
    claims = loop_of(played).claims
    assert played.status == "failed"
    assert claims is not None
    assert len(claims.failed) <= 100
    assert sum(batch.size for batch in claims.set_aside) + len(claims.failed) == 1000

    played.tell(Redrive())
    played.go_on()

    assert played.status == "completed"
    assert sorted(worked(played)[-1001:]) == list(range(1001))
    assert played.rehearsal.values.load("loop:e1/work~2") == list(range(1001))


def test_large_elements_of_failed_iterations_do_not_stay_in_the_state() -> None:
    large = [{"id": number, "pad": "x" * 6000} for number in range(10)]
    played = cursor("", "tolerate: 8", claim=[rows(*large), rows()],
                    work=lambda job: NO if job.address.visit == 1 else success())  # fmt: skip
    claims = loop_of(played).claims

    assert claims is not None
    assert claims.failed_bytes < 24_000
    assert [set(batch.elements) for batch in claims.set_aside] == [{"_ref", "_size"}] * 2
    played.tell(Redrive())
    assert [row["id"] for row in worked(played.go_on())[9:]] == list(range(10))


def test_rows_that_are_gone_fail_the_step() -> None:
    class Gone(dict[str, Any]):
        def __getitem__(self, ref: str) -> Any:
            raise LostValueError(ref)

    played = cursor(claim=[takes(1, success({"_ref": "sha256:big", "_size": 10**6}))], run_for=0.5)
    played.rehearsal.values.by_ref = Gone()
    played.rehearsal.run()

    assert (played.status, played.error["message"]) == ("failed", "the stored value sha256:big is gone")


def test_a_paused_loop_claims_nothing_until_it_is_resumed() -> None:
    played = cursor(claim=queue(2), work=slow, run_for=0.5)
    played.tell(Pause())
    played.go_on()
    assert (len(played.asked("claim")), worked(played)) == (1, [0])

    played.tell(Resume())
    played.rehearsal.release("e1")

    assert (played.go_on().status, worked(played)) == ("completed", [0, 1])


def test_a_step_that_runs_out_of_time_cancels_its_claim() -> None:
    played = play(
        """
        - step: work
          timeout: 5
          loop: { cursor: { kind: postgres, claim: x } }
          tool: { kind: noop }
        """,
        {"claim": takes(60, rows(1))},
    )

    assert (played.status, played.error["kind"], played.at(played.log[-1])) == ("failed", "timeout", 5)


@pytest.mark.parametrize(
    ("before", "after"),
    [("cursor: { kind: postgres, claim: x }", "in: 3"), ("in: 3", "cursor: { kind: postgres, claim: x }")],
)
def test_a_playbook_whose_loop_became_another_cannot_take_it_up_again(before: str, after: str) -> None:
    text = "- {{ step: work, loop: {{ {} }}, tool: {{ kind: noop }} }}"
    played = play(text.format(before), {"claim": [rows(1), rows()], "work.work": NO})
    played.root.program = program(text.format(after))

    with pytest.raises(NotPossibleError) as refused:
        played.tell(Redrive())

    assert str(refused.value) == "the loop of step 'work' is of another kind now; name the step to run again"


def test_a_conflict_of_parallel_writes_is_found_in_a_cursor_s_loop_too() -> None:
    def respond(job: Job) -> Reply | Outcome:
        return rows(1, 2) if job.address.node == "work~1.claim#1" else success(job.address.iteration)

    played = play(
        """
        - step: work
          loop: { cursor: { kind: postgres, claim: x }, mode: parallel }
          tool: { kind: noop, eval: [ { else: { do: continue, set_ctx: { a: "{{ outcome.result }}" } } } ] }
        """,
        respond,
    )

    assert (played.status, played.error["kind"]) == ("failed", "conflict")


def test_busy_is_tried_again_in_every_iteration_without_another_claim() -> None:
    played = play(
        """
        - step: work
          loop: { cursor: { kind: postgres, claim: x } }
          tool: { kind: noop, retry: 2 }
        """,
        {"claim": [rows(1), rows()], "work.work": [BUSY, success("x")]},
    )

    assert (played.result, len(played.asked("claim"))) == (["x"], 2)


def test_a_redriven_loop_asks_again_for_rows_that_came_after_the_last_claim() -> None:
    played = cursor(
        ", max_in_flight: 2", claim=[rows(1), rows(), rows(2), rows()],
        work=lambda job: takes(1, NO) if job.address.visit == 1 else echo(job),
    )  # fmt: skip
    assert [said.rows for said in played.said(p.LoopClaimed)] == [1, 0]

    played.tell(Redrive())
    played.go_on()

    assert (played.status, worked(played)) == ("completed", [1, 1, 2])
