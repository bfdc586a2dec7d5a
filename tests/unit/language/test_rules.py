"""`eval` and `policy.rules`: what each rule becomes, its defaults, and the tail that completes every list."""

import pytest

from shared.language.plan import (
    ALWAYS,
    ON_ERROR,
    ON_SUCCESS,
    Break,
    Condition,
    Constant,
    Continue,
    Directive,
    Expression,
    Fail,
    Jump,
    Retry,
    Rule,
)
from tests.support.language import advised, error, found, marked, of_steps, of_tasks, rules_of, step_of

ERROR = "{{ outcome.status == 'error' }}"
SUCCESS = "{{ outcome.status == 'success' }}"


def judged(rules: str, spelling: str = "eval") -> tuple[Rule, ...]:
    written = f"eval: [{rules}]" if spelling == "eval" else f"spec: {{policy: {{rules: [{rules}]}}}}"
    return rules_of(of_tasks(f"- {{name: only, kind: noop, {written}}}"))


def first(rule: str, spelling: str = "eval") -> Directive:
    return judged(f"{{{rule}}}", spelling)[0].then


# req: A11, D1
@pytest.mark.parametrize(
    ("rule", "directive"),
    [
        ("do: continue", Continue()),
        ("do: break", Break()),
        ("do: fail", Fail()),
        ("do: retry", Retry()),
        ("do: jump, to: only", Jump("only", 0, 1000)),
    ],
)
def test_every_directive_is_planned(rule: str, directive: Directive) -> None:
    assert first(f"expr: '{{{{ x }}}}', {rule}") == directive


@pytest.mark.parametrize("spelling", ["eval", "policy"])
@pytest.mark.parametrize(
    ("rule", "when"),
    [
        ("expr: '{{ x }}', do: fail", Condition("any", Expression("{{ x }}"))),
        ("when: '{{ x }}', do: fail", Condition("any", Expression("{{ x }}"))),
        ("when: '{{ x }}', then: {do: fail}", Condition("any", Expression("{{ x }}"))),
        ("expr: '{{ x }}', then: {do: fail}", Condition("any", Expression("{{ x }}"))),
        (f'when: "{ERROR}", then: {{do: fail}}', ON_ERROR),
        ("when: \"{{ output.status == 'error' }}\", do: fail", ON_ERROR),
        ("when: \"{{ outcome.status == 'ok' }}\", do: fail", ON_SUCCESS),
        ("when: \"{{ outcome.status != 'success' }}\", do: fail", ON_ERROR),
        ("when: true, then: {do: fail}", ALWAYS),
        ("when: 'yes', then: {do: fail}", ALWAYS),
        ("when: '{{ true }}', then: {do: fail}", ALWAYS),
        ("else: {do: fail}", ALWAYS),
        ("else: {then: {do: fail}}", ALWAYS),
    ],
)
def test_every_form_of_a_rule_is_planned(rule: str, when: Condition, spelling: str) -> None:
    found = judged(f"{{{rule}}}", spelling)[0]

    assert (found.when, found.then) == (when, Fail())


def test_every_option_of_a_retry_is_planned() -> None:
    rule = (
        "do: retry, attempts: 10, backoff: exponential, delay: 500ms, multiplier: 3, max_delay: 2m, jitter: full, "
        "budget: 15m, on_exhausted: continue"
    )

    assert first(f"expr: '{{{{ x }}}}', {rule}") == Retry(10, "exponential", 0.5, 3, 120.0, "full", 900.0, Continue())


def test_every_option_of_a_jump_is_planned() -> None:
    assert first("expr: '{{ x }}', do: jump, to: only, delay: 0.5, max_jumps: 7") == Jump("only", 0.5, 7)


@pytest.mark.parametrize(
    ("written", "jitter"), [("true", "half"), ("false", "none"), ("full", "full"), ("equal", "equal")]
)
def test_every_kind_of_jitter_is_planned(written: str, jitter: str) -> None:
    assert first(f"expr: true, do: retry, jitter: {written}") == Retry(jitter=jitter)  # type: ignore[arg-type]


