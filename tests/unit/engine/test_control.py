"""What can be asked of an execution: to end it, to hold it, to run again what failed."""

from __future__ import annotations

import pytest

from shared.contracts import payloads as p
from shared.contracts.events import Event
from shared.contracts.jobs import Job
from shared.contracts.outcomes import Outcome, success
from shared.engine.rehearsal import Rehearsal, Reply
from shared.engine.stimuli import Cancel, Command, NotPossibleError, Pause, Redrive, Resume
from tests.support.deciding import BUSY, Played, play, program, takes

TWO = """
- { step: a, tool: { kind: noop }, next: b }
- { step: b, tool: { kind: noop, input: { a: "{{ a }}", n: "{{ workload.n | default(0) }}" } }, next: c }
- { step: c }
"""


def requested(command: str, **more: object) -> Event:
    said = p.ControlRequested(command, by="ann", **more)  # type: ignore[arg-type]
    return Event("e1", said, event_id=f"control-{command}", source="api")


def test_cancelling_ends_the_execution_and_what_is_under_way() -> None:
    played = play(TWO, {"a": takes(10, success())}, run_for=1)
    decision = played.tell(Cancel("ann", "enough"))
    played.go_on()

    assert played.status == "cancelled"
    assert decision.cancelled == (played.jobs[0].job_id,)
    (said,) = played.said(p.ExecutionCancelled)
    assert (said.by, said.reason) == ("ann", "enough")
    assert played.log[-1].alias == "execution_cancelled"


def test_an_outcome_that_comes_while_paused_is_held_until_resumed() -> None:
    played = play(TWO, {"a": takes(10, success("x"))}, run_for=1)
    played.tell(Pause("ann"))
    played.go_on()
    assert (played.status, played.steps()) == ("paused", ["a"])
    assert len(played.root.held) == 1

    played.tell(Resume("ann"))
    played.rehearsal.release("e1")
    played.go_on()

    assert (played.status, played.steps()) == ("completed", ["a", "b", "c"])
    assert played.asked("b")[0].input == {"a": "x", "n": 0}


def test_a_signal_a_poisoned_job_and_a_timer_are_held_too() -> None:
    played = play("- step: a\n  timeout: 5\n  tool: { kind: wait, signal: go }\n", run_for=1)
    played.tell(Pause())
    job = played.jobs[-1]

    assert played.rehearsal.signal("e1", "go").held
    assert played.tell(Event("e1", p.JobPoisoned(job.job_id, "limit"), job.address)).held
    assert played.go_on(10).status == "paused"
    assert played.state.signals == {}


def test_a_paused_execution_can_be_cancelled() -> None:
    played = play(TWO, {"a": takes(10, success())}, run_for=1)
    played.tell(Pause())
    played.tell(Cancel())

    assert played.go_on().status == "cancelled"


@pytest.mark.parametrize(
    ("command", "before", "reason"),
    [
        (Pause(), "completed", "an execution that is completed cannot be paused"),
        (Resume(), "running", "an execution that is running cannot be resumed"),
        (Cancel(), "completed", "the execution is completed already"),
        (Redrive(), "running", "an execution that is running cannot be redriven; cancel it first"),
        (Redrive(), "completed", "nothing failed or was cut off; name the step to run again"),
        (Redrive("step", "nowhere"), "completed", "no step 'nowhere'"),
    ],
)
def test_what_is_not_possible_is_refused_with_the_reason(command: Command, before: str, reason: str) -> None:
    played = play(TWO, {"a": takes(10, success())}, run_for=1 if before == "running" else None)
    seq = played.state.seq

    with pytest.raises(NotPossibleError) as refused:
        played.tell(command)

    assert (str(refused.value), played.state.seq) == (reason, seq)


def test_a_request_from_outside_is_part_of_the_log_if_it_is_possible() -> None:
    played = play(TWO, {"a": takes(10, success())}, run_for=1)

    assert played.tell(requested("resume")).is_nothing
    assert [event.alias for event in played.tell(requested("pause")).events] == [
        "control_requested",
        "execution_paused",
    ]
    assert [event.alias for event in played.tell(requested("cancel")).events] == [
        "control_requested",
        "execution_cancelled",
    ]
    played.check()


def test_a_failed_step_runs_again_and_the_execution_goes_on_from_there() -> None:  # req: B22
    played = play(TWO, {"b": [BUSY, success("fixed")]})
    assert played.status == "failed"

    played.tell(Redrive(by="ann", reason="fixed it"))
    played.go_on()

    assert (played.status, played.steps()) == ("completed", ["a", "b", "b", "c"])
    assert played.nodes("step_started") == ["a~1", "b~1", "b~2", "c~1"]
    assert [job.input["a"] for job in played.asked("b")] == [None, None]
    (said,) = played.said(p.ExecutionRedriven)
    assert (said.mode, said.steps, said.by) == ("failed", ("b",), "ann")


def test_a_named_step_runs_again_also_after_a_success() -> None:
    played = play(TWO)
    played.tell(Redrive("step", "b", workload={"n": 5}))
    played.go_on()

    assert played.nodes("step_started") == ["a~1", "b~1", "c~1", "b~2", "c~2"]
    assert [job.input["n"] for job in played.asked("b")] == [0, 5]


def test_a_named_step_that_was_cut_off_keeps_its_arguments() -> None:
    played = play(
        "- { step: a, next: [ { step: b, args: { x: 1 } } ] }\n- { step: b, tool: { kind: noop } }\n",
        {"b": [BUSY, success()]},
    )
    played.tell(Redrive("step", "b"))
    played.go_on()

    assert [job.input for job in played.asked("b")] == [{"x": 1}, {"x": 1}]


