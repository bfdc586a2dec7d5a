"""The same meaning in two spellings is the same list of rules."""

from dataclasses import dataclass
from itertools import combinations

import pytest

from shared.language.plan import Condition, Rule
from shared.templates.expressions import compile_template
from shared.templates.truth import truthy
from tests.support.language import of_keys, of_steps, rules_of, step_of
from tests.support.seed_examples import CANONICAL, EXAMPLES

ERROR = "\"{{ outcome.status == 'error' }}\""
SUCCESS = "\"{{ outcome.status == 'success' }}\""
GROWING = "do: retry, attempts: 5, backoff: exponential, delay: 1.0, multiplier: 2.0, max_delay: 60, jitter: true"
STEADY = GROWING.replace(", jitter: true", "")
MORE = "while: '{{ response.more }}', next_call: {params: {p: 2}}"
BUSY = "'{{ status_code == 429 }}'"
DOWN = "'{{ status_code == 503 }}'"
ELSE = "else: {do: continue}"


def evaluated(*rules: str) -> str:
    return f"eval: [{', '.join(f'{{{rule}}}' for rule in rules)}]"


def policy(*rules: str) -> str:
    return f"spec: {{policy: {{rules: [{', '.join(f'{{{rule}}}' for rule in rules)}]}}}}"


# Every group: one meaning, as many spellings as there are. req: A4, A7, A8, A11, P2; decision 4
MEANINGS: dict[str, dict[str, str]] = {
    "five attempts on any error": {
        "retry number": "retry: 5",
        "retry mapping": "retry: {max_attempts: 5}",
        "in full": "retry: {max_attempts: 5, initial_delay: 1, backoff_multiplier: 2, max_delay: 1m, jitter: true}",
        "retry_when": "retry: {max_attempts: 5, retry_when: '{{ error != None }}'}",
        "on_error": "retry: {on_error: {max_attempts: 5, backoff: exponential}}",
        "on_error with a condition": "retry: {on_error: {max_attempts: 5, when: '{{ success == False }}'}}",
        "list": "retry: [{max_attempts: 5}]",
        "list of on_error": "retry: [{on_error: {max_attempts: 5}}]",
        "eval": evaluated(f"expr: {ERROR}, {GROWING}"),
        "eval with else": evaluated(f"expr: {ERROR}, {GROWING}", ELSE),
        "eval with fail and else": evaluated(f"expr: {ERROR}, {GROWING}", f"expr: {ERROR}, do: fail", ELSE),
        "eval in when and then": evaluated(f"when: {ERROR}, then: {{{GROWING}}}"),
        "eval with jitter of the tool": "spec: {jitter: true}\n" + evaluated(f"expr: {ERROR}, {STEADY}"),
        "policy": policy(f"when: {ERROR}, then: {{{GROWING}}}"),
        "policy with else": policy(f"when: {ERROR}, then: {{{GROWING}}}", "else: {then: {do: continue}}"),
        "policy without then": policy(f"when: {ERROR}, {GROWING}", ELSE),
        "policy on output": policy(f"when: \"{{{{ output.status == 'error' }}}}\", then: {{{GROWING}}}"),
        "policy, unequal to success": policy(f"when: \"{{{{ outcome.status != 'ok' }}}}\", then: {{{GROWING}}}"),
    },
    "three attempts by default": {
        "retry true": "retry: true",
        "retry three": "retry: 3",
        "empty mapping": "retry: {}",
        "on_error": "retry: {on_error: {}}",
        "eval": evaluated(f"expr: {ERROR}, do: retry, jitter: true"),
        "policy": policy(f"when: {ERROR}, then: {{do: retry, backoff: exponential, jitter: true}}"),
    },
    "a constant delay without jitter": {
        "retry": "retry: {max_attempts: 4, backoff: fixed, delay: 2, jitter: false}",
        "retry none": "retry: {max_attempts: 4, backoff: none, initial_delay: 2s, jitter: false}",
        "on_error": "retry: {on_error: {attempts: 4, backoff: fixed, delay: 2.0, jitter: false}}",
        "eval": evaluated(f"expr: {ERROR}, do: retry, attempts: 4, backoff: fixed, delay: 2"),
        "eval none": evaluated(f"expr: {ERROR}, do: retry, attempts: 4, backoff: none, delay: 2"),
        "policy": policy(f"when: {ERROR}, then: {{do: retry, attempts: 4, delay: 2}}"),
    },
    "attempts that do not fail when they are spent": {
        "retry": "retry: {on_exhausted: continue}",
        "eval": evaluated(f"expr: {ERROR}, do: retry, jitter: true, on_exhausted: continue"),
        "policy": policy(
            f"when: {ERROR}, then: {{do: retry, backoff: exponential, jitter: true, on_exhausted: continue}}"
        ),
    },
    "nothing said": {
        "nothing": "",
        "retry false": "retry: false",
        "empty eval": "eval: []",
        "eval": evaluated(f"expr: {ERROR}, do: fail", ELSE),
        "eval of both": evaluated(f"expr: {ERROR}, do: fail", f"expr: {SUCCESS}, do: continue"),
        "policy": policy(f"when: {ERROR}, then: {{do: fail}}"),
        "policy with when true": policy(f"when: {ERROR}, then: {{do: fail}}", "when: true, then: {do: continue}"),
        "no retries of the tool": "spec: {retries: 0}",
    },
    "pages": {
        "on_success": f"retry: {{on_success: {{{MORE}, merge_path: data}}}}",
        "every default": f"retry: {{on_success: {{{MORE}, max_attempts: 100, collect: append, path: data}}}}",
        "collect in a mapping": f"retry: {{on_success: {{{MORE}, collect: {{strategy: append, path: data}}}}}}",
        "list": f"retry: [{{on_success: {{{MORE.replace('while', 'when')}, merge_path: data}}}}]",
        "bare": f"retry: {{{MORE}, merge_path: data}}",
    },
    "two conditions in order": {
        "list of policies": f"retry: [{{retry_when: {BUSY}, initial_delay: 10}}, {{retry_when: {DOWN}}}]",
        "other names": f"retry: [{{retry_when: {BUSY}, delay: 10}}, {{when: {DOWN}, attempts: 3}}]",
    },
    "a rule and a fallback": {
        "eval then retry": evaluated("expr: '{{ x }}', do: break") + "\nretry: 5",
        "eval alone": evaluated("expr: '{{ x }}', do: break", f"expr: {ERROR}, {GROWING}"),
        "policy then retry": policy("when: '{{ x }}', then: {do: break}") + "\nretry: 5",
        "eval then policy": evaluated("expr: '{{ x }}', do: break") + "\n" + policy(f"when: {ERROR}, {GROWING}"),
    },
}
PAIRS = [
    pytest.param(spellings[one], spellings[other], id=f"{meaning}: {one} / {other}")
    for meaning, spellings in MEANINGS.items()
    for one, other in combinations(spellings, 2)
]


