"""Ways out of a step: which arcs fire, what they carry, and where a failure goes."""

from __future__ import annotations

import pytest

from shared.contracts import payloads as p
from shared.contracts.outcomes import failure, success
from tests.support.deciding import BUSY, DOWN, Played, body, play


def route(arcs: str, result: object = None, rest: str = "b c d") -> Played:
    others = "".join(f"\n- step: {name}" for name in rest.split())
    return play(f"- step: a\n  tool: {{ kind: noop }}\n  next: {arcs}{others}\n", {"a": success(result)})


@pytest.mark.parametrize(
    ("arcs", "result", "steps"),
    [
        ("b", None, ["b"]),
        ("[b, c]", None, ["b", "c"]),
        ("[ { step: b }, { step: c } ]", None, ["b", "c"]),
        ("[ { step: b, when: '{{ a > 1 }}' }, { step: c, when: '{{ a > 0 }}' } ]", 5, ["b"]),
        ("[ { step: b, when: '{{ a > 9 }}' }, { step: c, when: '{{ a > 0 }}' } ]", 5, ["c"]),
        ("[ { step: b, when: '{{ a > 9 }}' }, { else: { step: d } } ]", 5, ["d"]),
        ("[ { step: b, when: '{{ a > 1 }}' }, { else: { step: d } } ]", 5, ["b"]),
        (
            "{ mode: inclusive, arcs: [ { step: b, when: '{{ a > 1 }}' }, { step: c, when: '{{ a > 0 }}' } ] }",
            5,
            ["b", "c"],
        ),
        ("{ mode: inclusive, arcs: [ { step: b, when: '{{ a > 9 }}' }, { else: { step: d } } ] }", 5, ["d"]),
        ("{ mode: exclusive, arcs: [ { step: b }, { step: c } ] }", None, ["b"]),
        ("{ spec: { mode: inclusive }, arcs: [ { step: b }, { step: c } ] }", None, ["b", "c"]),
        ("[ { step: b, when: '{{ a > 9 }}' } ]", 5, []),
        ("[ { step: b, when: \"{{ event.name == 'step.completed' }}\" } ]", None, ["b"]),
        ("[ { step: b, when: \"{{ event.name == 'step.done' and event.step == 'a' }}\" } ]", None, ["b"]),
        ("[ { step: b, when: \"{{ outcome.status == 'ok' and outcome.result == 5 }}\" } ]", 5, ["b"]),
        ('[ { step: b, when: "{{ output.data == 5 }}" } ]', 5, ["b"]),
        ("[ { step: b, when: '{{ missing.name }}' }, { step: c, when: '{{ not missing.name }}' } ]", 5, ["c"]),
    ],
)  # req: A18
def test_arcs_fire_as_mode_and_guards_say(arcs: str, result: object, steps: list[str]) -> None:
    played = route(arcs, result)

    assert played.steps() == ["a", *steps]
    assert played.status == "completed"


def test_what_was_evaluated_is_written_down() -> None:
    played = route(
        "[ { step: b, when: '{{ a > 9 }}' }, { step: c, when: '{{ a > 0 }}' }, { step: d, when: 'true' } ]", 5
    )
    (said,) = played.said(p.NextEvaluated)

    assert (said.about, said.mode) == ("step.completed", "exclusive")
    assert [(arc["step"], arc["value"], arc["text"], arc["reads"]) for arc in said.arcs] == [
        ("b", False, "{{ a > 9 }}", {"a": 5}), ("c", True, "{{ a > 0 }}", {"a": 5}),
    ]  # fmt: skip
    assert all(arc["line"] for arc in said.arcs)


def test_an_arc_carries_arguments() -> None:
    played = play(
        """
        - step: a
          tool: { kind: noop }
          next: [ { step: b, args: { n: "{{ a.n + 1 }}", fixed: x } } ]
        - step: b
          when: "{{ args.n == 4 }}"
          tool: { kind: noop, input: { bare: "{{ n }}", whole: "{{ args.fixed }}" } }
        """,
        {"a": success({"n": 3})},
    )

    assert played.asked("b")[0].input == {"n": 4, "fixed": "x", "bare": 4, "whole": "x"}
    assert played.said(p.StepStarted)[1].args == {"n": 4, "fixed": "x"}


