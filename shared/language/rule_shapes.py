"""The surface of rules: `eval`, the newer `policy.rules`, and the older `retry:` block."""

from __future__ import annotations

import re
from dataclasses import dataclass

from shared.language.diagnostics import Report
from shared.language.nodes import Mapping, Node, ScalarValue, is_template
from shared.language.predicates import has_key, is_list, is_mapping, is_scalar
from shared.language.scalars import (
    ANY,
    BACKOFF,
    CONDITION,
    COUNT,
    DIRECTIVE,
    DURATION,
    JITTER,
    NAME,
    TEXT,
    WHOLE,
    at_least,
)
from shared.language.shapes import (
    Case,
    Choice,
    Definitions,
    Either,
    Field,
    ListOf,
    MapOf,
    Record,
    ScalarShape,
    Schema,
    Shape,
    switch_hint,
)

READ_ONLY = (
    "workload", "args", "outcome", "output", "event", "execution_id", "keychain", "env", "job", "_prev", "_task",
    "_attempt",
)  # fmt: skip
_PATH = r"[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)*"
TARGET_PATTERN = rf"^(?!(ctx|iter|vars)$)(?!({'|'.join(READ_ONLY)})(\.|$)){_PATH}$"
KEY_PATTERN = rf"^(?!(ctx|iter|vars)\.){_PATH}$"


def _target_problem(key: str) -> str | None:
    if re.fullmatch(TARGET_PATTERN, key):
        return None
    if key.split(".")[0] in READ_ONLY:
        return f"'{key[:60]}' cannot be written: '{key.split('.')[0]}' is only read"
    return f"'{key[:60]}' is no target: write ctx.name, iter.name or a bare name"


def _key_problem(key: str) -> str | None:
    if re.fullmatch(KEY_PATTERN, key):
        return None
    if key.startswith(("ctx.", "iter.", "vars.")):
        return f"'{key[:60]}' names its scope twice: write the bare name, or use 'set'"
    return f"'{key[:60]}' is no name"


SET = MapOf(ANY, "a mapping of targets to values", _target_problem, TARGET_PATTERN)
PATCH = MapOf(ANY, "a mapping of names to values", _key_problem, KEY_PATTERN)
MULTIPLIER = at_least(1, whole=False)

EXHAUSTED = Either(
    "fail, continue, break or { jump: label }",
    (
        Case(is_mapping, Record("on_exhausted", {"jump": Field(TEXT, "The task to go to.", required=True)})),
        Case(
            is_scalar,
            Choice(
                ("fail", "continue", "break"),
                "unknown-directive",
                "directive",
                hints=(("jump", "write { jump: label }"), ("retry", "the attempts are spent; raise 'attempts'")),
            ),
        ),
    ),
)
DIRECTIVE_FIELDS: dict[str, Field] = {
    "do": Field(DIRECTIVE, "continue, retry, jump, break or fail."),
    "attempts": Field(COUNT, "Attempts in all, the first included."),
    "backoff": Field(BACKOFF, "How the delay grows."),
    "delay": Field(DURATION, "Seconds, '500ms', '2m', or an expression."),
    "multiplier": Field(MULTIPLIER, "Growth of an exponential delay."),
    "max_delay": Field(DURATION, "The longest delay."),
    "jitter": Field(JITTER, "false, true, full or equal."),
    "budget": Field(DURATION, "Time the task may spend in all, waits included."),
    "on_exhausted": Field(EXHAUSTED, "What follows when the attempts are spent."),
    "to": Field(TEXT, "The task a jump goes to."),
    "max_jumps": Field(COUNT, "A guard against endless jumps."),
    "set_iter": Field(PATCH, "Values written to `iter`."),
    "set_ctx": Field(PATCH, "Values written to `ctx`."),
    "set": Field(SET, "Values written to `ctx`, `iter` or a bare name."),
}
THEN = Record("directive", DIRECTIVE_FIELDS, one_of=(("do",),))
ELSE = Either(
    "a directive under 'else'",
    (
        Case(has_key("then"), Record("else rule", {"then": Field(THEN, "What happens.", required=True)})),
        Case(is_mapping, THEN),
    ),
)


@dataclass(frozen=True, slots=True)
class ElseRule(Shape):
    """The last rule: `else:` with a directive under it."""

    expected: str = "'else' with a directive under it"

    def check(self, node: Node, report: Report) -> None:
        assert isinstance(node, Mapping)
        for entry in node.entries:
            if entry.key != "else":
                hint = "indent it under 'else'" if entry.key in (*DIRECTIVE_FIELDS, "then") else "'else' stands alone"
                report.error("unknown-key", entry.place, f"unknown key '{entry.key[:80]}' beside 'else'", hint)
            elif len(node.entries) == 1 or is_mapping(entry.value):
                ELSE.check(entry.value, report)

    def schema(self, definitions: Definitions) -> Schema:
        return {
            "type": "object",
            "properties": {"else": {**ELSE.schema(definitions), "description": "When no rule before it applied."}},
            "required": ["else"],
            "additionalProperties": False,
        }