@pytest.mark.parametrize(("one", "other"), PAIRS)
def test_two_spellings_of_one_meaning_are_equal(one: str, other: str) -> None:
    first, second = rules_of(of_keys(one)), rules_of(of_keys(other))

    assert first == second
    assert hash(first) == hash(second)


def test_different_meanings_are_different() -> None:
    rules = {meaning: rules_of(of_keys(next(iter(spellings.values())))) for meaning, spellings in MEANINGS.items()}

    assert len(set(rules.values())) == len(rules)


def test_all_spellings_may_stand_in_one_document() -> None:
    spellings = MEANINGS["five attempts on any error"]
    text = of_steps(
        "\n".join(
            f"- step: s{number}\n  tool: http\n  url: http://api\n"
            + "".join(f"  {line}\n" for line in text.split("\n"))
            for number, text in enumerate(spellings.values())
        )
    )

    planned = {step_of(text, f"s{number}").tasks[0].rules for number in range(len(spellings))}
    assert len(planned) == 1


@dataclass(frozen=True)
class Attempt:
    """An outcome as both spellings see it."""

    status: str
    http: int | None
    message: str | None

    @property
    def canonical(self) -> dict[str, object]:
        error = None if self.message is None else {"message": self.message}
        http = {} if self.http is None else {"http": {"status": self.http, "headers": {}}}
        return {"outcome": {"status": self.status, "error": error, **http}}

    @property
    def legacy(self) -> dict[str, object]:
        return {"status_code": self.http, "error": self.message, "success": self.status == "success", "attempt": 1}