def test_a_failure_goes_where_an_arc_asks_for_it() -> None:  # req: D2
    played = play(
        """
        - step: a
          tool: { kind: noop }
          next:
            - { step: b }
            - { step: alert, when: "{{ event.name == 'step.failed' }}", args: { why: "{{ outcome.error.message }}" } }
        - step: b
        - step: alert
          tool: { kind: noop, input: { why: "{{ args.why }}", status: "{{ a.status }}", kind: "{{ a.error.kind }}" } }
        """,
        {"a": [DOWN]},
    )

    assert played.steps() == ["a", "alert"]
    assert played.asked("alert")[0].input == {"why": "Connection refused", "status": "error", "kind": "connection"}
    assert played.status == "completed"
    assert [said.handled for said in played.said(p.StepFailed)] == [True]


@pytest.mark.parametrize(
    "arcs",
    [
        "b",
        "[ { step: b, when: '{{ true }}' } ]",
        "[ { step: b, when: \"{{ event.name == 'step.completed' }}\" }, { else: { step: c } } ]",
        "[ { step: b, when: \"{{ outcome.status == 'success' }}\" } ]",
        "[ { step: b, when: \"{{ outcome.error.kind == 'timeout' }}\" } ]",
    ],
)
def test_a_failure_that_no_arc_asks_for_fails_the_execution(arcs: str) -> None:
    played = play(f"- step: a\n  tool: {{ kind: noop }}\n  next: {arcs}\n- step: b\n- step: c\n", {"a": [BUSY]})

    assert (played.status, played.steps()) == ("failed", ["a"])
    assert played.state.failure == {"error": BUSY.error, "step": "a", "node": "a~1.a#1"}


@pytest.mark.parametrize(
    ("arcs", "steps"),
    [
        ("b", ["b"]),
        ("[ { step: b, when: \"{{ event.name == 'step.completed' }}\" }, { else: { step: c } } ]", ["c"]),
        ("[ { step: b, when: \"{{ event.name == 'step.skipped' }}\" } ]", ["b"]),
    ],
)
def test_a_step_that_is_not_admitted_is_skipped_and_its_arcs_fire(arcs: str, steps: list[str]) -> None:
    played = play(
        f"""
        workload: {{ enabled: false }}
        workflow:
          - step: a
            when: "{{{{ workload.enabled }}}}"
            tool: {{ kind: noop }}
            next: {arcs}
          - step: b
            tool: {{ kind: noop, input: {{ a: "{{{{ a | default('undefined') }}}}" }} }}
          - step: c
            tool: {{ kind: noop, input: {{ a: "{{{{ a | default('undefined') }}}}" }} }}
        """
    )
    (said,) = played.said(p.StepSkipped)

    assert played.steps() == steps
    assert played.jobs[0].input == {"a": "undefined"}
    assert said.decision["rules"][0]["reads"] == {"workload.enabled": False}


def test_admission_that_cannot_be_evaluated_fails_the_step() -> None:
    played = play("- step: a\n  when: '{{ 1 / 0 }}'\n  next: b\n- step: b\n")

    assert (played.status, played.error["kind"]) == ("failed", "expression")


def test_a_step_may_go_back_to_itself_and_every_run_is_a_visit() -> None:
    played = play(
        """
        - step: a
          tool: { kind: noop }
          set: { ctx.n: "{{ (ctx.n | default(0)) + 1 }}" }
          next: [ { step: a, when: "{{ ctx.n < 3 }}" }, { step: b, when: "{{ ctx.n >= 3 }}" } ]
        - step: b
        """
    )

    assert played.nodes("step_started") == ["a~1", "a~2", "a~3", "b~1"]
    assert len({job.job_id for job in played.jobs}) == 3


