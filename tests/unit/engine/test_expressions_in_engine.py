"""Expressions where they are used: what they see, what hides what, and what becomes of one that fails."""

from __future__ import annotations

from typing import Any

import pytest

from shared.contracts import payloads as p
from shared.contracts.outcomes import Outcome, failure, http_failure, success
from shared.contracts.references import is_reference
from tests.support.deciding import Played, body, play


def given(expression: str, **more: Any) -> Any:
    """Return what an expression gives in the input of a task."""
    played = play(f'- step: a\n  tool:\n    kind: noop\n    input:\n      it: "{expression}"\n', **more)
    assert played.status == "completed", played.error
    return played.jobs[0].input["it"]


def matches(expression: str, outcome: Outcome, **more: Any) -> bool:
    """Say whether a condition holds for an outcome."""
    rule = f'{{ expr: "{expression}", do: break }}'
    text = f"- step: a\n  tool: {{ name: t, kind: noop, eval: [ {rule}, {{ else: {{ do: fail }} }} ] }}\n"
    played = play(text, {"t": outcome}, **more)
    return played.status == "completed"


def after(first: str, expression: str, outcome: Outcome, **more: Any) -> Any:
    """Return what an expression gives in the step after another."""
    second = f'- step: second\n  tool:\n    kind: noop\n    input:\n      it: "{expression}"\n'
    played = play(f"- step: first\n  {first}\n  next: second\n{second}", {"first": outcome}, **more)
    assert played.status == "completed", played.error
    return played.asked("second")[0].input["it"]


ONE = "tool: { kind: noop }"


def test_an_expression_that_fails_in_a_call_is_an_outcome_that_rules_see() -> None:
    played = play(
        """
        - step: a
          tool:
            - name: t
              kind: noop
              input: { n: "{{ 1 / workload.zero }}" }
              eval:
                - { expr: "{{ outcome.error.kind == 'expression' }}", do: break,
                    set_ctx: { why: "{{ outcome.error.message }}" } }
        """,
        workload={"zero": 0},
    )

    assert played.status == "completed"
    assert played.jobs[0].kind == "error"
    assert "division by zero" in played.state.ctx["why"]
    details = played.said(p.TaskProcessed)[0].outcome["error"]["details"]
    assert (details["template"], details["line"]) == ("{{ 1 / workload.zero }}", 9)
    assert "workload" in details["names_in_scope"]


def test_an_expression_that_fails_can_be_tried_again() -> None:
    played = play(
        """
        - step: a
          tool:
            - name: t
              kind: noop
              input: { n: "{{ 10 / ctx.divisor }}" }
              eval: [ { expr: "{{ outcome.status == 'error' }}", do: retry, set_ctx: { divisor: 5 } } ]
        """
    )

    assert played.status == "completed"
    assert [(job.kind, job.input) for job in played.jobs] == [("error", None), ("noop", {"n": 2})]
    assert [job.delay_s for job in played.jobs] == [0, 1]


def test_a_rule_that_cannot_be_evaluated_fails_the_task() -> None:
    played = play(
        "- step: a\n  tool: { kind: noop, eval: [ { expr: '{{ outcome.result / 0 }}', do: break } ] }\n",
        {"a": success(1)},
    )
    (said,) = played.said(p.TaskAdvanced)

    assert (played.status, played.error["kind"], played.error["details"]["rule"]) == ("failed", "expression", "eval[0]")
    assert said.decision["rules"][0]["reads"] == {"outcome.result": 1}


@pytest.mark.parametrize(("api", "status"), [("redrive.io/v1", "failed"), ("noetl.io/v2", "completed")])
def test_an_undefined_value_is_an_error_where_the_playbook_is_strict(api: str, status: str) -> None:
    played = play("- step: a\n  tool: { kind: noop, input: { it: '{{ nothing.here }}' } }\n", api=api)

    assert played.status == status
    if status == "completed":
        assert played.jobs[0].input == {"it": None}
        assert played.said(p.TaskScheduled)[0].warnings == ("nothing.here",)
    else:
        assert played.error["message"] == "'nothing.here' is undefined, and the playbook is strict"


def test_an_undefined_name_in_a_condition_is_falsy_and_recorded() -> None:
    played = play("- step: a\n  tool: { kind: noop, eval: [ { expr: '{{ nothing.here }}', do: fail } ] }\n")
    (said,) = played.said(p.TaskAdvanced)

    assert played.status == "completed"
    assert said.decision["rules"][0]["reads"] == {"nothing.here": "undefined"}
    assert said.decision["undefined"] == ["nothing.here"]