# req: C5
@pytest.mark.parametrize(
    ("written", "backoff"),
    [("none", "fixed"), ("fixed", "fixed"), ("linear", "linear"), ("exponential", "exponential")],
)
def test_every_backoff_is_planned_and_none_means_the_same_delay_each_time(written: str, backoff: str) -> None:
    assert first(f"expr: true, do: retry, backoff: {written}, delay: 2") == Retry(delay=2, backoff=backoff)  # type: ignore[arg-type]


def test_a_multiplier_leaves_no_trace_where_it_has_no_meaning() -> None:
    assert first("expr: true, do: retry, backoff: fixed") == Retry(backoff="fixed", multiplier=2.0)


# req: C6, B20
@pytest.mark.parametrize("key", ["attempts", "delay", "multiplier", "max_delay", "budget"])
def test_a_number_of_a_retry_may_be_an_expression(key: str) -> None:
    directive = first(f"expr: true, do: retry, {key}: '{{{{ workload.n }}}}'")

    assert getattr(directive, key) == Expression("{{ workload.n }}")


@pytest.mark.parametrize("key", ["delay", "max_jumps"])
def test_a_number_of_a_jump_may_be_an_expression(key: str) -> None:
    directive = first(f"expr: true, do: jump, to: only, {key}: '{{{{ workload.n }}}}'")

    assert getattr(directive, key) == Expression("{{ workload.n }}")


@pytest.mark.parametrize(
    ("written", "directive"),
    [("fail", Fail()), ("continue", Continue()), ("break", Break()), ("{jump: only}", Jump("only"))],
)
def test_every_end_of_spent_attempts_is_planned(written: str, directive: Directive) -> None:
    found = first(f"expr: true, do: retry, on_exhausted: {written}")

    assert isinstance(found, Retry)
    assert found.on_exhausted == directive


def test_eval_retry_without_numbers_has_the_settled_defaults() -> None:  # decision 8
    assert first("expr: true, do: retry") == Retry(3, "exponential", 1.0, 2.0, 60.0, "none", None, Fail())


def test_policy_retry_without_a_backoff_waits_one_second_each_time() -> None:
    assert first("when: true, then: {do: retry}", "policy") == Retry(3, "fixed", 1.0, 2.0, 60.0, "none")
    assert first("when: true, then: {do: retry, attempts: 5}", "policy") == Retry(5, "fixed")
    assert first("when: true, then: {do: retry, delay: 4}", "policy") == Retry(backoff="fixed", delay=4)


def test_policy_retry_with_a_backoff_grows_as_eval_does() -> None:
    rule = "do: retry, backoff: exponential, attempts: 5"

    assert first(f"when: true, then: {{{rule}}}", "policy") == first(f"expr: true, {rule}")


def ends(rules: tuple[Rule, ...]) -> list[tuple[str, str, bool]]:
    return [(rule.when.on if rule.when.expression is None else "if", type(rule.then).__name__, rule.implicit)
            for rule in rules]  # fmt: skip


# req: B18
@pytest.mark.parametrize(
    ("rules", "spelling", "planned"),
    [
        ("", "eval", [("error", "Fail", True), ("any", "Continue", True)]),
        ("{expr: '{{ x }}', do: break}", "eval",
         [("if", "Break", False), ("error", "Fail", True), ("any", "Continue", True)]),
        (f'{{expr: "{ERROR}", do: retry}}', "eval", [("error", "Retry", False), ("any", "Continue", True)]),
        ("{expr: \"{{ outcome.status == 'success' }}\", do: break}", "eval",
         [("success", "Break", False), ("any", "Fail", True)]),
        ("{expr: '{{ x }}', do: break}, {else: {do: fail}}", "eval", [("if", "Break", False), ("any", "Fail", False)]),
        (f'{{expr: "{ERROR}", do: fail}}, {{expr: "{{{{ outcome.status == \'success\' }}}}", do: break}}', "eval",
         [("error", "Fail", False), ("any", "Break", False)]),
        ("{when: '{{ x }}', then: {do: break}}", "policy", [("if", "Break", False), ("any", "Continue", True)]),
        (f'{{when: "{ERROR}", then: {{do: retry}}}}', "policy", [("error", "Retry", False), ("any", "Continue", True)]),
    ],
)  # fmt: skip
def test_the_tail_covers_what_no_rule_matches(rules: str, spelling: str, planned: list[tuple[str, str, bool]]) -> None:
    assert ends(judged(rules, spelling)) == planned


