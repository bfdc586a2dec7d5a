"""What rules, tasks, steps and arcs write, who sees it, and what two iterations may not write."""

from __future__ import annotations

from typing import Any

import pytest

from shared.contracts import payloads as p
from shared.contracts.outcomes import success
from shared.contracts.references import is_reference
from tests.support.deciding import Played, play


def written_by(loop: str, value: str, spec: str = "", values: Any = None) -> Played:
    return play(
        f"""
        executor: {{ spec: {{ {spec} }} }}
        workflow:
          - step: work
            loop: {{ in: [3, 1, 2], {loop} }}
            tool:
              - name: t
                kind: noop
                eval: [ {{ else: {{ do: continue, set_ctx: {{ key: "{value}" }} }} }} ]
        """,
        {"t": values or success()},
    )


def test_every_way_of_writing_is_seen_by_what_comes_after() -> None:  # req: A13
    played = play(
        """
        - step: a
          tool:
            - name: one
              kind: noop
              set: { mine: "{{ one.n }}", ctx.deep.er: "{{ outcome.result.n + 1 }}" }
              eval:
                - else: { do: continue, set_iter: { i: 1 }, set_ctx: { c: 2 }, set: { ctx.d: 3, iter.j: 4, bare: 5 } }
            - name: two
              kind: noop
              input: { mine: "{{ mine }}", i: "{{ iter.i }}", bare_i: "{{ i }}", c: "{{ ctx.c }}", bare_c: "{{ c }}",
                       d: "{{ vars.d }}", j: "{{ iter.j }}", bare: "{{ bare }}", deep: "{{ ctx.deep.er }}" }
          set: { ctx.last: "{{ two }}", own: "{{ a }}", of: "{{ a.results.one.n }}" }
          next: [ { step: b, set: { ctx.arc: "{{ ctx.last ~ '!' }}" } } ]
        - step: b
          tool: { kind: noop, input: { last: "{{ ctx.last }}", arc: "{{ ctx.arc }}",
              i: "{{ iter.i | default('gone') }}",
                                       mine: "{{ mine | default('gone') }}", own: "{{ own }}", of: "{{ ctx.of }}" } }
        """,
        {"one": success({"n": 7}), "two": success("end")},
    )

    assert played.asked("two")[0].input == {
        "mine": 7, "i": 1, "bare_i": 1, "c": 2, "bare_c": 2, "d": 3, "j": 4, "bare": 5, "deep": 8,
    }  # fmt: skip
    assert played.asked("b")[0].input == {
        "last": "end", "arc": "end!", "i": "gone", "mine": "gone", "own": "end", "of": 7,
    }  # fmt: skip


def test_all_keys_of_one_set_read_the_state_before_it() -> None:
    played = play(
        """
        - step: a
          tool: { kind: noop }
          set: { ctx.a: 1, ctx.b: 2 }
          next: b
        - step: b
          tool: { kind: noop }
          set: { ctx.a: "{{ ctx.b }}", ctx.b: "{{ ctx.a }}" }
        """
    )

    assert played.state.ctx == {"a": 2, "b": 1}


def test_a_step_s_set_is_seen_by_its_guards() -> None:
    played = play(
        """
        - step: a
          tool: { kind: noop }
          set: { ctx.go: "{{ a == 5 }}" }
          next: [ { step: b, when: "{{ ctx.go }}" } ]
        - step: b
        """,
        {"a": success(5)},
    )

    assert played.steps() == ["a", "b"]


def test_events_hold_values_and_no_templates() -> None:
    played = play(
        "- step: a\n  tool: { kind: noop, eval: [ { else: { do: continue, set_ctx: { n: '{{ 1 + 1 }}' } } } ] }\n"
    )

    assert played.said(p.TaskAdvanced)[0].patches == {"ctx": {"n": 2}}


def test_writing_below_a_key_leaves_the_rest_of_it() -> None:
    played = play(
        """
        - step: a
          tool: { kind: noop }
          set: { ctx.user: "{{ {'name': 'x', 'age': 3} }}" }
          next: b
        - step: b
          tool: { kind: noop }
          set: { ctx.user.age: 4 }
        """
    )

    assert played.state.ctx == {"user": {"name": "x", "age": 4}}
    assert played.said(p.StepCompleted)[0].patches == {"ctx": {"user": {"name": "x", "age": 3}}}


