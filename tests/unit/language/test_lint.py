"""What lint says, what it keeps silent about, and the longest waits it computes."""

from dataclasses import replace
from math import inf

import pytest

from shared.language.compile import compile_playbook
from shared.language.diagnostics import Severity
from shared.language.lint.reach import reachable
from shared.language.lint.run import lint
from shared.language.lint.waits import Wait, in_words, worst_case_wait
from shared.language.plan import ON_ERROR, Retry, Rule
from tests.support.language import advice, advised, marked, of_keys, of_steps, of_tasks, plan_of, task_of
from tests.support.playbooks import LANGUAGE_PAGE_RULES, LANGUAGE_PAGE_STEP, VALID

ERROR = "\"{{ outcome.status == 'error' }}\""


def test_the_rules_of_the_language_page_raise_no_alarm() -> None:
    assert [(item.severity, item.code, item.message) for item in advice(LANGUAGE_PAGE_RULES)] == [
        (Severity.INFO, "worst-case-wait", "task 'fetch' waits at most 21 min 50 s between its attempts")
    ]


def test_the_step_of_the_language_page_raises_no_alarm() -> None:
    assert advice(LANGUAGE_PAGE_STEP) == ()


def test_a_playbook_that_does_not_compile_gets_no_further_advice() -> None:
    assert lint(compile_playbook("workflow: []")) == ()


@pytest.mark.parametrize("name", VALID)
def test_advice_is_never_an_error_and_comes_in_the_order_of_the_text(name: str) -> None:
    found = advice(VALID[name])

    assert all(item.severity is not Severity.ERROR for item in found)
    assert [(item.line, item.column) for item in found] == sorted((item.line, item.column) for item in found)


