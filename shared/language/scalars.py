"""The single values of the language: names, texts, numbers, durations, conditions."""

from __future__ import annotations

import re
from dataclasses import replace

from shared.language.nodes import ScalarValue, is_template
from shared.language.shapes import TEMPLATE_SCHEMA, Anything, Choice, ScalarShape, switch_hint
from shared.templates.durations import parse_duration

NAME_PATTERN = r"^[A-Za-z_][A-Za-z0-9_-]*$"
_NUMBER = r"([0-9]{1,18}(\.[0-9]{1,18})?|\.[0-9]{1,18})"
DURATION_PATTERN = (
    rf"^\s*({_NUMBER}|({_NUMBER}\s*(ms|[smhdw])\s*)+"
    rf"|P(?!\s*$)({_NUMBER}W)?({_NUMBER}D)?(T(?=[0-9.])({_NUMBER}H)?({_NUMBER}M)?({_NUMBER}S)?)?)\s*$"
)
SIZE_PATTERN = r"^\s*[0-9]+(\.[0-9]+)?\s*([KMGkmg]i?)?[Bb]?\s*$"
STATUS_PATTERN = r"^[1-5]([0-9][0-9]|xx|XX)$"
TRUTH_PATTERN = (
    r"\{[{%#]|^\s*([Tt][Rr][Uu][Ee]|[Ff][Aa][Ll][Ss][Ee]|[Yy][Ee][Ss]|[Nn][Oo]|[Oo][Nn]|[Oo][Ff][Ff]|1|0)\s*$"
)
TRUTH_WORDS = ("true", "false", "yes", "no", "on", "off", "1", "0")


def _is_name(value: ScalarValue) -> bool:
    return isinstance(value, str) and re.fullmatch(NAME_PATTERN, value) is not None and len(value) <= 128


def _name_hint(value: ScalarValue) -> str | None:
    if isinstance(value, str):
        return "letters, digits, '_' and '-', beginning with a letter or '_'"
    return None if value is None else "put it in quotes"


def _is_duration(value: ScalarValue) -> bool:
    try:
        parse_duration(value)
    except ValueError:
        return False
    return True


def _is_condition(value: ScalarValue) -> bool:
    if isinstance(value, bool):
        return True
    return isinstance(value, str) and (is_template(value) or value.strip().lower() in TRUTH_WORDS)


def _condition_hint(value: ScalarValue) -> str | None:
    if isinstance(value, str) and value.strip() and "\n" not in value:
        return f'write it as an expression: "{{{{ {value.strip()} }}}}"'
    return None


def _quote_hint(value: ScalarValue) -> str | None:
    return None if isinstance(value, str) or value is None else "put it in quotes"


def _number_hint(value: ScalarValue) -> str | None:
    return "leave the quotes out" if isinstance(value, str) and re.match(r"^[0-9]+(\.[0-9]+)?$", value) else None


def _is_at_least(value: ScalarValue, minimum: int) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and value >= minimum


def _is_size(value: ScalarValue) -> bool:
    return _is_at_least(value, 0) or (isinstance(value, str) and re.fullmatch(SIZE_PATTERN, value) is not None)


def _is_status(value: ScalarValue) -> bool:
    if isinstance(value, str):
        return re.fullmatch(STATUS_PATTERN, value) is not None
    return _is_at_least(value, 100) and isinstance(value, int) and value <= 599


def at_least(minimum: int, *, whole: bool, templated: bool = True) -> ScalarShape:
    """Return the shape of a number that is not below a minimum."""
    kind = "whole number" if whole else "number"

    def accepts(value: ScalarValue) -> bool:
        if whole and isinstance(value, float) and not value.is_integer():
            return False
        return _is_at_least(value, minimum)

    json = {"type": "integer" if whole else "number", "minimum": minimum}
    return ScalarShape(f"a {kind} of at least {minimum}", accepts, json, templated, _number_hint)


NAME = ScalarShape("a name", _is_name, {"type": "string", "pattern": NAME_PATTERN, "maxLength": 128}, hint=_name_hint)
TEXT = ScalarShape("a text", lambda v: isinstance(v, str), {"type": "string"}, hint=_quote_hint)
CODE = ScalarShape("program text", lambda v: isinstance(v, str), {"type": "string"}, hint=_quote_hint)
SWITCH = ScalarShape("true or false", lambda v: isinstance(v, bool), {"type": "boolean"}, hint=switch_hint)
BOOLEAN = replace(SWITCH, templated=True)
EXPRESSION = ScalarShape(
    'an expression "{{ … }}"', lambda v: isinstance(v, str) and is_template(v), TEMPLATE_SCHEMA, hint=_condition_hint
)
SINGLE = ScalarShape(
    "a text, a number or a truth value", lambda v: v is not None, {"type": ["string", "number", "boolean"]}
)
COUNT = at_least(1, whole=True)
WHOLE = at_least(1, whole=True, templated=False)
DURATION = ScalarShape(
    "a duration: seconds, '500ms', '2m', '1h30m' or an expression",
    _is_duration,
    {"anyOf": [{"type": "number", "minimum": 0}, {"type": "string", "pattern": DURATION_PATTERN}]},
    templated=True,
    name="duration",
)
FIXED_DURATION = replace(
    DURATION, expected="a duration: seconds, '500ms', '2m' or '1h30m'", templated=False, name="fixed duration"
)
CONDITION = ScalarShape(
    'a condition: an expression "{{ … }}", true or false',
    _is_condition,
    {"anyOf": [{"type": "boolean"}, {"type": "string", "pattern": TRUTH_PATTERN}]},
    hint=_condition_hint,
    name="condition",
)
SIZE = ScalarShape(
    "a size: bytes, '64KB', '10MB'",
    _is_size,
    {"anyOf": [{"type": "number", "minimum": 0}, {"type": "string", "pattern": SIZE_PATTERN}]},
    templated=True,
    name="size",
)
STATUS = ScalarShape(
    "a status such as 404, or a class such as '2xx'",
    _is_status,
    {
        "anyOf": [
            {"type": "integer", "minimum": 100, "maximum": 599},
            {"type": "string", "pattern": STATUS_PATTERN},
        ]
    },
    templated=True,
)
ANY = Anything()

BACKOFF = Choice(("none", "fixed", "linear", "exponential"), what="backoff")
JITTER = Choice(("full", "equal"), what="jitter", also=(True, False), hints=(("none", "write false"),))
DIRECTIVE = Choice(("continue", "retry", "jump", "break", "fail"), "unknown-directive", "directive")