def test_policy_rules_can_fail_what_no_rule_matches() -> None:
    rules = rules_of(
        of_tasks("- {kind: noop, spec: {policy: {on_unmatched: fail, rules: [{when: '{{ x }}', then: {do: break}}]}}}")
    )

    assert ends(rules) == [("if", "Break", False), ("any", "Fail", True)]


def test_on_unmatched_holds_beside_other_spellings_too() -> None:
    policy = "spec: {policy: {on_unmatched: continue, rules: [{when: '{{ x }}', then: {do: break}}]}}"

    assert ends(rules_of(of_tasks(f"- {{kind: noop, {policy}, eval: [{{expr: '{{{{ y }}}}', do: break}}]}}"))) == [
        ("if", "Break", False),
        ("if", "Break", False),
        ("any", "Continue", True),
    ]


def test_rules_of_all_spellings_on_one_task_are_tried_eval_first_then_policy_then_retry() -> None:
    rules = rules_of(
        of_tasks(
            "- {kind: noop, retry: {retry_when: '{{ c }}'}, "
            "spec: {policy: {rules: [{when: '{{ b }}', then: {do: fail}}]}}, eval: [{expr: '{{ a }}', do: break}]}"
        )
    )

    assert [rule.label for rule in rules] == ["eval[0]", "rules[0]", "retry", "default", "default"]
    assert ends(rules)[-2:] == [("error", "Fail", True), ("any", "Continue", True)]


@pytest.mark.parametrize(
    ("rules", "message"),
    [
        ("{else: {do: continue}}, {expr: '{{ x }}', do: fail}",
         "eval[1] is never reached: eval[0] matches whenever it would"),
        (f'{{expr: "{ERROR}", do: retry}}, {{expr: "{ERROR}", do: fail}}',
         "eval[1] is never reached: eval[0] matches whenever it would"),
        ("{expr: '{{ x }}', do: retry}, {expr: '{{ x }}', do: fail}",
         "eval[1] is never reached: eval[0] matches whenever it would"),
        ("{expr: false, do: fail}", "eval[0] never matches"),
        ("{expr: '{{ 0 }}', do: fail}", "eval[0] never matches"),
        (f'{{expr: "{ERROR}", do: fail}}, {{expr: "{SUCCESS}", do: break}}, {{expr: "{{{{ x }}}}", do: fail}}',
         "eval[2] is never reached: eval[1] matches whenever it would"),
    ],
)  # fmt: skip
def test_a_rule_that_is_never_reached_is_left_out_and_said_so(rules: str, message: str) -> None:
    text = of_tasks(f"- {{kind: noop, eval: [{rules}]}}")

    assert advised(text, "unreachable-rule") == [message]
    assert message.split()[0] not in [rule.label for rule in rules_of(text)]


def test_rules_on_a_step_judge_its_only_task() -> None:
    on_task = of_steps("- {step: only, tool: {kind: noop, eval: [{expr: '{{ x }}', do: break}]}}")
    on_step = of_steps("- {step: only, tool: {kind: noop}, eval: [{expr: '{{ x }}', do: break}]}")
    flat = of_steps("- {step: only, tool: noop, eval: [{expr: '{{ x }}', do: break}]}")

    assert rules_of(on_task) == rules_of(on_step) == rules_of(flat)


def test_policy_rules_on_a_step_judge_its_only_task() -> None:
    policy = "spec: {policy: {rules: [{when: '{{ x }}', then: {do: break}}]}}"

    assert (
        rules_of(of_steps(f"- {{step: only, tool: {{kind: noop}}, {policy}}}"))
        == rules_of(of_steps(f"- {{step: only, tool: {{kind: noop, {policy}}}}}"))
        == rules_of(of_steps(f"- {{step: only, tool: noop, {policy}}}"))
    )