CODES: dict[str, list[str]] = {
    "swallowed-error": [
        of_keys("eval: [{expr: '{{ x }}', do: fail}, ▸{else: {do: continue}}]"),
        of_keys("eval: [▸{expr: true, do: break}]"),
        of_keys(f"eval: [▸{{expr: {ERROR}, do: continue}}]"),
        "workflow:\n- ▸{step: a, tool: noop, spec: {policy: {rules: [{when: '{{ x }}', then: {do: fail}}]}}}\n",
    ],
    "implicit-default": [of_keys("eval: [{expr: '{{ x }}', do: fail}, ▸{expr: '{{ y }}', do: break}]")],
    "unreachable-rule": [of_keys("eval: [{else: {do: fail}}, ▸{expr: '{{ x }}', do: break}]")],
    "unbounded-jump": [
        of_tasks("- {name: a, kind: noop}\n- {kind: noop, eval: [▸{else: {do: jump, to: a}}]}"),
        of_tasks(f"- {{name: a, kind: noop, eval: [{{expr: {ERROR}, do: fail}}, ▸{{else: {{do: jump, to: a}}}}]}}"),
        of_tasks("- {name: a, kind: noop, eval: [▸{expr: \"{{ outcome.status == 'ok' }}\", do: jump, to: a}]}"),
    ],
    "broad-retry": [of_keys("retry: {retry_when: ▸true}"), of_keys("eval: [▸{else: {do: retry}}]")],
    "unbounded-repeat": [of_keys("retry: {on_success: {while: ▸'{{ true }}'}}")],
    "text-condition": [
        of_keys("retry: {retry_when: ▸'{{ error }}'}"),
        of_keys("eval: [{expr: ▸'{{ outcome.error.message }}', do: fail}]"),
    ],
    "retry-not-idempotent": [
        of_keys("method: POST\nretry: ▸3"),
        of_keys("method: patch\nretry: {retry_when: ▸'{{ status_code == 503 }}'}"),
        of_steps("- {step: a, tool: postgres, command: 'INSERT INTO t VALUES (1)', retry: ▸3}"),
        of_steps("- {step: a, tool: duckdb, commands: [select 1, insert into t values (1)], retry: ▸3}"),
    ],
    "parallel-write": [
        of_steps("- {step: a, loop: ▸{in: 3, mode: parallel}, tool: {kind: noop, set: {ctx.n: 1}}}"),
        of_steps("- {step: a, loop: ▸{in: 3, mode: async}, "
                 "tool: {kind: noop, eval: [{else: {do: fail, set_ctx: {n: 1}}}]}}"),
    ],
    "idle-option": [of_steps("- {step: a, tool: noop, loop: ▸{in: 3, max_in_flight: 5}}")],
    "unreachable-step": ["workflow:\n- {step: a}\n- ▸{step: b}\n"],
    "unreachable-arc": [of_steps("- {step: a, next: {arcs: [b, ▸c]}}\n- {step: b}\n- {step: c}")],
    "unknown-name": [
        of_keys("params: {a: ▸'{{ nowhere.x }}'}"),
        of_keys("timeout: ▸'{{ nowhere }}'"),
        of_keys("eval: [{expr: true, do: retry, delay: ▸'{{ nowhere }}'}]"),
        of_keys("sink: {tool: file, path: ▸'{{ nowhere }}'}"),
        of_keys("loop: {in: 3, max_in_flight: ▸'{{ nowhere }}', mode: parallel}"),
        of_keys("loop: {cursor: {kind: postgres, claim: ▸'LIMIT {{ max_row }} {{ max_rows }} {{ claim_id }}'}}"),
        of_keys("loop: {in: 3}\nparams: {a: ▸'{{ max_rows }}'}"),
        of_keys("retry: {on_success: {while: '{{ response.more }}', next_call: {url: ▸'{{ nowhere }}'}}}"),
        of_steps("- {step: a, when: ▸'{{ nowhere }}'}"),
        of_steps("- {step: a, next: [{step: a, when: ▸'{{ nowhere }}'}]}"),
        of_steps("- step: a", "result: ▸'{{ nowhere }}'\n"),
        of_keys("eval: [{expr: ▸'{{ status_code == 503 }}', do: fail}]"),
    ],
    "wait-beyond-timeout": [
        of_steps("- {step: a, timeout: 5s, tool: {kind: noop, retry: ▸{max_attempts: 9}}}"),
        of_steps("- {step: a, timeout: 4s, tool: {kind: noop}, loop: ▸{cursor: {kind: postgres, claim: x}}}"),
    ],
    "wait-beyond-budget": [of_keys("retry: ▸{budget: 1, initial_delay: 10}")],
    "unknown-credential": [
        of_steps("- {step: a, tool: postgres, command: c, auth: ▸b}", "keychain: [{name: a}]\n"),
    ],
}  # fmt: skip
CASES = [pytest.param(code, text, id=f"{code}-{number}") for code, texts in CODES.items()
         for number, text in enumerate(texts)]  # fmt: skip


@pytest.mark.parametrize(("code", "text"), CASES)
def test_every_advice_is_given_at_its_place(code: str, text: str) -> None:
    source, line, column = marked(text)
    found = [item for item in advice(source) if item.code == code]

    assert [(item.line, item.column) for item in found] == [(line, column)]
    assert found[0].severity is (Severity.INFO if code == "implicit-default" else Severity.WARNING)