def test_what_was_cancelled_can_be_run_again() -> None:
    played = play(TWO, {"a": [takes(10, success(1)), success(2)]}, run_for=1)
    played.tell(Cancel())
    played.go_on()
    played.tell(Redrive())
    played.go_on()

    assert (played.status, played.nodes("step_started")) == ("completed", ["a~1", "a~2", "b~1", "c~1"])
    assert played.asked("b")[0].input["a"] == 2


LOOP = """
- step: work
  loop: { in: "{{ workload.rows }}", mode: %s }
  tool: { kind: noop, input: { it: "{{ item }}" } }
  next: after
- step: after
  tool: { kind: noop, input: { all: "{{ work }}", stats: "{{ work.stats }}" } }
"""


@pytest.mark.parametrize("mode", ["parallel, max_in_flight: 2", "sequential"])
@pytest.mark.parametrize("size", [10, 1200])
def test_only_failed_iterations_and_those_not_yet_run_are_run_again(mode: str, size: int) -> None:
    broken = {3}

    def respond(job: Job) -> Outcome:
        return BUSY if job.address.iteration in broken else success(job.address.iteration)

    rehearsal = Rehearsal(respond)
    root = rehearsal.submit(program(LOOP % mode), {"rows": list(range(size))})
    rehearsal.run()
    before = {job.address.iteration for job in root.jobs}
    assert root.state.status == "failed"

    broken.clear()
    rehearsal.tell("e1", Redrive())
    rehearsal.run()
    again = [job.address.iteration or 0 for job in root.jobs if job.address.visit == 2]
    (after,) = [job for job in root.jobs if job.address.step == "after"]
    results = after.input["all"]

    assert root.state.status == "completed"
    assert (before - set(again), sorted(again)[0]) == ({0, 1, 2}, 3)
    assert len(again) == len(set(again)) == size - 3
    assert after.input["stats"] == {"total": size, "failed": 0, "succeeded": size}
    assert (rehearsal.values.load(results["_ref"]) if size > 1000 else results) == list(range(size))


def test_iterations_that_were_in_flight_are_run_again() -> None:
    slow = {2}

    def respond(job: Job) -> Reply:
        return takes(50 if job.address.iteration in slow else 1, success(job.address.iteration))

    played = play(LOOP % "parallel", respond, workload={"rows": [0, 1, 2]}, run_for=5)
    played.tell(Cancel())
    slow.clear()
    played.tell(Redrive())
    played.go_on()

    assert [job.address.iteration for job in played.jobs if job.address.visit == 2] == [2]
    assert played.asked("after")[0].input["all"] == [0, 1, 2]


def test_a_loop_that_fails_again_can_be_redriven_again() -> None:
    left = [4, 2, 0]

    def respond(job: Job) -> Outcome:
        return BUSY if (job.address.iteration or 0) < left[0] else success(job.address.iteration)

    played = play(LOOP % "parallel", respond, workload={"rows": list(range(6))})
    for _ in range(2):
        left.pop(0)
        played.tell(Redrive())
        played.go_on()

    assert (played.status, played.asked("after")[0].input["all"]) == ("completed", [0, 1, 2, 3, 4, 5])


def test_branches_that_were_cut_off_meet_after_a_redrive() -> None:
    played = play(
        """
        - { step: start, next: [a, b] }
        - { step: a, tool: { kind: noop }, next: m }
        - { step: b, tool: { kind: noop }, next: m }
        - { step: m }
        """,
        {"a": [takes(1, BUSY), success()], "b": [takes(5, success()), success()]},
    )
    assert played.status == "failed"
    played.tell(Redrive())
    played.go_on()

    assert played.nodes("step_started") == ["start~1", "a~1", "b~1", "a~2", "b~2", "m~1"]


def test_a_failure_while_others_finish_can_be_redriven() -> None:
    played = play(
        """
        executor: { spec: { on_failure: finish } }
        workflow:
          - { step: start, next: [a, b] }
          - { step: a, tool: { kind: noop }, next: m }
          - { step: b, tool: { kind: noop }, next: m }
          - { step: m, tool: { kind: noop } }
        """,
        {"a": [BUSY, success()]},
    )
    played.tell(Redrive())
    played.go_on()

    assert (played.status, played.nodes("step_started")[-2:]) == ("completed", ["a~2", "m~2"])


def test_a_redrive_that_fails_at_once_leaves_the_rest_to_be_redriven() -> None:
    played = play(
        """
        - { step: start, next: [a, b] }
        - { step: a, loop: { in: "{{ workload.rows }}" }, tool: { kind: noop } }
        - { step: b, tool: { kind: noop } }
        """,
        {"b": takes(5, success())},
        workload={"rows": "none"},
    )
    assert played.status == "failed"
    played.tell(Redrive())
    assert played.go_on().status == "failed"
    played.tell(Redrive(workload={"rows": [1]}))

    assert played.go_on().status == "completed"


def with_plan(played: Played, text: str) -> Played:
    played.root.program = program(text)
    return played


def test_a_redrive_may_use_a_mended_playbook() -> None:
    played = play("- { step: a, tool: { kind: noop, input: { n: '{{ 1 / 0 }}' } } }\n")
    with_plan(played, "- { step: a, tool: { kind: noop, input: { n: 1 } } }\n").tell(Redrive(plan="v2"))
    played.rehearsal.run()

    assert (played.status, played.said(p.ExecutionRedriven)[0].plan) == ("completed", "v2")


def test_a_playbook_without_the_failed_step_cannot_be_redriven_from_it() -> None:
    played = play("- { step: a, tool: { kind: noop } }\n", {"a": BUSY})

    with pytest.raises(NotPossibleError, match="the playbook has no step 'a' any more"):
        with_plan(played, "- { step: b }\n").tell(Redrive())