@pytest.mark.parametrize("tools", ["tool: [{kind: noop}, {kind: noop}], ", ""])
@pytest.mark.parametrize("rules", ["▸eval: []", "▸spec: {policy: {rules: []}}"])
def test_rules_on_a_step_need_exactly_one_task(tools: str, rules: str) -> None:
    source, line, column = marked(of_steps(f"- {{step: only, {tools}{rules}}}"))

    assert found(source) == [("rules-on-step", line, column)]


def test_a_jump_may_go_forward_back_and_to_itself() -> None:
    step = step_of(
        of_tasks(
            """
            - {name: a, kind: noop, eval: [{expr: '{{ x }}', do: jump, to: b}]}
            - {name: b, kind: noop, eval: [{expr: '{{ x }}', do: jump, to: a}, {expr: '{{ y }}', do: jump, to: b}]}
            """
        )
    )

    assert [rule.then.to for task in step.tasks for rule in task.rules if isinstance(rule.then, Jump)] == [
        "b",
        "a",
        "b",
    ]


def test_a_rule_writes_values_when_it_matches() -> None:
    (rule, *_) = judged(
        "{expr: '{{ x }}', do: jump, to: only, set_iter: {page: '{{ iter.page + 1 }}'}, set: {ctx.n: 1}}"
    )

    assert [(patch.target, patch.path, patch.value) for patch in rule.set] == [
        ("ctx", ("n",), Constant("1")),
        ("iter", ("page",), Expression("{{ iter.page + 1 }}")),
    ]


@pytest.mark.parametrize(
    ("rule", "code"),
    [
        ("▸{do: fail}", "missing-key"),
        ("▸{expr: '{{ x }}'}", "missing-key"),
        ("{expr: ▸x == 1, do: fail}", "wrong-type"),
        ("{expr: '{{ x }}', do: ▸rety}", "unknown-directive"),
        ("{expr: '{{ x }}', do: ▸[retry]}", "wrong-type"),
        ("{expr: '{{ x }}', do: retry, ▸attempt: 3}", "unknown-key"),
        ("{expr: '{{ x }}', do: retry, attempts: ▸0}", "wrong-type"),
        ("{expr: '{{ x }}', do: retry, attempts: ▸-1}", "wrong-type"),
        ("{expr: '{{ x }}', do: retry, attempts: ▸many}", "wrong-type"),
        ("{expr: '{{ x }}', do: retry, attempts: ▸2.5}", "wrong-type"),
        ("{expr: '{{ x }}', do: retry, attempts: ▸true}", "wrong-type"),
        ("{expr: '{{ x }}', do: retry, delay: ▸-1}", "wrong-type"),
        ("{expr: '{{ x }}', do: retry, delay: ▸soon}", "wrong-type"),
        ("{expr: '{{ x }}', do: retry, delay: ▸true}", "wrong-type"),
        ("{expr: '{{ x }}', do: retry, backoff: exponential, multiplier: ▸0.5}", "wrong-type"),
        ("{expr: '{{ x }}', do: retry, backoff: ▸expo}", "wrong-choice"),
        ("{expr: '{{ x }}', do: retry, backoff: ▸true}", "wrong-choice"),
        ("{expr: '{{ x }}', do: retry, backoff: ▸'{{ x }}'}", "wrong-type"),
        ("{expr: '{{ x }}', do: retry, backoff: fixed, ▸multiplier: 2}", "wrong-option"),
        ("{expr: '{{ x }}', do: retry, jitter: ▸on}", "wrong-choice"),
        ("{expr: '{{ x }}', do: retry, on_exhausted: ▸retry}", "unknown-directive"),
        ("{expr: '{{ x }}', do: retry, on_exhausted: {jump: ▸nowhere}}", "unknown-label"),
        ("{expr: '{{ x }}', do: retry, on_exhausted: ▸{}}", "missing-key"),
        ("{expr: '{{ x }}', do: fail, ▸attempts: 3}", "wrong-option"),
        ("{expr: '{{ x }}', do: continue, ▸delay: 3}", "wrong-option"),
        ("{expr: '{{ x }}', do: break, ▸to: only}", "wrong-option"),
        ("{expr: '{{ x }}', do: retry, ▸max_jumps: 3}", "wrong-option"),
        ("{expr: '{{ x }}', do: jump, to: only, ▸attempts: 3}", "wrong-option"),
        ("{expr: '{{ x }}', do: ▸jump}", "missing-key"),
        ("{expr: '{{ x }}', do: jump, to: ▸nowhere}", "unknown-label"),
        ("{expr: '{{ x }}', do: jump, to: ▸5}", "wrong-type"),
        ("{expr: '{{ x }}', do: jump, to: only, max_jumps: ▸0}", "wrong-type"),
        ("{expr: '{{ x ▸= 1 }}', do: fail}", "template-syntax"),
        ("{expr: '{{ x }}', do: fail, ▸when: '{{ y }}'}", "said-twice"),
        ("{when: '{{ x }}', then: {do: fail}, ▸do: fail}", "unknown-key"),
        ("{else: ▸fail}", "wrong-type"),
        ("{else: {do: ▸stop}}", "unknown-directive"),
        ("{else: {do: fail}, ▸expr: '{{ x }}'}", "unknown-key"),
        ("▸5", "wrong-type"),
    ],
)
@pytest.mark.parametrize("spelling", ["eval: [{}]", "spec: {{policy: {{rules: [{}]}}}}"])
def test_a_wrong_rule_is_an_error_at_its_place(rule: str, code: str, spelling: str) -> None:
    source, line, column = marked(of_tasks(f"- {{name: only, kind: noop, {spelling.format(rule)}}}"))

    assert found(source) == [(code, line, column)]