SILENT: dict[str, list[str]] = {
    "swallowed-error": [
        of_keys(f"eval: [{{expr: {ERROR}, do: retry}}, {{else: {{do: continue}}}}]"),
        of_keys(f"eval: [{{expr: '{{{{ x }}}}', do: retry}}, {{expr: {ERROR}, do: fail}}, {{else: {{do: continue}}}}]"),
        of_keys("eval: [{expr: '{{ x }}', do: break}]"),
        of_keys("eval: [{expr: \"{{ outcome.status == 'success' }}\", do: break}]"),
        of_keys(f"spec: {{policy: {{rules: [{{when: {ERROR}, then: {{do: fail}}}}]}}}}"),
        of_keys("retry: {stop_when: '{{ success == True }}'}"),
    ],
    "implicit-default": [of_keys("eval: [{expr: '{{ x }}', do: fail}, {else: {do: fail}}]"), of_keys("retry: 3")],
    "unbounded-jump": [
        of_tasks(f"- {{name: a, kind: noop, eval: [{{expr: {ERROR}, do: jump, to: a}}]}}"),
        of_tasks("- {name: a, kind: noop, eval: [{else: {do: jump, to: b}}]}\n- {name: b, kind: noop}"),
    ],
    "broad-retry": [of_keys("retry: true"), of_keys("retry: {stop_when: '{{ success == True }}'}")],
    "retry-not-idempotent": [
        of_keys("method: GET\nretry: 3"),
        of_keys("method: PUT\nretry: 3"),
        of_keys("method: POST"),
        of_keys("method: POST\nidempotency_key: '{{ execution_id }}'\nretry: 3"),
        of_keys("method: POST\nheaders: {idempotency-KEY: x}\nretry: 3"),
        of_keys("method: POST\nheaders: {Idempotency-Key: '{{ execution_id }}'}\nretry: 3"),
        of_steps("- {step: a, tool: postgres, command: 'INSERT INTO t VALUES (1) ON CONFLICT DO NOTHING', retry: 3}"),
        of_steps("- {step: a, tool: postgres, command: 'UPDATE t SET x = 1', retry: 3}"),
    ],
    "parallel-write": [
        of_steps("- {step: a, loop: {in: 3}, tool: {kind: noop, set: {ctx.n: 1}}}"),
        of_steps("- {step: a, loop: {in: 3, mode: parallel}, tool: {kind: noop, set: {iter.n: 1, m: 2}}}"),
        of_steps("- {step: a, loop: {in: 3, mode: parallel}, tool: {kind: noop, set: {ctx.n: 1}}}",
                 "executor: {spec: {reducers: {n: sum}}}\n"),
    ],
    "idle-option": [of_steps("- {step: a, tool: noop, loop: {in: 3, max_in_flight: 1}}")],
    "unreachable-step": [
        of_steps("- {step: a, next: b}\n- {step: b, next: a}"),
        of_steps("- step: a\n- step: end", "apiVersion: noetl.io/v2\n"),
    ],
    "unreachable-arc": [
        of_steps("- {step: a, next: [b, c]}\n- {step: b}\n- {step: c}"),
        of_steps("- {step: a, next: {arcs: [b, {step: c, when: \"{{ event.name == 'step.failed' }}\"}]}}\n"
                 "- {step: b}\n- {step: c}"),
        of_steps("- {step: a, next: [{step: b, when: '{{ true }}'}, {else: c}]}\n- {step: b}\n- {step: c}"),
    ],
    "unknown-name": [
        of_steps("- {step: a, tool: http, url: '{{ known }}'}", "workload: {known: 1}\n"),
        of_keys("params: {a: '{{ workload.any }}{{ ctx.x }}{{ iter.y }}{{ args.z }}{{ vars.v }}{{ execution_id }}'}"),
        of_keys("params: {a: '{{ _prev }}{{ _task }}{{ _attempt }}{{ env.HOME }}{{ job.uuid }}{{ keychain.k }}'}"),
        of_keys("params: {a: '{{ rand() }}{{ now() }}{{ range(3) }}'}"),
        of_keys("params: {a: '{% for x in [1] %}{{ x }}{{ loop.index }}{% endfor %}'}"),
        of_keys("loop: {in: 3, iterator: user}\nparams: {a: '{{ user }}'}"),
        of_keys("input: {n: 1}\nparams: {a: '{{ n }}'}"),
        of_keys("retry: {retry_when: '{{ status_code and error and success and data and attempt }}'}"),
        of_keys("retry: {retry_when: '{{ node_id and result and execution_id }}'}"),
        of_keys("retry: {initial_delay: '{{ attempt }}'}"),
        of_tasks("- {name: a, kind: noop, set: {x: 1}}\n- {kind: http, url: '{{ a }}{{ x }}'}"),
        of_steps("- {step: a, next: [{step: b, args: {n: 1}, set: {m: 1}}]}\n"
                 "- {step: b, tool: http, url: '{{ n }}{{ m }}{{ a }}'}"),
        of_steps("- {step: a, set: {ctx.n: 1}, next: b}\n- {step: b, tool: http, url: '{{ n }}'}"),
        of_steps("- step: a", "result: '{{ a }}'\n"),
    ],
    "wait-beyond-timeout": [of_steps("- {step: a, timeout: 10m, tool: {kind: noop, retry: 3}}")],
    "wait-beyond-budget": [of_keys("retry: {budget: 1m}")],
}  # fmt: skip
QUIET = [pytest.param(code, text, id=f"{code}-{number}") for code, texts in SILENT.items()
         for number, text in enumerate(texts)]  # fmt: skip


