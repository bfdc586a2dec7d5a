"""The older `retry:` block, line by line of its table, and the result it gathers."""

import pytest

from shared.language.plan import (
    ALWAYS,
    ON_ERROR,
    Break,
    Condition,
    Constant,
    Continue,
    Directive,
    Expression,
    Fail,
    Gather,
    Jump,
    Object,
    Repeat,
    Retry,
    Rule,
)
from tests.support.language import advised, error, found, marked, of_keys, of_steps, rules_of, step_of

DEFAULT = Retry(3, "exponential", 1.0, 2.0, 60.0, "half", None, Fail())


def legacy(text: str, on: str = "any") -> Condition:
    return Condition(on, Expression(text, dialect="legacy"))  # type: ignore[arg-type]


def block(text: str) -> tuple[Rule, ...]:
    return rules_of(of_keys(f"retry: {text}"))


def pairs(text: str) -> list[tuple[Condition, Directive]]:
    return [(rule.when, rule.then) for rule in block(text)]


# req: A4, A7, C2; decision 5
@pytest.mark.parametrize("text", ["true", "{}", "3", "3.0", "{max_attempts: 3}", "{attempts: 3}", "[{}]"])
def test_true_is_three_attempts_from_one_second_doubling_to_sixty_with_jitter_on_any_error(text: str) -> None:
    assert pairs(text) == [(ON_ERROR, DEFAULT), (ALWAYS, Continue())]


def test_a_number_is_the_same_with_that_many_attempts() -> None:
    assert pairs("5") == [
        (ON_ERROR, Retry(5, "exponential", 1.0, 2.0, 60.0, "half")),
        (ALWAYS, Continue()),
    ]


def test_one_attempt_in_all_is_no_second_one() -> None:
    assert block("1")[0].then == Retry(1, jitter="half")


def test_false_is_as_if_nothing_were_said() -> None:
    assert block("false") == rules_of(of_keys(""))


def test_false_on_a_task_declines_what_its_step_offers() -> None:
    step = step_of(of_steps("- {step: only, retry: 5, tool: [{kind: noop}, {kind: noop, retry: false}]}"))

    assert [type(task.rules[0].then) for task in step.tasks] == [Retry, Fail]


def test_a_step_hands_its_retry_to_every_task_that_has_no_rules() -> None:  # req: B17
    step = step_of(
        of_steps(
            "- {step: only, retry: 5, tool: [{kind: noop}, {kind: noop, retry: 2}, "
            "{kind: noop, eval: [{else: {do: break}}]}]}"
        )
    )

    assert [task.rules[0].then for task in step.tasks] == [Retry(5, jitter="half"), Retry(2, jitter="half"), Break()]


# req: A5
def test_every_field_of_the_mapping_is_planned() -> None:
    text = (
        "{max_attempts: 7, initial_delay: 500ms, backoff_multiplier: 1.5, max_delay: 30, jitter: false, "
        "retry_when: '{{ status_code == 503 }}', stop_when: '{{ attempt > 2 }}', budget: 1m, "
        "on_exhausted: {jump: only}}"
    )

    assert pairs(text) == [
        (legacy("{{ attempt > 2 }}", "error"), Fail()),
        (legacy("{{ attempt > 2 }}", "success"), Continue()),
        (legacy("{{ status_code == 503 }}"), Retry(7, "exponential", 0.5, 1.5, 30, "none", 60.0, Jump("only"))),
        (ON_ERROR, Fail()),
        (ALWAYS, Continue()),
    ]


# req: B4
def test_retry_when_judges_successes_too() -> None:
    assert block("{retry_when: '{{ status_code != 200 }}'}")[0].when == legacy("{{ status_code != 200 }}")


# req: B5; decision 7
def test_stop_when_stands_before_retry_when() -> None:
    rules = block("{retry_when: '{{ status_code != 200 }}', stop_when: '{{ status_code == 404 }}'}")

    assert [type(rule.then) for rule in rules[:3]] == [Fail, Continue, Retry]


@pytest.mark.parametrize("text", ["error != None", "error is not none", "success == False", "not success"])
def test_conditions_for_any_error_are_recognised(text: str) -> None:
    assert block(f"{{retry_when: '{{{{ {text} }}}}'}}") == block("true")


@pytest.mark.parametrize("text", ["success == True", "success", "error == None", "error is none"])
def test_stopping_on_success_leaves_the_retry_for_errors(text: str) -> None:
    assert pairs(f"{{stop_when: '{{{{ {text} }}}}'}}") == [(Condition("success"), Continue()), (ALWAYS, DEFAULT)]


def test_an_error_message_alone_is_no_condition_and_lint_says_so() -> None:
    text = of_keys("retry: {retry_when: '{{ error }}'}")

    assert rules_of(text)[0].when == legacy("{{ error }}")
    assert advised(text, "text-condition") == [
        "retry asks for a text, which is true only if it says true, 1, yes or on"
    ]


