"""Child playbooks: what they are given, what comes back, and what ends them."""

from __future__ import annotations

from shared.contracts import payloads as p
from shared.contracts.ids import child_execution_id
from shared.contracts.outcomes import success
from shared.engine.rehearsal import Rehearsed
from shared.engine.stimuli import Cancel
from tests.support.deciding import BUSY, Played, play

CHILD = """
workload: { name: nobody, deep: { a: 1, b: 2 } }
workflow:
  - { step: one, tool: { kind: noop, input: { name: "{{ workload.name }}" } }, next: two }
  - { step: two, tool: { kind: noop, input: { deep: "{{ workload.deep }}",
      outer: "{{ iter.parent.item | default('none') }}" } } }
"""
PARENT = """
- step: call
  tool: { kind: playbook, path: children/greet, input: { name: "{{ workload.who }}" } }
  next: [ { step: after, when: "{{ event.name == 'step.completed' or event.name == 'step.failed' }}" } ]
- step: after
  tool: { kind: noop, input: { result: "{{ call }}", error: "{{ call.error }}" } }
"""


def children(played: Played) -> list[Rehearsed]:
    return [found for name, found in played.rehearsal.executions.items() if name != "e1"]


def test_a_child_runs_with_what_it_is_given_and_its_result_comes_back() -> None:
    played = play(
        PARENT,
        {"one": success(1), "two": success({"answer": 42})},
        playbooks={"children/greet": CHILD},
        workload={"who": "ann"},
    )
    (child,) = children(played)

    assert child.state.execution_id == child_execution_id(played.said(p.TaskScheduled)[0].job_id)
    assert child.state.workload == {"name": "ann", "deep": {"a": 1, "b": 2}}
    assert played.asked("after")[0].input["result"] == {"answer": 42}
    assert played.aliases("action_queued", "action_started", "action_completed")[:3] == [
        "action_queued", "action_started", "action_completed",
    ]  # fmt: skip
    (said,) = [said for said in played.said(p.TaskProcessed) if "child" in said.outcome]
    assert said.outcome["child"] == {"execution_id": child.state.execution_id, "status": "completed"}


def test_a_child_knows_who_waits_for_it() -> None:
    played = play(PARENT, playbooks={"children/greet": CHILD}, workload={"who": "ann"})
    (child,) = children(played)

    assert child.state.parent == {
        "execution_id": "e1",
        "job_id": played.said(p.TaskScheduled)[0].job_id,
        "node": "call~1.call#1",
        "max_attempts": 1,
        "return_step": None,
    }


def test_the_result_may_be_that_of_a_named_step() -> None:
    text = PARENT.replace("path: children/greet", "path: children/greet, return_step: one")
    played = play(
        text,
        {"one": success("first"), "two": success("last")},
        playbooks={"children/greet": CHILD},
        workload={"who": "x"},
    )

    assert played.asked("after")[0].input["result"] == "first"


def test_a_failing_child_is_an_outcome_that_rules_and_arcs_see() -> None:
    played = play(PARENT, {"one": BUSY}, playbooks={"children/greet": CHILD}, workload={"who": "x"})
    error = played.asked("after")[0].input["error"]

    assert (error["kind"], error["message"]) == ("child", "503 Service Unavailable")
    assert error["details"] == {"kind": "server_error", "step": "one", "node": "one~1.one#1"}
    assert played.status == "completed"


def test_a_child_may_be_tried_again_after_a_delay() -> None:
    played = play(
        """
        - step: call
          tool: { kind: playbook, path: children/greet }
          retry: { max_attempts: 3, initial_delay: 5, jitter: false }
        """,
        {
            "one": [
                BUSY,
                success(),
            ],
            "two": success("done"),
        },
        playbooks={"children/greet": CHILD},
    )
    first, second = children(played)

    assert first.state.execution_id != second.state.execution_id
    assert (played.status, played.result) == ("completed", "done")
    assert played.at(second.log[0]) == 5 if second.log[0].occurred_at else True
    assert [said.retry for said in played.said(p.TaskStarted)] == [
        {"attempt": 1, "max_attempts": 3, "is_retry": False}, {"attempt": 2, "max_attempts": 3, "is_retry": True},
    ]  # fmt: skip


def test_a_playbook_that_is_not_there_fails_the_task() -> None:
    played = play("- step: call\n  tool: { kind: playbook, path: nowhere }\n")

    assert (played.status, played.error["kind"]) == ("failed", "child")
    assert played.error["message"] == "no playbook 'nowhere'"


def test_a_path_that_is_no_text_fails_the_task() -> None:
    played = play("- step: call\n  tool: { kind: playbook, path: '{{ 5 }}' }\n")

    assert (played.error["kind"], played.error["message"]) == (
        "expression", "the path of a child playbook is a text, not 5",
    )  # fmt: skip


def test_cancelling_reaches_children_and_their_children() -> None:
    inner = "- { step: sleep, tool: { kind: wait, for: 100 } }\n"
    middle = "- { step: call, tool: { kind: playbook, path: inner } }\n"
    played = play(
        "- { step: call, tool: { kind: playbook, path: middle } }\n",
        playbooks={"middle": middle, "inner": inner},
        run_for=1,
    )
    played.tell(Cancel("ann", "enough"))
    played.go_on()

    assert [found.state.status for found in played.rehearsal.executions.values()] == ["cancelled"] * 3
    assert played.at(played.log[-1]) == 1


def test_a_child_that_is_cancelled_by_itself_is_an_error_of_the_task() -> None:
    played = play(
        "- { step: call, tool: { kind: playbook, path: child } }\n",
        playbooks={"child": "- { step: sleep, tool: { kind: wait, for: 100 } }\n"},
        run_for=1,
    )
    (child,) = children(played)
    played.rehearsal.tell(child.state.execution_id, Cancel("ann"))
    played.go_on()

    assert (played.status, played.error["kind"]) == ("failed", "cancelled")


def test_a_child_of_a_loop_sees_the_iteration_it_was_called_from() -> None:
    played = play(
        """
        - step: call
          loop: { in: [x, y], mode: parallel }
          tool: { kind: playbook, path: children/greet }
        """,
        playbooks={"children/greet": CHILD},
    )

    assert [job.input["outer"] for child in children(played) for job in child.jobs if job.address.task == "two"] == [
        "x",
        "y",
    ]
    assert [child.state.parent["iter"]["index"] for child in children(played) if child.state.parent] == [0, 1]


def test_arguments_of_the_step_reach_the_child_too() -> None:
    played = play(
        """
        - step: call
          args: { name: bob }
          tool: { kind: playbook, path: children/greet, input: { deep: { b: 3 } } }
        """,
        playbooks={"children/greet": CHILD},
    )
    (child,) = children(played)

    assert child.state.workload == {"name": "bob", "deep": {"a": 1, "b": 3}}


def test_an_error_of_a_lost_iteration_cancels_the_children_of_the_others() -> None:
    played = play(
        """
        - step: call
          loop: { in: [quick, slow], mode: parallel }
          tool: { kind: playbook, path: "{{ item }}" }
        """,
        {"boom": BUSY},
        playbooks={
            "quick": "- { step: boom, tool: { kind: noop } }\n",
            "slow": "- { step: z, tool: { kind: wait, for: 9 } }\n",
        },
    )

    assert [found.state.status for found in played.rehearsal.executions.values()] == ["failed", "failed", "cancelled"]