@pytest.mark.parametrize(("code", "text"), QUIET)
def test_there_is_no_false_alarm(code: str, text: str) -> None:
    assert advised(text, code) == []


def test_an_unknown_name_is_suggested_where_one_is_near() -> None:
    (item,) = advice(of_keys("params: {a: '{{ worklod.x }}'}"))

    assert (item.message, item.hint) == ("nothing defines 'worklod'", "did you mean 'workload'?")


def test_an_unknown_name_like_no_other_may_come_with_the_submission() -> None:
    (item,) = advice(of_keys("params: {a: '{{ zzz }}'}"))

    assert item.hint == "a submitted workload may bring it; name its default in workload"


def test_reach_follows_every_arc_from_the_entry() -> None:
    plan = plan_of(of_steps("- {step: a, next: [b]}\n- {step: b, next: a}\n- {step: c, next: a}"))

    assert reachable(plan) == {"a", "b"}


def wait(text: str) -> Wait:
    return worst_case_wait(task_of(of_keys(text)))


def rule(options: str, condition: str = "{{ x }}") -> str:
    return f"{{expr: '{condition}', do: retry, {options}}}"


# req: C1, C3, C4, C5
@pytest.mark.parametrize(
    ("options", "seconds"),
    [
        ("attempts: 1", 0),
        ("attempts: 2", 1),
        ("attempts: 5", 1 + 2 + 4 + 8),
        ("attempts: 5, delay: 0.5", 7.5),
        ("attempts: 4, backoff: fixed, delay: 3", 9),
        ("attempts: 4, backoff: none, delay: 3", 9),
        ("attempts: 5, backoff: linear, delay: 2", 2 + 4 + 6 + 8),
        ("attempts: 5, backoff: linear, delay: 2, max_delay: 5", 2 + 4 + 5 + 5),
        ("attempts: 10, delay: 2", 2 + 4 + 8 + 16 + 32 + 60 * 4),
        ("attempts: 5, delay: 1, multiplier: 3, max_delay: 5", 1 + 3 + 5 + 5),
        ("attempts: 4, multiplier: 1", 3),
        ("attempts: 4, delay: 0", 0),
        ("attempts: 4, delay: 100", 180),
        ("attempts: 3, jitter: true", 4.5),
        ("attempts: 3, jitter: full", 3),
        ("attempts: 3, jitter: equal", 3),
        ("attempts: 10, max_delay: 60, delay: 60, jitter: true", 810),
        ("attempts: 5, budget: 10", 10),
        ("attempts: 5, budget: 1h", 15),
        ("attempts: 1000000, backoff: fixed, delay: 1", 999_999),
        ("attempts: 1000000, max_delay: 10", 1 + 2 + 4 + 8 + 10 * 999_995),
        ("attempts: 3, multiplier: 1.0e+308, max_delay: 2h", 1 + 7200),
    ],
)
def test_the_longest_wait_of_a_retry_is_computed(options: str, seconds: float) -> None:
    assert wait(f"eval: [{rule(options)}]") == Wait(seconds, 0, True)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("retry: true", 4.5), ("retry: 5", 22.5), ("retry: {jitter: false}", 3), ("retry: 1", 0), ("retry: false", 0),
     ("spec: {retries: 2}", 3), ("", 0)],
)  # fmt: skip
def test_the_longest_wait_of_a_retry_block_is_computed(text: str, seconds: float) -> None:
    assert wait(text) == Wait(seconds, 0, True)


