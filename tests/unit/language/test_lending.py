"""Which credentials a task names."""

from __future__ import annotations

import pytest

from shared.language.compile import compile_playbook
from shared.language.lending import chosen_in, may_be_chosen, named_by
from shared.language.plan import Plan

PLAYBOOK = """
apiVersion: redrive.io/v1
keychain: [{name: listed}, {name: alias, credential: stored}]
workflow:
  - step: start
    tool: {kind: noop}
    next: use
  - step: use
    input: {given: "{{ keychain.by_step.token }}"}
    tool:
      - name: first
        kind: http
        url: "http://x/{{ keychain.by_url.key }}"
        auth: by_auth
        headers: {X: ["{{ keychain['by-item'].key }}"]}
        body: {auth: not_this_tasks_business}
        sink: {kind: postgres, auth: by_sink, table: t, data: "{{ keychain.by_data.x }}"}
      - name: second
        kind: postgres
        auth: "{{ workload.chosen }}"
        command: SELECT 1
  - step: other
    tool: {kind: http, url: "http://x", auth: {type: bearer, credential: elsewhere}}
"""


def plan_of(text: str) -> Plan:
    compiled = compile_playbook(text, "playbook.yaml")
    assert compiled.plan is not None, compiled.errors
    return compiled.plan


def test_a_task_names_what_stands_in_its_own_fields_its_sinks_and_its_steps() -> None:
    named = named_by(plan_of(PLAYBOOK), "use", "first")

    wanted = {"by_step", "by_url", "by_auth", "by-item", "by_sink", "by_data"}
    assert named.names == wanted
    assert not named.is_left_open


def test_a_task_may_leave_the_name_to_an_expression() -> None:
    named = named_by(plan_of(PLAYBOOK), "use", "second")

    assert named.names == {"by_step"}
    assert named.is_left_open


def test_a_job_without_a_task_is_its_steps() -> None:
    assert {"by_auth", "by_step"} <= named_by(plan_of(PLAYBOOK), "use", None).names


@pytest.mark.parametrize(("step", "task"), [("nowhere", "first"), ("start", "start"), ("start", "nothing")])
def test_what_names_nothing_gets_nothing(step: str, task: str) -> None:
    named = named_by(plan_of(PLAYBOOK), step, task)

    assert (named.names, named.is_left_open) == (frozenset(), False)


def test_a_keychain_bounds_what_an_expression_may_choose() -> None:
    plan = plan_of(PLAYBOOK)

    assert [may_be_chosen(plan, name) for name in ("listed", "alias", "stored", "other")] == [True, True, False, False]
    assert may_be_chosen(plan_of("workflow: [{step: a, tool: {kind: noop}}]"), "anything")


def test_the_name_in_a_rendered_call_is_found_in_each_of_its_forms() -> None:
    config = {"auth": "a", "attach": [{"auth": {"type": "postgres", "credential": "b"}}, {"auth": {"name": "c"}}]}

    assert chosen_in(config) == {"a", "b", "c"}
    for other in (None, "a", [config], {"auth": 3}, {"auth": {"credential": None}}, {"body": {"auth": "a"}}):
        assert chosen_in(other) == frozenset()


def test_attached_databases_name_their_own() -> None:
    plan = plan_of("""
workflow:
  - step: use
    tool:
      kind: duckdb
      command: SELECT 1
      attach: [{as: a, auth: first}, {as: b, credential: {credential: second}}, {as: c, auth: "{{ workload.x }}"}]
""")
    named = named_by(plan, "use", None)

    assert named.names == {"first", "second"}
    assert named.is_left_open