RULE = Record(
    "rule",
    {
        "expr": Field(CONDITION, "When the rule applies.", required=True, aliases=("when",)),
        **DIRECTIVE_FIELDS,
    },
    one_of=(("do",),),
)
WHEN_THEN = Record(
    "rule with then",
    {
        "when": Field(CONDITION, "When the rule applies.", required=True, aliases=("expr",)),
        "then": Field(THEN, "What happens.", required=True),
    },
)
RULES = ListOf(
    Either(
        "a rule",
        (Case(has_key("else"), ElseRule()), Case(has_key("then"), WHEN_THEN), Case(is_mapping, RULE)),
        "any rule",
    ),
    "a list of rules",
)
POLICY = Record(
    "policy",
    {
        "rules": Field(RULES, "The ordered rules."),
        "on_unmatched": Field(Choice(("continue", "fail"), what="on_unmatched"), "When no rule applies."),
    },
)

COLLECT_WORDS = Choice(("append", "replace", "collect"), what="collect strategy")
COLLECT = Either(
    "append, replace, collect, or a mapping with strategy, path and into",
    (
        Case(
            is_mapping,
            Record(
                "collect",
                {
                    "strategy": Field(COLLECT_WORDS, "How results become one."),
                    "path": Field(TEXT, "Where the array is.", aliases=("merge_path",)),
                    "into": Field(NAME, "A name for the gathered result."),
                },
            ),
        ),
        Case(is_scalar, COLLECT_WORDS),
    ),
)
BACKOFF_FIELDS: dict[str, Field] = {
    "max_attempts": Field(COUNT, "Attempts in all, the first included.", aliases=("attempts",)),
    "initial_delay": Field(DURATION, "The first delay.", aliases=("delay",)),
    "backoff_multiplier": Field(MULTIPLIER, "Growth of the delay.", aliases=("multiplier",)),
    "max_delay": Field(DURATION, "The longest delay."),
    "jitter": Field(JITTER, "true unless said otherwise."),
    "backoff": Field(BACKOFF, "How the delay grows."),
    "budget": Field(DURATION, "Time the task may spend in all, waits included."),
    "on_exhausted": Field(EXHAUSTED, "What follows when the attempts are spent."),
    "stop_when": Field(CONDITION, "Ends the attempts; it wins over retry_when."),
}
RETRY_POLICY = Record(
    "retry", {**BACKOFF_FIELDS, "retry_when": Field(CONDITION, "When to try again.", aliases=("when",))}
)
ON_ERROR = Record(
    "on_error", {**BACKOFF_FIELDS, "when": Field(CONDITION, "Which errors.", aliases=("condition", "retry_when"))}
)
ON_SUCCESS = Record(
    "on_success",
    {
        "while": Field(CONDITION, "While it holds, call again.", required=True, aliases=("when",)),
        "max_attempts": Field(COUNT, "Calls in all.", aliases=("attempts",)),
        "next_call": Field(MapOf(ANY), "What changes in the next call: params, url, headers, body, …"),
        "collect": Field(COLLECT, "append, replace or collect."),
        "merge_path": Field(TEXT, "Where the array is that is appended.", aliases=("path",)),
        "into": Field(NAME, "A name for the gathered result."),
        "delay": Field(DURATION, "A pause between two calls."),
    },
)
BY_OUTCOME = Record(
    "retry by outcome",
    {"on_error": Field(ON_ERROR, "For errors."), "on_success": Field(ON_SUCCESS, "For successes: pages, polls.")},
)
ONE_RETRY = Either(
    "a retry policy",
    (
        Case(has_key("on_error", "on_success"), BY_OUTCOME),
        Case(has_key("while", "next_call"), ON_SUCCESS),
        Case(is_mapping, RETRY_POLICY),
    ),
)


def _retry_hint(value: ScalarValue) -> str | None:
    if value == 0:
        return "attempts count the first one: retry: 1 tries once, retry: false not again"
    if isinstance(value, str) and is_template(value):
        return f'write retry: {{ max_attempts: "{value[:60]}" }}'
    return switch_hint(value)


def _is_retry(value: ScalarValue) -> bool:
    return isinstance(value, bool) or WHOLE.accepts(value)


RETRY = Either(
    "true, a number of attempts, a mapping, or a list of policies",
    (
        Case(is_list, ListOf(ONE_RETRY, "a list of retry policies", at_least=1)),
        Case(is_mapping, ONE_RETRY),
        Case(
            is_scalar,
            ScalarShape(
                "true, a number of attempts, a mapping, or a list of policies",
                _is_retry,
                {"anyOf": [{"type": "boolean"}, WHOLE.json]},
                hint=_retry_hint,
            ),
        ),
    ),
    "retry block",
)