@pytest.mark.parametrize(
    ("rules", "seconds"),
    [
        ((rule("attempts: 3"), rule("attempts: 5, backoff: fixed, delay: 3", "{{ y }}")), 3 + 3 + 3 + 3),
        ((rule("attempts: 5"), rule("attempts: 3, backoff: fixed, delay: 3", "{{ y }}")), 3 + 3 + 4 + 8),
        ((rule("attempts: 3"), rule("attempts: 3", "{{ y }}")), 3),
        ((rule("attempts: 5, budget: 4"), rule("attempts: 5, budget: 6", "{{ y }}")), 6),
        ((rule("attempts: 5, budget: 4"), rule("attempts: 5", "{{ y }}")), 15),
    ],
)
def test_several_rules_count_the_same_attempts_and_the_longest_delay_is_taken(
    rules: tuple[str, ...], seconds: float
) -> None:
    assert wait(f"eval: [{', '.join(rules)}]") == Wait(seconds, 0, True)


@pytest.mark.parametrize(
    ("text", "pauses"),
    [
        ("eval: [{expr: '{{ x }}', do: jump, to: only, delay: 0.5}]", 500),
        ("eval: [{expr: '{{ x }}', do: jump, to: only, delay: 2, max_jumps: 7}]", 14),
        ("eval: [{expr: '{{ x }}', do: jump, to: only}]", 0),
        ("retry: {on_success: {while: '{{ x }}', delay: 3}}", 297),
        ("retry: {on_success: {while: '{{ x }}', delay: 3, max_attempts: 4}}", 9),
        ("retry: {on_success: {while: '{{ x }}'}}", 0),
    ],
)
def test_pauses_of_jumps_and_repeats_are_counted(text: str, pauses: float) -> None:
    assert wait(text) == Wait(0, pauses, True)


def test_waits_and_pauses_add_up() -> None:
    found = wait("retry: {on_error: {jitter: false}, on_success: {while: '{{ x }}', delay: 3, max_attempts: 4}}")

    assert (found, found.total_s) == (Wait(3, 9, True), 12)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ("attempts: 3, delay: '{{ d }}'", Wait(120, 0, True)),
        ("attempts: 3, delay: '{{ d }}', max_delay: 5, jitter: true", Wait(15, 0, True)),
        ("attempts: 3, multiplier: '{{ m }}'", Wait(120, 0, True)),
        ("attempts: 3, max_delay: '{{ m }}'", Wait(3, 0, True)),
        ("attempts: 3, delay: '{{ d }}', max_delay: '{{ m }}'", Wait(0, 0, False)),
        ("attempts: '{{ n }}'", Wait(0, 0, False)),
        ("attempts: '{{ n }}', budget: 90", Wait(90, 0, True)),
        ("attempts: 3, delay: '{{ d }}', max_delay: '{{ m }}', budget: '{{ b }}'", Wait(0, 0, False)),
    ],
)
def test_where_an_expression_decides_a_cap_or_a_budget_bounds_the_wait(options: str, expected: Wait) -> None:
    assert wait(f"eval: [{rule(options)}]") == expected


def test_a_delay_that_no_cap_bounds_can_grow_without_end() -> None:
    retry = Retry(attempts=2000, max_delay=None)
    task = task_of(of_keys(""))

    assert worst_case_wait(replace(task, rules=(Rule(ON_ERROR, retry),))).retries_s == inf


def test_the_longest_wait_is_told_in_words() -> None:
    assert advised(of_keys("retry: 5"), "worst-case-wait") == ["task 'only' waits at most 22.5 s between its attempts"]
    assert advised(of_keys("retry: {max_attempts: '{{ workload.n }}'}"), "worst-case-wait") == [
        "task 'only' may wait 0.0 s and more: an expression decides"
    ]


def test_a_wait_beyond_the_steps_timeout_names_both() -> None:
    text = of_steps("- {step: a, timeout: 10s, tool: {kind: noop, retry: 5}}")

    assert advised(text, "wait-beyond-timeout") == ["task 'a' may wait 22.5 s, but step 'a' ends after 10.0 s"]


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(0, "0.0 s"), (1.25, "1.2 s"), (59.94, "59.9 s"), (60, "1 min"), (90, "1 min 30 s"), (3600, "1 h"),
     (90061, "1 d 1 h 1 min 1 s"), (inf, "more than a hundred years"), (1e12, "more than a hundred years")],
)  # fmt: skip
def test_durations_are_said_as_people_say_them(seconds: float, words: str) -> None:
    assert in_words(seconds) == words
