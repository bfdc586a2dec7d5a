"""Who may enter a step, in either spelling; and the switches of a whole playbook."""

import pytest

from shared.language.plan import ALWAYS, Admission, Condition, Credential, Expression, Limits
from tests.support.language import found, marked, of_steps, plan_of, step_of

ENABLED = Condition("any", Expression("{{ workload.enabled }}"))


def admitted(text: str) -> tuple[Admission, ...]:
    return step_of(of_steps(f"- {{step: only, {text}}}")).admit


@pytest.mark.parametrize(
    "text",
    [
        "when: '{{ workload.enabled }}'",
        "spec: {policy: {admit: {rules: [{when: '{{ workload.enabled }}', then: {allow: true}}, "
        "{else: {then: {allow: false}}}]}}}",
        "spec: {policy: {admit: {rules: [{when: '{{ workload.enabled }}', then: {allow: true}}, "
        "{else: {allow: false}}]}}}",
        "tool: noop, when: '{{ workload.enabled }}'",
        "tool: noop, spec: {policy: {admit: {rules: [{when: '{{ workload.enabled }}', then: {allow: true}}, "
        "{else: {allow: false}}]}}}",
    ],
)
def test_when_and_admission_rules_mean_the_same(text: str) -> None:
    assert admitted(text) == (Admission(ENABLED, True), Admission(ALWAYS, False))


def test_without_a_word_everyone_may_enter() -> None:
    assert admitted("desc: x") == ()


@pytest.mark.parametrize(("written", "on"), [("true", "any"), ("false", "never"), ("'yes'", "any"), ("off", "never")])
def test_admission_may_be_decided_beforehand(written: str, on: str) -> None:
    assert admitted(f"when: {written}")[0].when.on == on


def test_admission_leaves_the_rules_of_the_task_alone() -> None:
    plain = step_of(of_steps("- {step: only, tool: {kind: noop}}"))
    admit = "spec: {policy: {admit: {rules: [{else: {allow: true}}]}}}"

    assert step_of(of_steps(f"- {{step: only, tool: {{kind: noop}}, {admit}}}")).tasks == plain.tasks


@pytest.mark.parametrize(
    ("step", "code"),
    [
        ("{step: a, when: ▸enabled}", "wrong-type"),
        ("{step: a, when: ▸[]}", "wrong-type"),
        ("{step: a, when: true, spec: {policy: {admit: {rules: ▸[{else: {allow: true}}]}}}}", "said-twice"),
        ("{step: a, spec: {policy: {admit: {rules: [▸{then: {allow: true}}]}}}}", "missing-key"),
        ("{step: a, spec: {policy: {admit: {rules: [{when: true, then: {allow: ▸yes}}]}}}}", "wrong-type"),
        ("{step: a, spec: {policy: {admit: ▸{}}}}", "missing-key"),
        ("{step: a, spec: {▸polcy: {}}}", "unknown-key"),
        ("▸{desc: x}", "missing-key"),
        ("▸a", "wrong-type"),
    ],
)
def test_a_wrong_step_is_an_error_at_its_place(step: str, code: str) -> None:
    source, line, column = marked(of_steps(f"- {step}"))

    assert found(source) == [(code, line, column)]


HEAD = """
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: fetch, path: examples/fetch, description: what for, labels: {team: data, tier: 1, on: true}}
workload: {b: 1, a: {c: [1, 2]}}
keychain: [{name: pg_main, kind: postgres_credential}, {name: other, credential: stored}]
executor:
  profile: local
  version: noetl-runtime/1
  spec:
    entry_step: b
    strict: true
    on_failure: finish
    reducers: {total: sum, rows: append}
    pool: near
    limits: {max_steps: 100, timeout: 2h}
result: "{{ b.total }}"
"""