def test_iter_lives_as_long_as_the_iteration() -> None:  # req: F3
    played = play(
        """
        - step: work
          loop: { in: 2 }
          tool:
            - { name: one, kind: noop, eval: [ { else: { do: continue,
                set_iter: { n: "{{ (iter.n | default(0)) + item }}" } } } ] }
            - { name: two, kind: noop, input: { n: "{{ iter.n }}" } }
        """
    )

    assert [job.input for job in played.asked("two")] == [{"n": 0}, {"n": 1}]


def test_two_parallel_iterations_cannot_write_different_values_to_one_key() -> None:  # req: D6
    played = written_by("mode: parallel", "{{ item }}")

    assert played.status == "failed"
    assert (played.error["kind"], played.said(p.IterationFailed)[0].index) == ("conflict", 1)
    assert played.error["details"]["first"]["message"] == "another iteration wrote a different value to ctx.key"
    assert played.state.ctx == {"key": 3}


def test_parallel_iterations_may_agree() -> None:
    played = written_by("mode: parallel", "same")

    assert (played.status, played.state.ctx) == ("completed", {"key": "same"})


def test_one_iteration_may_change_its_mind_unless_another_agreed_with_it() -> None:
    text = """
    - step: work
      loop: { in: 2, mode: parallel, tolerate: 2 }
      tool:
        - { name: one, kind: noop, eval: [ { else: { do: continue, set_ctx: { key: 1 } } } ] }
        - { name: two, kind: noop, eval: [ { expr: "{{ item == 0 }}", do: continue, set_ctx: { key: 2 } } ] }
    """
    played = play(text.replace("in: 2", "in: 1"))
    assert played.state.ctx == {"key": 2}

    played = play(text)
    assert [said.index for said in played.said(p.IterationFailed)] == [0]
    assert played.state.ctx == {"key": 1}


def test_sequential_iterations_may_write_what_they_like() -> None:
    assert written_by("mode: sequential", "{{ item }}").state.ctx == {"key": 2}


@pytest.mark.parametrize(
    ("reducer", "result"), [("append", [3, 1, 2]), ("sum", 6), ("max", 3), ("min", 1), ("last", 2)]
)
def test_a_reducer_says_how_a_key_combines(reducer: str, result: Any) -> None:
    played = written_by("mode: parallel", "{{ item }}", f"reducers: {{ key: {reducer} }}")

    assert (played.status, played.state.ctx) == ("completed", {"key": result})


def test_the_event_of_a_reduced_write_holds_only_what_is_new() -> None:
    played = written_by("mode: parallel", "{{ item }}", "reducers: { key: append }")

    assert [said.patches["reduce"] for said in played.said(p.TaskAdvanced)] == [
        {"key": {"by": "append", "value": value}} for value in (3, 1, 2)
    ]


def test_what_a_reducer_cannot_combine_is_an_error_of_its_writer() -> None:
    played = written_by("mode: parallel, tolerate: 1", "{{ item if item != 1 else 'one' }}", "reducers: { key: sum }")

    assert played.state.ctx == {"key": 5}
    assert played.said(p.IterationFailed)[0].error["message"] == "ctx.key: str and int cannot be combined by 'sum'"


def test_a_large_value_is_written_by_reference_and_can_be_read_into() -> None:
    rows = [{"id": number, "text": "x" * 100} for number in range(1000)]
    played = play(
        """
        - step: a
          tool: { kind: noop }
          set: { ctx.rows: "{{ a.rows }}", ctx.copy: "{{ a.rows | list }}" }
          next: [ { step: b, when: "{{ ctx.rows[2].id == 2 and (ctx.copy | length) == 1000 and rows[0].id == 0 }}" } ]
        - step: b
          tool: { kind: noop, input: { third: "{{ ctx.rows[2].id }}", all: "{{ ctx.rows }}" } }
        """,
        {"a": success({"rows": rows})},
    )
    (job,) = played.asked("b")

    assert is_reference(played.state.ctx["copy"])
    assert job.input["all"] == played.state.ctx["rows"]
    assert is_reference(job.input["third"]) or job.input["third"] == 2


def test_a_write_that_cannot_be_evaluated_fails_the_step() -> None:
    played = play("- step: a\n  tool: { kind: noop }\n  set: { ctx.x: '{{ 1 / 0 }}' }\n")

    assert (played.status, played.error["kind"]) == ("failed", "expression")
    assert "division by zero" in played.error["message"]