def test_a_default_is_no_undefined_value() -> None:
    assert given("{{ nothing | default('x') }}") == "x"


@pytest.mark.parametrize(
    ("expression", "outcome", "expected"),
    [
        ("{{ outcome.status == 'success' }}", success(), True),
        ("{{ outcome.status == 'ok' }}", success(), True),
        ("{{ outcome.status in ['ok'] }}", success(), True),
        ("{{ outcome.status != 'ok' }}", failure("exception", "x"), True),
        ("{{ outcome.result == {'a': 1} }}", success({"a": 1}), True),
        ("{{ outcome.error.kind == 'rate_limit' and outcome.error.retryable }}", http_failure(429), True),
        ("{{ outcome.error.code == 429 and outcome.error.status == 429 }}", http_failure(429), True),
        ("{{ outcome.http.status == 200 }}", body({}), True),
        ("{{ outcome.pg.code == '40001' }}", failure("sql", "x", code="40001", pg={"code": "40001"}), True),
        ("{{ outcome.py.exception == 'KeyError' }}", failure("exception", "x", py={"exception": "KeyError"}), True),
        ("{{ outcome.meta.attempt == 1 }}", success(), True),
        ("{{ outcome.result.items == [1] }}", body({"items": [1]}), True),
        ("{{ outcome.result.status_code == 200 }}", body({"items": [1]}), True),
        ("{{ output.status == 'ok' and output.items == [1] }}", body({"items": [1]}), True),
        ("{{ output.data.items == [1] and output.http.status == 200 }}", body({"items": [1]}), True),
        ("{{ output.data == [1] }}", success({"data": [1]}), True),
        ("{{ output.data == 7 }}", success(7), True),
        ("{{ output.rows == [1] and output.data.rows == [1] }}", success({"rows": [1]}), True),
        ("{{ output.error.kind == 'connection' }}", failure("connection", "x"), True),
        ("{{ output.status == 'error' and output.data is none }}", failure("connection", "x"), True),
        ("{{ _task == 't' and _attempt == 1 }}", success(), True),
        ("{{ execution_id == 'e1' }}", success(), True),
    ],
)  # req: E1, E2, B18
def test_a_condition_reads_the_outcome(expression: str, outcome: Outcome, expected: bool) -> None:
    assert matches(expression, outcome) is expected


def test_the_raw_result_may_hide_no_helper_field() -> None:
    assert matches("{{ output.status == 'success' and output.data == 5 }}", success({"status": "busy", "data": 5}))


@pytest.mark.parametrize(
    ("first", "expression", "outcome", "expected"),
    [
        (ONE, "{{ first }}", success(5), 5),
        (ONE, "{{ first.items }}", success({"items": [1]}), [1]),
        (ONE, "{{ first.data }}", success([1, 2]), [1, 2]),
        (ONE, "{{ first.data }}", success({"data": 3}), 3),
        (ONE, "{{ first.data }}", success("text"), "text"),
        (ONE, "{{ first.data.x }}", body({"x": 1}), 1),
        (ONE, "{{ first.x }}", body({"x": 1}), 1),
        (ONE, "{{ first.body.x + first.x }}", body({"x": 1}), 2),
        (ONE, "{{ first.status_code }}", body({"x": 1}), 200),
        (ONE, "{{ first.status }}", success([1]), "success"),
        (ONE, "{{ first.status }}", success({"status": "own"}), "own"),
        (ONE, "{{ result }}", success([1]), [1]),
        (ONE, "{{ result.x }}", body({"x": 9}), 9),
        (ONE, "{{ _prev }}", success([1]), [1]),
        (ONE, "{{ _prev.data }}", success([1]), [1]),
        ("loop: { in: 2 }\n  tool: { kind: noop }", "{{ first }}", success("x"), ["x", "x"]),
        ("loop: { in: 2 }\n  tool: { kind: noop }", "{{ first.results }}", success("x"), ["x", "x"]),
        ("loop: { in: 2 }\n  tool: { kind: noop }", "{{ first.data }}", success("x"), ["x", "x"]),
        ("loop: { in: 2 }\n  tool: { kind: noop }", "{{ first[1] ~ first.stats.total }}", success("x"), "x2"),
        ("loop: { in: 2 }\n  tool: { kind: noop }", "{{ first.errors }}", success("x"), []),
        ("loop: { in: 2 }\n  tool: { kind: noop }", "{{ (first | length) - first.stats.failed }}", success("x"), 2),
        (
            "tool: [ { first: { kind: noop } }, { other: { kind: noop } } ]",
            "{{ first.results.first }}",
            success("x"),
            "x",
        ),
    ],
)
def test_a_step_s_result_is_read_by_its_name(first: str, expression: str, outcome: Outcome, expected: Any) -> None:
    assert after(first, expression, outcome) == expected