def test_the_head_of_a_playbook_is_planned() -> None:
    plan = plan_of(of_steps("- step: a\n- step: b", HEAD))

    assert (plan.name, plan.path, plan.description) == ("fetch", "examples/fetch", "what for")
    assert plan.labels == (("team", "data"), ("tier", "1"), ("on", "true"))
    assert plan.workload == '{"b": 1, "a": {"c": [1, 2]}}'
    assert plan.keychain == (Credential("pg_main", "postgres_credential"), Credential("other", None, "stored"))
    assert (plan.entry, plan.strict, plan.on_failure, plan.pool) == ("b", True, "finish", "near")
    assert plan.reducers == (("total", "sum"), ("rows", "append"))
    assert plan.limits == Limits(100, 7200.0)
    assert plan.result == Expression("{{ b.total }}")


@pytest.mark.parametrize(
    ("version", "strict"), [("redrive.io/v1", True), ("noetl.io/v1", False), ("noetl.io/v2", False)]
)
def test_a_playbook_is_strict_by_default_only_in_its_own_version(version: str, strict: bool) -> None:
    assert plan_of(of_steps("- step: a", f"apiVersion: {version}\n")).strict is strict


def test_a_playbook_is_named_after_its_path_where_it_has_no_name() -> None:
    assert plan_of(of_steps("- step: a", "metadata: {path: a/b}\n")).name == "a/b"


@pytest.mark.parametrize(
    ("head", "code"),
    [
        ("apiVersion: ▸redrive.io/v2\n", "wrong-choice"),
        ("kind: ▸playbook\n", "wrong-choice"),
        ("▸apiversion: redrive.io/v1\n", "unknown-key"),
        ("metadata: {▸nam: x}\n", "unknown-key"),
        ("metadata: {name: ▸5}\n", "wrong-type"),
        ("metadata: {labels: {a: ▸[]}}\n", "wrong-type"),
        ("workload: ▸[]\n", "wrong-type"),
        ("keychain: [▸{kind: x}]\n", "missing-key"),
        ("keychain: [{name: a}, {name: ▸a}]\n", "duplicate-name"),
        ("executor: {spec: {entry_step: ▸nowhere}}\n", "unknown-step"),
        ("executor: {spec: {strict: ▸yes}}\n", "wrong-type"),
        ("executor: {spec: {on_failure: ▸ignore}}\n", "wrong-choice"),
        ("executor: {spec: {reducers: {a: ▸avg}}}\n", "wrong-choice"),
        ("executor: {spec: {limits: {max_steps: ▸0}}}\n", "wrong-type"),
        ("executor: {spec: {limits: {timeout: ▸'{{ x }}'}}}\n", "wrong-type"),
        ("executor: {spec: {▸stric: true}}\n", "unknown-key"),
        ("result: '▸{{ x'\n", "template-syntax"),
    ],
)
def test_a_wrong_head_is_an_error_at_its_place(head: str, code: str) -> None:
    source, line, column = marked(of_steps("- step: a", head))

    assert found(source) == [(code, line, column)]


@pytest.mark.parametrize(
    ("text", "code"),
    [("▸{apiVersion: redrive.io/v1}", "missing-key"), ("workflow: ▸[]", "too-few"), ("workflow: ▸{}", "wrong-type"),
     ("▸[]", "wrong-type"), ("▸text", "wrong-type")],
)  # fmt: skip
def test_a_playbook_needs_steps(text: str, code: str) -> None:
    source, line, column = marked(text)

    assert found(source) == [(code, line, column)]


@pytest.mark.parametrize("name", ["ctx", "workload", "outcome", "event", "iter", "args", "result", "loop", "_prev"])
def test_a_name_with_a_meaning_of_its_own_names_no_step(name: str) -> None:
    assert found(of_steps(f"- step: {name}")) == [("reserved-name", 2, 5)]


@pytest.mark.parametrize("name", ["'two words'", "1st", "'a.b'", "é", "''", "'" + "x" * 129 + "'"])
def test_a_step_has_a_plain_name(name: str) -> None:
    assert found(of_steps(f"- step: {name}")) == [("wrong-type", 2, 11)]


def test_two_steps_of_one_name_are_an_error_that_names_the_first() -> None:
    source, line, column = marked("workflow:\n- step: a\n- ▸step: a\n")

    assert found(source) == [("duplicate-name", line, column)]
