"""Expressions left to the worker: at places that the engine alone names, with no way for data to be one of them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from shared.contracts.events import event_to_json
from shared.contracts.outcomes import success
from shared.contracts.payloads import TaskAdvanced
from shared.engine.program import Program
from shared.engine.snapshot import snapshot
from shared.language.codec import plan_from_json, plan_to_json
from tests.support.deciding import Played, body, play, program
from tests.support.worker_inputs import HOSTILE, SECRET, sink_config, tool_inputs

NESTED = {"list": [HOSTILE, [HOSTILE]], "own": HOSTILE}
KEEP = 96 * 1024


def given(played: Played, task: str, attempt: int = 0) -> Any:
    job = played.asked(task)[attempt]
    return tool_inputs(job, played.rehearsal.values)


def told(played: Played) -> str:
    """Return everything that was written down or kept of an execution."""
    log = [event_to_json(event) for event in played.log]
    return json.dumps([log, snapshot(played.state), played.rehearsal.values.by_ref])


@pytest.mark.parametrize("data", [HOSTILE, NESTED, [HOSTILE]], ids=["one", "nested", "list"])
def test_an_answer_that_looks_like_an_expression_reaches_the_next_tool_as_data(data: Any) -> None:
    played = play(
        """
        - step: a
          tool:
            - { name: get, kind: http, url: "http://x", set: { kept: "{{ outcome.result.body }}" } }
            - name: use
              kind: http
              url: "http://y"
              input: { arg: "{{ get.body }}", all: { deep: ["{{ _prev.body }}"] } }
              body: { a: "{{ get.body }}", b: "{{ kept }}", c: ["{{ args.arg }}", "{{ all.deep[0] }}"] }
        """,
        {"get": body(data)},
    )
    job, found = played.asked("use")[0], given(played, "use")

    assert job.deferred == ()
    assert found.input == {"arg": data, "all": {"deep": [data]}}
    assert found.config["body"] == {"a": data, "b": data, "c": [data, data]}


def test_such_data_beside_an_expression_of_the_playbook_stays_data() -> None:
    played = play(
        """
        - step: a
          tool:
            - { name: get, kind: http, url: "http://x" }
            - name: use
              kind: http
              url: "http://y"
              headers: { token: "{{ keychain.api.token }}" }
              body: { mixed: "{{ [keychain.api.token, get.body] }}", plain: "{{ get.body }}" }
        """,
        {"get": body(HOSTILE)},
    )
    found = given(played, "use")

    assert played.asked("use")[0].deferred == (("config", "headers", "token"), ("config", "body", "mixed"))
    assert found.config["headers"] == {"token": SECRET}
    assert found.config["body"] == {"mixed": [SECRET, HOSTILE], "plain": HOSTILE}


def test_such_data_passes_through_ctx_arcs_and_loops_as_data() -> None:
    played = play(
        """
        - step: a
          tool:
            kind: http
            url: "http://x"
            eval: [ { else: { do: continue, set_ctx: { seen: "{{ outcome.result.body }}" } } } ]
          next: [ { step: b, args: { carried: "{{ a.body }}" } } ]
        - step: b
          loop: { in: "{{ [ctx.seen, carried] }}", iterator: item }
          tool: { kind: http, url: "http://y", body: { i: "{{ item }}", c: "{{ ctx.seen }}", a: "{{ carried }}" } }
        """,
        {"a": body(HOSTILE)},
    )
    jobs = [job for job in played.jobs if job.address.step == "b"]

    assert played.state.ctx == {"seen": HOSTILE}
    assert len(jobs) == 2
    for job in jobs:
        found = tool_inputs(job, played.rehearsal.values)
        assert found.config["body"] == {"i": HOSTILE, "c": HOSTILE, "a": HOSTILE}
        assert found.input == {"carried": HOSTILE}


def test_such_data_in_the_next_call_is_data_and_takes_the_place_of_an_expression_whole() -> None:
    played = play(
        """
        - step: a
          tool:
            kind: http
            url: "http://x"
            headers: { token: "{{ keychain.api.token }}", other: "{{ keychain.api.token }}" }
            params: { page: 1 }
            retry:
              on_success:
                while: "{{ response.more }}"
                max_attempts: 5
                next_call: { headers: "{{ response.headers }}", params: { page: "{{ response.page }}" } }
        """,
        {"a": [body({"more": True, "headers": {"token": HOSTILE}, "page": HOSTILE}), body({"more": False})]},
    )
    found = given(played, "a", 1)

    assert played.asked("a")[1].deferred == (("config", "headers", "other"),)
    assert found.config["headers"] == {"token": HOSTILE, "other": SECRET}
    assert found.config["params"] == {"page": HOSTILE}


def test_a_next_call_cannot_change_the_text_of_an_expression() -> None:
    played = play(
        """
        - step: a
          tool:
            kind: http
            url: "http://x"
            body: "{{ keychain.api.token }}"
            retry:
              on_success:
                while: "{{ response.more }}"
                max_attempts: 5
                next_call: { body: "{{ response.body }}" }
        """,
        {"a": [body({"more": True, "body": {"$template": "{{ keychain }}"}}), body({"more": False})]},
    )

    assert played.asked("a")[1].deferred == ()
    assert given(played, "a", 1).config["body"] == {"$template": "{{ keychain }}"}


@pytest.mark.parametrize("text", ["Bearer {{ token }}", "Bearer {{ args.token }}", "{{ 'Bearer ' ~ args['token'] }}"])
def test_a_field_that_reads_a_secret_argument_is_finished_by_the_worker_too(text: str) -> None:
    played = play(
        """
        - step: a
          tool:
            kind: http
            url: "http://x/{{ args.plain }}"
            input: { token: "{{ keychain.api.token }}", plain: p }
            headers: { Authorization: "TEXT" }
        """.replace("TEXT", text)
    )
    job, found = played.jobs[0], given(played, "a")

    assert job.config["url"] == "http://x/p"
    assert job.input["plain"] == "p"
    assert found.config["headers"] == {"Authorization": f"Bearer {SECRET}"}
    assert found.input == {"token": SECRET, "plain": "p"}
    assert SECRET not in told(played)


def test_arguments_of_the_step_and_arguments_made_of_arguments_are_finished_too() -> None:
    played = play(
        """
        - step: a
          args: { deep: { keys: ["x", "{{ keychain.api.token }}"] }, n: 1 }
          tool:
            kind: http
            url: "http://x/{{ deep.keys[0] }}"
            input: { header: "Bearer {{ deep.keys[1] }}", all: "{{ args }}", n: 2 }
            headers: { A: "{{ header }}", B: "{{ all.deep.keys | join('+') }}", C: "{{ n }}" }
            params: { length: "{{ deep.keys | length }}" }
        """
    )
    found = given(played, "a")

    assert played.jobs[0].config["url"] == "http://x/x"
    assert found.config["headers"] == {"A": f"Bearer {SECRET}", "B": f"x+{SECRET}", "C": 2}
    assert found.config["params"] == {"length": 2}
    assert found.input["all"] == {"deep": {"keys": ["x", SECRET]}, "n": 1}


def test_lists_in_lists_keep_their_places() -> None:
    played = play(
        """
        - step: a
          tool:
            kind: http
            url: "http://x"
            body: [ [ a, [ "{{ workload.h }}", "{{ keychain.api.token }}" ] ], { k: [ "{{ keychain.api.token }}" ] } ]
        """,
        workload={"h": HOSTILE},
    )

    assert played.jobs[0].deferred == (("config", "body", 0, 1, 1), ("config", "body", 1, "k", 0))
    assert given(played, "a").config["body"] == [["a", [HOSTILE, SECRET]], {"k": [SECRET]}]


def test_a_sink_sees_the_result_and_the_keychain_and_takes_all_else_as_data() -> None:
    played = play(
        """
        - step: a
          tool: { kind: http, url: "http://x", input: { token: "{{ keychain.api.token }}" } }
          sink:
            tool: postgres
            auth: pg
            table: "t_{{ workload.n }}"
            data: { rows: "{{ result.data }}", who: "{{ workload.h }}", both: ["{{ token }}-{{ outcome.status }}"] }
        """,
        workload={"n": 7, "h": HOSTILE},
    )
    names = {"result": {"data": [HOSTILE]}, "outcome": {"status": "success"}}
    found = sink_config(played.jobs[0], played.rehearsal.values, names)

    assert found["table"] == "t_7"
    assert found["data"] == {"rows": [HOSTILE], "who": HOSTILE, "both": [f"{SECRET}-success"]}


@pytest.mark.parametrize("size", [10, KEEP, 5 * KEEP], ids=["small", "near", "large"])
def test_expressions_work_in_a_call_however_large_it_is(size: int) -> None:
    played = play(
        """
        - step: a
          tool:
            kind: http
            url: "http://x"
            input: { token: "{{ keychain.api.token }}", big: "{{ workload.big }}" }
            headers: { A: "Bearer {{ token }}" }
            body: { big: "{{ workload.big }}", like: "{{ workload.h }}", mixed: "{{ keychain.api.token ~ args.big }}" }
          sink: { tool: postgres, table: t, data: "{{ workload.big ~ keychain.api.token }}" }
        """,
        workload={"big": "x" * size, "h": HOSTILE},
    )
    job, found = played.jobs[0], given(played, "a")

    assert ("_ref" in job.config) == (size >= KEEP)
    assert found.config["headers"] == {"A": f"Bearer {SECRET}"}
    assert found.config["body"] == {"big": "x" * size, "like": HOSTILE, "mixed": SECRET + "x" * size}
    assert found.input == {"token": SECRET, "big": "x" * size}
    assert sink_config(job, played.rehearsal.values, {})["data"] == "x" * size + SECRET
    assert SECRET not in told(played)


def test_an_expression_takes_along_no_more_than_it_reads() -> None:
    played = play(
        """
        - step: a
          loop: { in: 2, iterator: n }
          tool: noop
          next: b
        - step: b
          tool: { kind: http, url: "http://x", body: "{{ keychain.api.token ~ a.stats.total ~ workload.who.name }}" }
        """,
        workload={"who": {"name": "ann"}, "other": "o" * 1000},
    )
    job = played.asked("b")[0]

    assert job.config["body"]["$scope"] == {"a": {"stats": {"total": 2, "failed": 0, "succeeded": 2}},
                                            "workload": {"who": {"name": "ann"}}}  # fmt: skip
    assert given(played, "b").config["body"] == f"{SECRET}2ann"


def test_references_in_the_scope_of_an_expression_are_loaded_by_the_worker() -> None:
    big = {"rows": ["r" * 100_000]}
    played = play(
        """
        - step: a
          loop: { in: [1, 2], iterator: n }
          tool: { kind: http, url: "http://x" }
          next: b
        - step: b
          tool: { kind: http, url: "http://x", body: "{{ [keychain.api.token, a] }}" }
        """,
        {"a": success({"_ref": "sha256:big", "_size": 100_020})},
        values={"sha256:big": big},
    )

    assert given(played, "b").config["body"] == [SECRET, [big, big]]


MISUSED = {
    "rule": ("tool: { kind: noop, input: { t: \"{{ keychain.api.token }}\" }, "
             "eval: [ { expr: \"{{ args | length > 1 }}\", do: break } ] }"),
    "patch": ("tool: { kind: noop, input: { t: \"{{ keychain.api.token }}\" }, "
              "eval: [ { else: { do: continue, set_ctx: { x: \"{{ args }}\" } } } ] }"),
    "delay": ("tool: { kind: noop, input: { t: \"{{ keychain.api.token }}\" }, "
              "eval: [ { expr: true, do: retry, delay: \"{{ args | length }}\" } ] }"),
}  # fmt: skip


@pytest.mark.parametrize("name", MISUSED)
def test_a_rule_that_reads_a_secret_argument_fails_and_shows_nothing_of_it(name: str) -> None:
    played = play(f"- step: a\n  {MISUSED[name]}\n")

    assert played.status == "failed"
    assert played.error["kind"] == "expression"
    assert "needs the keychain" in played.error["message"]
    assert "$template" not in told(played)
    assert played.state.ctx == {}


def test_a_rule_that_reads_another_argument_does_not_mind_the_secret_one() -> None:
    played = play(
        """
        - step: a
          tool:
            - name: t
              kind: noop
              input: { token: "{{ keychain.api.token }}", n: 3 }
              eval: [ { expr: "{{ args.n == 3 and not args.missing and n == 3 }}", do: break } ]
            - { name: never, kind: noop }
        """
    )

    assert played.status == "completed"
    assert played.asked("never") == []


def test_the_record_of_a_decision_says_only_that_the_worker_knows() -> None:
    played = play(f"- step: a\n  {MISUSED['rule']}\n")
    (said,) = played.said(TaskAdvanced)

    assert said.decision["rules"][0]["reads"] == {"args": "known to the worker alone"}


UNCHECKED = {
    "admission": "- { step: a, when: '{{ K == 1 }}', tool: noop }",
    "set of a step": "- { step: a, tool: noop, set: { ctx.x: '{{ K }}' } }",
    "set of a task": "- { step: a, tool: { kind: noop, set: { x: '{{ K }}' } } }",
    "condition of a rule": "- { step: a, tool: { kind: noop, eval: [ { expr: '{{ K == 1 }}', do: break } ] } }",
    "patch of a rule": "- { step: a, tool: { kind: noop, eval: [ { else: { do: break, set_ctx: { x: ['{{ K }}'] } } } ]"
                       " } }",
    "delay": "- { step: a, tool: { kind: noop, eval: [ { expr: true, do: retry, delay: '{{ K }}' } ] } }",
    "next call": "- { step: a, tool: { kind: http, url: u, retry: { on_success: { while: '{{ true }}', max_attempts: 2,"
                 " next_call: { url: '{{ K }}' } } } } }",
    "arguments of an arc": "- { step: a, tool: noop, next: [ { step: b, args: { x: '{{ K }}' } } ] }\n- { step: b }",
    "guard of an arc": "- { step: a, tool: noop, next: [ { step: b, when: '{{ K == 1 }}' } ] }\n- { step: b }",
    "set of an arc": "- { step: a, tool: noop, next: [ { step: b, set: { x: '{{ K }}' } } ] }\n- { step: b }",
    "elements of a loop": "- { step: a, loop: { in: ['{{ K }}'], iterator: i }, tool: noop }",
    "filter of a loop": "- { step: a, loop: { in: 3, iterator: i, where: '{{ K == i }}' }, tool: noop }",
    "timeout of a step": "- { step: a, timeout: '{{ K }}', tool: noop }",
    "timeout of a task": "- { step: a, tool: { kind: http, url: u, timeout: '{{ K }}' } }",
    "pool": "- { step: a, tool: { kind: noop, pool: '{{ K }}' } }",
    "wait": "- { step: a, tool: { kind: wait, for: '{{ K }}' } }",
    "signal": "- { step: a, tool: { kind: wait, signal: '{{ K }}', timeout: 1 } }",
    "child": "- { step: a, tool: { kind: playbook, path: '{{ K }}' } }",
    "workload of a child": "- { step: a, tool: { kind: playbook, path: p, input: { x: '{{ K }}' } } }",
    "all arguments": "- { step: a, tool: { kind: noop, input: '{{ K }}' } }",
}  # fmt: skip


def unchecked(steps: str, name: str) -> Program:
    """Return a program that reads a name in place of K, as a Plan may that was stored before that was an error."""
    plan = json.dumps(plan_to_json(program(steps.replace("K", "workload.k")).plan))
    return Program(plan_from_json(json.loads(plan.replace("workload.k", name))))


@pytest.mark.parametrize("place", UNCHECKED)
def test_whatever_the_engine_evaluates_itself_fails_if_it_needs_the_keychain(place: str) -> None:
    played = play(unchecked(UNCHECKED[place], "keychain.api.token"), workload={"keychain": {"api": {"token": 1}}})

    assert played.status == "failed"
    assert played.error["kind"] == "expression"
    assert "keychain" in played.error["message"]
    assert "$template" not in told(played)
    assert played.state.ctx == {}


def test_the_result_of_an_execution_cannot_need_the_keychain() -> None:
    text = "apiVersion: redrive.io/v1\nmetadata: {name: t}\nworkflow: [{step: a, tool: noop}]\nresult: '{{ K }}'"
    played = play(unchecked(text, "keychain.api.token"))

    assert played.status == "failed"
    assert "needs the keychain" in played.error["message"]


def test_what_holds_an_expression_cannot_pass_for_a_stored_value() -> None:
    played = play(
        """
        - step: a
          tool:
            kind: http
            url: "http://x"
            body: { _ref: "{{ workload.ref }}", secret: "{{ keychain.api.token }}" }
        """,
        workload={"ref": "sha256:" + "0" * 64},
    )

    assert played.jobs[0].kind == "error"
    assert "cannot have a '_ref'" in played.error["message"]


def test_a_secret_argument_of_a_step_does_not_hinder_a_wait_in_it() -> None:
    played = play(
        """
        - step: a
          args: { token: "{{ keychain.api.token }}" }
          tool:
            - { name: pause, kind: wait, for: 5 }
            - { name: use, kind: http, url: "http://x", headers: { t: "{{ token }}" } }
        """
    )

    assert played.status == "completed"
    assert given(played, "use").config["headers"] == {"t": SECRET}