def test_a_condition_that_never_holds_is_left_out_and_said_so() -> None:
    text = of_keys("retry: {retry_when: false}")

    assert rules_of(text) == rules_of(of_keys(""))
    assert advised(text, "unreachable-rule") == ["retry never matches"]


# req: A8, B14
def test_on_error_is_the_same_for_errors_only() -> None:
    assert pairs("{on_error: {max_attempts: 3, backoff: exponential}}") == [(ON_ERROR, DEFAULT), (ALWAYS, Continue())]


@pytest.mark.parametrize("key", ["when", "condition", "retry_when"])
def test_on_error_takes_a_condition(key: str) -> None:
    rule = block(f"{{on_error: {{{key}: '{{{{ status_code == 503 }}}}'}}}}")[0]

    assert rule.when == legacy("{{ status_code == 503 }}", "error")


@pytest.mark.parametrize(("backoff", "planned"), [("fixed", "fixed"), ("none", "fixed"), ("linear", "linear")])
def test_on_error_names_its_backoff(backoff: str, planned: str) -> None:
    rule = block(f"{{on_error: {{backoff: {backoff}, delay: 4}}}}")[0]

    assert rule.then == Retry(backoff=planned, delay=4, jitter="half")  # type: ignore[arg-type]


# req: G1, G2, G3, G4, G5
def test_on_success_repeats_with_the_next_call_and_gathers() -> None:
    rules = pairs(
        "{on_success: {while: '{{ response.more }}', max_attempts: 7, "
        "next_call: {params: {page: '{{ response.page + 1 }}'}}, "
        "collect: append, merge_path: data.items, into: pages, delay: 2}}"
    )

    page = Expression("{{ response.page + 1 }}", dialect="legacy")
    assert rules == [
        (
            legacy("{{ response.more }}", "success"),
            Repeat(
                7, Object((("params", Object((("page", page),))),)), Gather("append", ("data", "items"), "pages"), 2
            ),
        ),
        (ON_ERROR, Fail()),
        (ALWAYS, Continue()),
    ]


@pytest.mark.parametrize(
    ("text", "gather"),
    [
        ("", Gather("collect")),
        ("merge_path: data", Gather("append", ("data",))),
        ("path: data", Gather("append", ("data",))),
        ("merge_path: $.data.items", Gather("append", ("data", "items"))),
        ("collect: append", Gather("append")),
        ("collect: replace", Gather("replace")),
        ("collect: collect, merge_path: data", Gather("collect", ("data",))),
        ("collect: {strategy: append, path: data, into: pages}", Gather("append", ("data",), "pages")),
        ("collect: {path: data}", Gather("append", ("data",))),
        ("into: pages", Gather("collect", (), "pages")),
    ],
)
def test_results_are_appended_where_a_path_is_given_and_collected_otherwise(text: str, gather: Gather) -> None:
    directive = block(f"{{on_success: {{while: '{{{{ response.more }}}}', {text}}}}}")[0].then

    assert directive == Repeat(100, gather=gather)


# req: A9
@pytest.mark.parametrize(
    "text",
    [
        "{on_success: {while: '{{ response.more }}', next_call: {url: u}}}",
        "{on_success: {when: '{{ response.more }}', next_call: {url: u}}}",
        "[{on_success: {while: '{{ response.more }}', next_call: {url: u}}}]",
        "{while: '{{ response.more }}', next_call: {url: u}}",
        "[{when: '{{ response.more }}', next_call: {url: u}}]",
    ],
)
def test_a_policy_for_successes_may_be_written_in_several_ways(text: str) -> None:
    assert pairs(text)[0] == (
        legacy("{{ response.more }}", "success"),
        Repeat(next_call=Constant('{"url":"u"}')),
    )


def test_on_error_and_on_success_stand_beside_each_other() -> None:  # req: G7
    rules = block("{on_error: {max_attempts: 2}, on_success: {while: '{{ response.more }}'}}")

    assert [(rule.when.on, type(rule.then)) for rule in rules] == [
        ("error", Retry),
        ("success", Repeat),
        ("any", Continue),
    ]


# req: A9, C11
def test_a_list_of_policies_is_tried_in_order() -> None:
    rules = block(
        "[{retry_when: '{{ status_code == 429 }}', initial_delay: 10}, {on_error: {when: '{{ status_code == 503 }}'}}, "
        "{while: '{{ response.more }}'}]"
    )

    assert [rule.label for rule in rules] == ["retry[0]", "retry[1].on_error", "retry[2]", "default", "default"]
    assert [type(rule.then) for rule in rules] == [Retry, Retry, Repeat, Fail, Continue]