def test_a_failure_cancels_the_other_branches() -> None:
    played = play(
        """
        - step: a
          next: [b, c]
        - step: b
          tool: { kind: noop }
        - step: c
          tool: { kind: wait, for: 10 }
          next: d
        - step: d
        """,
        {"b": [BUSY]},
    )

    assert (played.status, played.steps()) == ("failed", ["a", "b", "c"])
    assert played.at(played.log[-1]) == 0
    assert list(played.state.suspended) == ["b~1", "c~1"]


def test_other_branches_may_be_finished_first() -> None:
    played = play(
        """
        executor: { spec: { on_failure: finish } }
        workflow:
          - { step: a, next: [b, c] }
          - { step: b, tool: { kind: noop }, next: e }
          - { step: c, tool: { kind: wait, for: 10 }, next: d }
          - { step: d, tool: { kind: noop } }
          - { step: e }
        """,
        {"b": [BUSY]},
    )

    assert (played.status, played.steps()) == ("failed", ["a", "b", "c", "d"])
    assert played.error == BUSY.error
    assert played.at(played.log[-1]) == 10


def test_a_guard_that_cannot_be_evaluated_fails_its_step() -> None:
    played = route("[ { step: b, when: '{{ a / 0 > 1 }}' } ]", 5)

    assert (played.status, played.steps()) == ("failed", ["a"])
    assert played.error["kind"] == "expression"
    assert played.error["message"].startswith("next: the expression '{{ a / 0 > 1 }}' failed: division by zero")
    assert list(played.state.suspended) == ["a~1"]


def test_arguments_that_cannot_be_evaluated_fail_their_step() -> None:
    played = route("[ { step: b, args: { n: '{{ nothing }}' } } ]", 5)

    assert (played.status, played.error["message"]) == (
        "failed",
        "next: 'nothing' is undefined, and the playbook is strict",
    )


def test_a_failing_step_whose_guard_cannot_be_evaluated_says_both() -> None:
    played = play(
        """
        - step: a
          tool: { kind: noop }
          next: [ { step: b, when: "{{ event.name == 'step.failed' and 1 / 0 }}" } ]
        - step: b
        """,
        {"a": [failure("exception", "boom")]},
    )

    assert played.error["message"] == "boom"
    assert "division by zero" in played.error["details"]["next"]


END = """
- step: start
  tool: { kind: noop }
- step: end
  when: "{{ workload.wanted }}"
  loop: { in: 2 }
  tool: { kind: noop, input: { before: "{{ result }}" } }
"""


def test_an_end_step_runs_once_before_the_end_in_documents_that_expect_it() -> None:
    played = play(END, {"start": success("s")}, api="noetl.io/v2", workload={"wanted": True})

    assert played.steps() == ["start", "end"]
    assert [job.input for job in played.asked("end")] == [{"before": "s"}] * 2
    assert played.status == "completed"


def test_an_end_step_may_be_turned_away_and_is_no_habit_elsewhere() -> None:
    assert play(END, api="noetl.io/v2", workload={"wanted": False}).aliases("step_skipped") == ["step_skipped"]
    assert play(END, workload={"wanted": True}).steps() == ["start"]


def test_the_result_is_that_of_the_last_step_or_what_the_playbook_says() -> None:
    text = (
        "{}workflow:\n  - {{ step: a, tool: {{ kind: noop }}, next: b }}\n  - {{ step: b, tool: {{ kind: noop }} }}\n"
    )
    outcomes = {"a": success(1), "b": success(2)}

    assert play(text.format(""), outcomes).result == 2
    assert play(text.format('result: { sum: "{{ a + b }}" }\n'), outcomes).result == {"sum": 3}
    assert play(text.format("result: '{{ 1 / 0 }}'\n"), outcomes).error["kind"] == "expression"


def test_arcs_see_the_tasks_of_their_step() -> None:
    played = play(
        """
        - step: a
          tool: [ { name: fetch, kind: http, url: "http://x" }, { name: store, kind: noop } ]
          next: [ { step: b, when: "{{ fetch.more and a.results.fetch.more and a.status == 'ok' }}" },
                  { step: c, when: "{{ a == 'stored' }}" } ]
        - step: b
        - step: c
        """,
        {"fetch": body({"more": True}), "store": success("stored")},
    )

    assert played.steps() == ["a", "b"]