def test_what_is_nearer_hides_what_is_further_away() -> None:
    everywhere = """
    workload: { name: workload, only: x }
    workflow:
      - step: name
        tool: { kind: noop }
        next: b
      - step: b
        tool:
          - { name: see0, kind: noop, input: { it: "{{ name }}", workload: "{{ workload.name }}", bare: "{{ only }}" } }
          - { label: see, name: name, kind: noop }
          - { name: see1, kind: noop, input: { it: "{{ name }}" }, eval: [ { else: { do: continue,
              set_ctx: { name: ctx } } } ] }
          - { name: see2, kind: noop, input: { it: "{{ name }}" }, eval: [ { else: { do: continue,
              set_iter: { name: iter } } } ] }
          - { name: see3, kind: noop, input: { it: "{{ name }}" } }
          - { name: see4, kind: noop, input: { name: arg, it: "{{ name }}" },
              eval: [ { expr: "{{ args.name == 'arg' and name == 'arg' }}", do: break } ] }
          - { name: never, kind: noop }
    """
    played = play(everywhere.replace("label: see, ", ""), {"name.name": success("step"), "b.name": success("task")})

    assert played.asked("see0")[0].input == {"it": "step", "workload": "workload", "bare": "x"}
    assert [played.asked(task)[0].input["it"] for task in ("see1", "see2", "see3", "see4")] == [
        "task",
        "ctx",
        "iter",
        "iter",
    ]
    assert played.asked("never") == []


def test_a_key_is_read_before_an_attribute() -> None:
    assert after(ONE, "{{ first.items }}", success({"items": "key", "keys": 1})) == "key"
    assert after(ONE, "{{ first.keys }}", success({"items": "key", "keys": 1})) == 1


def test_the_tasks_of_a_pipeline_see_one_another() -> None:  # req: A13
    played = play(
        """
        - step: a
          tool:
            - { name: one, kind: noop }
            - { name: two, kind: noop, input: { prev: "{{ _prev.n }}", named: "{{ one.n }}" } }
            - { name: three, kind: noop, input: { prev: "{{ _prev }}", named: "{{ one }}" } }
        """,
        {"one": success({"n": 1}), "two": success(2)},
    )

    assert played.asked("two")[0].input == {"prev": 1, "named": 1}
    assert played.asked("three")[0].input == {"prev": 2, "named": {"n": 1}}


def test_credentials_are_left_for_the_worker() -> None:
    played = play(
        """
        - step: a
          tool:
            kind: http
            url: "{{ workload.url }}/x"
            headers: { token: "Bearer {{ keychain.api.token }} for {{ workload.who }}" }
        """,
        workload={"url": "http://api", "who": "ann"},
    )

    assert played.jobs[0].config["url"] == "http://api/x"
    assert played.jobs[0].config["headers"]["token"] == {
        "$template": "Bearer {{ keychain.api.token }} for {{ workload.who }}",
        "$scope": {"workload": {"who": "ann"}},
    }
    assert played.jobs[0].deferred == (("config", "headers", "token"),)


def test_a_sink_leaves_the_result_for_the_worker() -> None:  # req: H1
    played = play(
        """
        - step: a
          tool: { kind: http, url: "http://x" }
          sink: { tool: postgres, auth: pg, table: "t_{{ workload.n }}", data: "{{ result.data }}" }
        """,
        workload={"n": 7},
    )

    assert played.jobs[0].sink == {
        "kind": "postgres",
        "config": {"auth": "pg", "table": "t_7", "data": {"$template": "{{ result.data }}", "$scope": {}}},
    }
    assert played.jobs[0].deferred == (("sink", "config", "data"),)


def test_the_allowed_environment_can_be_read() -> None:
    assert given("{{ env.REGION }}", env={"REGION": "eu"}) == "eu"


def test_the_time_is_that_of_the_decision() -> None:
    assert given("{{ now() }}") == "2026-01-01T00:00:00Z"


def test_chance_is_the_same_whenever_it_is_drawn_for_the_same_thing() -> None:  # req: A20, C7
    first, second = given("{{ rand() }}"), given("{{ rand() }}")

    assert first == second
    assert 0 <= first < 1