# req: B11
@pytest.mark.parametrize("key", ["max_attempts", "initial_delay", "backoff_multiplier", "max_delay", "budget"])
def test_a_number_may_be_an_expression_in_the_older_names(key: str) -> None:
    directive = block(f"{{{key}: '{{{{ attempt * 2 }}}}'}}")[0].then

    assert Expression("{{ attempt * 2 }}", dialect="legacy") in [
        getattr(directive, name) for name in ("attempts", "delay", "multiplier", "max_delay", "budget")
    ]


# req: A12, C7
def test_jitter_of_the_tool_holds_for_rules_that_name_none() -> None:
    def jitters(text: str) -> list[str]:
        return [rule.then.jitter for rule in rules_of(of_keys(text)) if isinstance(rule.then, Retry)]

    assert jitters("spec: {jitter: full}\neval: [{expr: '{{ x }}', do: retry}]") == ["full"]
    assert jitters("spec: {jitter: full}\neval: [{expr: '{{ x }}', do: retry, jitter: false}]") == ["none"]
    assert jitters("spec: {jitter: full}\nretry: true") == ["full"]
    assert jitters("spec: {jitter: false}\nretry: true") == ["none"]
    assert jitters("spec: {jitter: true, policy: {rules: [{when: '{{ x }}', then: {do: retry}}]}}") == ["half"]


# req: A12
def test_retries_of_the_tool_are_a_rule_like_any_other() -> None:
    rules = rules_of(of_keys("spec: {retries: 2}"))

    assert [(rule.when, rule.then) for rule in rules] == [
        (Condition("error", Expression("{{ outcome.error.retryable }}")), Retry(3)),
        (ON_ERROR, Fail()),
        (ALWAYS, Continue()),
    ]


@pytest.mark.parametrize("text", ["retries: 0", "jitter: true"])
def test_options_of_the_tool_without_effect_leave_the_default(text: str) -> None:
    assert rules_of(of_keys(f"spec: {{{text}}}")) == rules_of(of_keys(""))


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("▸0", "wrong-type"),
        ("▸-1", "wrong-type"),
        ("▸2.5", "wrong-type"),
        ("▸'5'", "wrong-type"),
        ("▸yes", "wrong-type"),
        ("▸null", "wrong-type"),
        ("▸'{{ workload.n }}'", "wrong-type"),
        ("▸[]", "too-few"),
        ("[▸5]", "wrong-type"),
        ("{max_attempts: ▸0}", "wrong-type"),
        ("{max_attempts: ▸many}", "wrong-type"),
        ("{▸max_attempt: 5}", "unknown-key"),
        ("{max_attempts: 3, ▸attempts: 4}", "said-twice"),
        ("{initial_delay: ▸-1}", "wrong-type"),
        ("{backoff_multiplier: ▸0}", "wrong-type"),
        ("{backoff: fixed, ▸backoff_multiplier: 2}", "wrong-option"),
        ("{backoff: ▸quadratic}", "wrong-choice"),
        ("{jitter: ▸maybe}", "wrong-choice"),
        ("{retry_when: ▸status_code >= 500}", "wrong-type"),
        ("{retry_when: '{{ status_code ▸>> 500 }}'}", "template-syntax"),
        ("{stop_when: ▸[]}", "wrong-type"),
        ("{on_exhausted: {jump: ▸nowhere}}", "unknown-label"),
        ("{on_error: ▸5}", "wrong-type"),
        ("{on_error: {}, ▸max_attempts: 5}", "unknown-key"),
        ("{on_success: ▸{max_attempts: 5}}", "missing-key"),
        ("{on_success: {while: '{{ x }}', next_call: ▸page}}", "wrong-type"),
        ("{on_success: {while: '{{ x }}', collect: ▸concat}}", "wrong-choice"),
        ("{on_success: {while: '{{ x }}', merge_path: a, collect: {▸path: b}}}", "said-twice"),
        ("{on_success: {while: '{{ x }}', into: ▸two words}}", "wrong-type"),
    ],
)
def test_a_wrong_retry_block_is_an_error_at_its_place(text: str, code: str) -> None:
    source, line, column = marked(of_keys(f"retry: {text}"))

    assert found(source) == [(code, line, column)]


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("0", "attempts count the first one: retry: 1 tries once, retry: false not again"),
        ("yes", "write true"),
        ("'off'", "write false"),
        ("'{{ workload.n }}'", 'write retry: { max_attempts: "{{ workload.n }}" }'),
        ("null", "leave the key out, or give it a value"),
        ("{max_attempt: 5}", "did you mean 'max_attempts'?"),
        ("{retry_when: status_code >= 500}", 'write it as an expression: "{{ status_code >= 500 }}"'),
    ],
)
def test_a_wrong_retry_block_comes_with_what_to_write(text: str, hint: str) -> None:
    assert error(of_keys(f"retry: {text}")).hint == hint


def test_a_retry_needs_a_task() -> None:
    source, line, column = marked(of_steps("- {step: only, ▸retry: 5}"))

    assert found(source) == [("rules-on-step", line, column)]