@pytest.mark.parametrize(
    ("rule", "hint"),
    [
        ("{expr: '{{ x }}', do: rety}", "did you mean 'retry'?"),
        ("{expr: '{{ x }}', do: explode}", "expected one of: continue, retry, jump, break, fail"),
        ("{expr: x == 1, do: fail}", 'write it as an expression: "{{ x == 1 }}"'),
        ("{expr: '{{ x }}', do: retry, jitter: on}", "write true"),
        ("{expr: '{{ x }}', do: retry, jitter: 'off'}", "write false"),
        ("{expr: '{{ x }}', do: retry, jitter: none}", "write false"),
        ("{expr: '{{ x }}', do: retry, jitter: half}", "expected one of: true, false, full, equal"),
        ("{expr: '{{ x }}', do: retry, backoff: None}", "did you mean 'none'?"),
        ("{expr: '{{ x }}', do: retry, attempts: '5'}", "leave the quotes out"),
        ("{expr: '{{ x }}', do: retry, on_exhausted: jump}", "write { jump: label }"),
        ("{expr: '{{ x }}', do: retry, on_exhausted: retry}", "the attempts are spent; raise 'attempts'"),
        ("{expr: '{{ x }}', do: fail, attempts: 3}", "it belongs to: retry"),
        ("{expr: '{{ x }}', do: continue, delay: 3}", "it belongs to: retry, jump"),
        ("{expr: '{{ x }}', do: jump}", "tasks of this pipeline: only, other"),
        ("{expr: '{{ x }}', do: jump, to: othr}", "did you mean 'other'?"),
        ("{expr: '{{ x = 1 }}', do: fail}", "compare with '=='"),
        ("{else: , do: continue}", "indent it under 'else'"),
        ("{expr: '{{ x }}', do: retry, max_attempts: 3}", "did you mean 'attempts'?"),
    ],
)
def test_a_wrong_rule_comes_with_what_to_write(rule: str, hint: str) -> None:
    assert error(of_tasks(f"- {{name: only, kind: noop, eval: [{rule}]}}\n- {{name: other, kind: noop}}")).hint == hint