OUTCOMES = {
    "ok": Attempt("success", 200, None),
    "created": Attempt("success", 201, None),
    "not found": Attempt("error", 404, "not found"),
    "rate limit": Attempt("error", 429, "rate limit"),
    "bad gateway": Attempt("error", 502, "bad gateway"),
    "server error": Attempt("error", 500, "server error"),
    "unavailable": Attempt("error", 503, "unavailable"),
    "no answer": Attempt("error", None, "connection refused"),
    "timeout": Attempt("error", None, "Read Timeout"),
}


def holds(condition: Condition, attempt: Attempt) -> bool:
    if condition.on not in ("any", attempt.status):
        return False
    expression = condition.expression
    if expression is None:
        return True
    scope = attempt.legacy if expression.dialect == "legacy" else attempt.canonical
    return truthy(compile_template(expression.text).evaluate(scope).value)


def decision(rules: tuple[Rule, ...], attempt: Attempt) -> str:
    return next(type(rule.then).__name__ for rule in rules if holds(rule.when, attempt))


def test_the_migration_example_keeps_its_shape_apart_from_jitter() -> None:  # req: P2
    before = rules_of(EXAMPLES[CANONICAL, "migration, before"])
    after = rules_of(EXAMPLES[CANONICAL, "migration, after"])

    assert [(rule.when.on, type(rule.then), rule.set) for rule in before] == [
        (rule.when.on, type(rule.then), rule.set) for rule in after
    ]
    assert before[1:] == after[1:]
    retries = [rules[0].then for rules in (before, after)]
    assert [getattr(item, "jitter", None) for item in retries] == ["half", "none"]
    for name in ("attempts", "backoff", "delay", "multiplier", "max_delay", "budget", "on_exhausted"):
        assert getattr(retries[0], name) == getattr(retries[1], name)


@pytest.mark.parametrize("outcome", OUTCOMES)
def test_the_migration_example_decides_the_same_for_every_outcome(outcome: str) -> None:  # req: P2
    before = rules_of(EXAMPLES[CANONICAL, "migration, before"])
    after = rules_of(EXAMPLES[CANONICAL, "migration, after"])

    expected = {"ok": "Continue", "created": "Continue", "bad gateway": "Retry", "server error": "Retry",
                "unavailable": "Retry"}  # fmt: skip
    assert decision(before, OUTCOMES[outcome]) == decision(after, OUTCOMES[outcome])
    assert decision(after, OUTCOMES[outcome]) == expected.get(outcome, "Fail")


# req: B12
EQUIVALENT = {
    "status_code in [500, 502, 503, 504]": "outcome.http.status in [500, 502, 503, 504]",
    "status_code >= 500 and status_code < 600": "outcome.http.status >= 500 and outcome.http.status < 600",
    "error != None": "outcome.status == 'error'",
    "success == False": "outcome.status != 'success'",
    "success == True": "outcome.status == 'ok'",
    "'timeout' in (error|lower)": "'timeout' in (outcome.error.message|lower)",
    "error != None or success == False": "outcome.status == 'error'",
    "attempt <= 2 and 'rate limit' in (error|lower)": "'rate limit' in (outcome.error.message|lower)",
    "(attempt == 1 and status_code >= 500) or (attempt > 1 and status_code == 503)": "outcome.http.status >= 500",
}


@pytest.mark.parametrize("outcome", OUTCOMES)
@pytest.mark.parametrize("older", EQUIVALENT)
def test_a_condition_in_the_older_names_agrees_with_its_canonical_form(older: str, outcome: str) -> None:
    before = rules_of(of_keys(f'retry: {{retry_when: "{{{{ {older} }}}}"}}'))
    after = rules_of(of_keys(f'eval: [{{expr: "{{{{ {EQUIVALENT[older]} }}}}", do: retry}}]'))

    assert decision(before, OUTCOMES[outcome]) == decision(after, OUTCOMES[outcome])