def test_rules_see_the_arguments_of_step_and_task() -> None:  # req: A13
    played = play(
        """
        - step: a
          args: { limit: 3, base: "{{ workload.n }}" }
          tool:
            - name: t
              kind: noop
              input: { own: "{{ args.base + 1 }}" }
              eval: [ { expr: "{{ args.limit == 3 and base == 5 and own == 6 }}", do: break } ]
            - { name: never, kind: noop }
        """,
        workload={"n": 5},
    )

    assert played.asked("t")[0].input == {"limit": 3, "base": 5, "own": 6}
    assert played.asked("never") == []


BIG = {"status_code": 200, "headers": {}, "body": {"rows": [{"id": 7}], "more": True}, "data": {"rows": [{"id": 7}]}}
STORED = success({"_ref": "sha256:big", "_size": 10**6, "_preview": "{", "total": 12})


def stored(expression: str) -> Any:
    return after(ONE, expression, STORED, values={"sha256:big": BIG})


def test_a_reference_travels_with_the_way_into_it() -> None:
    assert is_reference(stored("{{ first }}"))
    assert stored("{{ first.rows[0].id }}")["_path"] == ["rows", 0, "id"]
    assert stored("{{ first.data.rows }}")["_path"] == ["data", "rows"]
    assert stored("{{ result.rows }}")["_path"] == ["rows"]


def test_fields_that_stand_beside_a_reference_are_read_without_loading_it() -> None:
    assert after(ONE, "{{ first.total }}", STORED) == 12
    assert after(ONE, "{{ first._size }}", STORED) == 10**6


def test_a_reference_is_loaded_where_an_expression_reads_inside_it() -> None:
    assert stored("{{ first.rows[0].id + 1 }}") == 8
    assert stored("{{ first.rows | length }}") == 1
    assert stored("{{ result.rows[0].id ~ '!' }}") == "7!"
    assert stored("{{ _prev.rows[0].id ~ '!' }}") == "7!"
    assert stored("{{ first.status ~ first.status_code }}") == "success200"


def test_a_condition_reads_inside_a_stored_result() -> None:
    values = {"sha256:big": BIG}

    assert matches("{{ outcome.result.more and outcome.result.rows[0].id == 7 }}", STORED, values=values)
    assert matches("{{ output.more and output.data.rows[0].id == 7 }}", STORED, values=values)
    assert matches("{{ outcome.status == 'ok' and output.status == 'ok' }}", STORED)


def test_an_argument_that_is_a_reference_can_be_read_into() -> None:
    played = play(
        """
        - step: first
          tool: { kind: noop }
          next: [ { step: second, args: { rows: "{{ first.rows }}" } } ]
        - step: second
          when: "{{ args.rows[0].id == 7 and rows[0].id == 7 }}"
          tool: { kind: noop, input: { id: "{{ args.rows[0].id }}", n: "{{ rows | length }}" } }
        """,
        {"first": STORED},
        values={"sha256:big": BIG},
    )
    (job,) = played.asked("second")

    assert job.input["rows"]["_path"] == ["rows"]
    assert job.input["id"]["_path"] == ["rows", 0, "id"]
    assert job.input["n"] == 1


def test_a_value_that_is_lost_is_an_error_of_the_expression() -> None:
    from shared.engine.rehearsal import Rehearsal
    from shared.engine.world import LostValueError
    from tests.support.deciding import program

    class Nothing:
        by_ref: dict[str, Any] = {}  # noqa: RUF012

        def load(self, ref: str) -> Any:
            raise LostValueError(ref)

    rehearsal = Rehearsal(lambda job: STORED)
    rehearsal.values = Nothing()  # type: ignore[assignment]
    root = rehearsal.submit(
        program("- step: a\n  tool: { kind: noop, eval: [ { expr: '{{ outcome.result.x }}', do: break } ] }\n")
    )
    rehearsal.run()
    assert root.state.failure is not None
    assert root.state.failure["error"]["message"] == "the stored value sha256:big is gone"


def test_data_that_only_looks_like_a_reference_stays_data() -> None:
    looks: Played = play("- { step: a, tool: { kind: noop } }\n", {"a": success({"_ref": "mine", "x": 1})})

    assert looks.result == {"_ref": "mine", "x": 1}
    assert after(ONE, "{{ first._ref ~ first.x }}", success({"_ref": "mine", "x": 1})) == "mine1"
