"""Playbook tests of loops over a cursor: claims are answered once by each outcome, and only where they are named."""

from __future__ import annotations

import pytest

from tests.unit.engine.test_playtests import differences, read, verdict_on

FLOW = """\
workflow:
  - step: work
    loop: { cursor: { kind: postgres, claim: x, retry: 2 }, mode: parallel }
    tool: [{ name: one, kind: http, url: x }, { name: two, kind: http, url: x }]
"""


@pytest.mark.parametrize("name", ["claim", "work.claim", "work~1.claim"])
def test_claims_are_answered_in_order_and_then_bring_nothing(name: str) -> None:
    outcomes = f'{{ "{name}": [{{ rows: [1, 2] }}, {{ rows: [3] }}], two: {{ result: "{{{{ job.iteration }}}}" }} }}'
    verdict = verdict_on(outcomes, "{ result: [0, 1, 2], attempts: { claim: 3, one: 3 } }", playbook=FLOW)

    assert differences(verdict) == []
    assert verdict.remarks == ("no outcome was given for work.one: success with null was taken",)


def test_one_outcome_answers_one_claim() -> None:
    assert (
        differences(verdict_on("{ claim: { rows: [1] } }", "{ attempts: { claim: 2, one: 1 } }", playbook=FLOW)) == []
    )


def test_an_outcome_can_answer_several_claims() -> None:
    expect = "{ attempts: { claim: 4, one: 3 } }"

    assert differences(verdict_on("{ claim: { rows: [1], times: 3 } }", expect, playbook=FLOW)) == []


def test_a_condition_answers_every_claim_that_it_holds_for() -> None:
    outcomes = """{ claim: { when: "{{ job.page < 3 }}", rows: ["{{ job.page }}"] } }"""

    assert differences(verdict_on(outcomes, "{ attempts: { claim: 3, one: 2 } }", playbook=FLOW)) == []


def test_an_error_that_stands_last_stays() -> None:
    outcomes = "{ claim: [{ rows: [1] }, { error: { kind: connection } }] }"
    expect = "{ error: { kind: connection, step: work }, attempts: { claim: 3, one: 1 } }"

    assert differences(verdict_on(outcomes, expect, playbook=FLOW)) == []


def test_a_claim_that_must_not_happen_fails_the_test() -> None:
    outcomes = "{ claim: [{ rows: [1] }, { fail_test: once is enough }] }"

    assert differences(verdict_on(outcomes, playbook=FLOW)) == [("outcomes.claim", "no such attempt", "once is enough")]


@pytest.mark.parametrize("name", ["work", "'*'"])
def test_claims_are_not_meant_where_they_are_not_named(name: str) -> None:
    outcomes = f"{{ claim: {{ rows: [1] }}, {name}: {{ result: x }} }}"

    assert differences(verdict_on(outcomes, "{ result: [x], attempts: { work: 2 } }", playbook=FLOW)) == []


def test_a_claim_without_an_outcome_brings_nothing_and_is_remarked_on() -> None:
    verdict = verdict_on("{}", "{ result: [] }", playbook=FLOW)

    assert differences(verdict) == []
    assert verdict.remarks == ("no outcome was given for work.claim: success with null was taken",)


def test_a_step_without_a_cursor_has_no_claims() -> None:
    text = "playbook: f\ntests: [{ name: t, outcomes: { work.claim: { rows: [] } }, expect: {} }]"
    found = read(text, {"f": "workflow: [{ step: work, loop: { in: 3 }, tool: { kind: noop } }]"})

    assert [item.code for findings in found.findings for item in findings.diagnostics] == ["unknown-task"]
