"""Nodes to values, numbers, conditions and assignments of the Plan."""

from __future__ import annotations

import json
from typing import Literal

from shared.language.diagnostics import Report
from shared.language.nodes import Mapping, Node, Scalar, Sequence, has_template, is_template, plain, text_of
from shared.language.place import Place
from shared.language.plan import (
    EMPTY_OBJECT,
    Array,
    Assignment,
    Condition,
    Constant,
    Dialect,
    Expression,
    Number,
    Object,
    Value,
)
from shared.templates.durations import parse_duration
from shared.templates.expressions import Template, TemplateSyntaxProblem, compile_template
from shared.templates.truth import truthy

On = Literal["any", "error", "success", "never"]

_LEGACY_ERROR = {"error != None", "error is not none", "success == False", "not success"}
_LEGACY_SUCCESS = {"success == True", "success", "error == None", "error is none"}


def constant(data: object) -> Constant:
    """Return data without expressions as a value."""
    return Constant(json.dumps(data, ensure_ascii=False, separators=(",", ":"), allow_nan=False))


def value_of(node: Node | None, report: Report, dialect: Dialect = "canonical") -> Value:
    """Return a node as a value; what holds no expression becomes one constant."""
    if node is None:
        return EMPTY_OBJECT
    match node:
        case Scalar(value=str(text)) if is_template(text):
            compiled_at(node, report)
            return Expression(text, node.place, dialect)
        case Scalar(value=value):
            return constant(value)
        case Sequence(items=items):
            parts = tuple(value_of(item, report, dialect) for item in items)
            return constant(plain(node)) if _all_constant(parts) else Array(parts)
        case Mapping(entries=entries):
            fields = tuple((entry.key, value_of(entry.value, report, dialect)) for entry in entries)
            return constant(plain(node)) if _all_constant(value for _, value in fields) else Object(fields)


def literal_of(node: Node) -> Constant:
    """Return a node as it is written, whatever looks like an expression in it."""
    return constant(plain(node))


def object_of(fields: dict[str, Value]) -> Value:
    """Return a mapping of values, folded to a constant when it can be."""
    if _all_constant(fields.values()):
        return constant({key: json.loads(value.json) for key, value in fields.items() if isinstance(value, Constant)})
    return Object(tuple(fields.items()))


def compiled_at(node: Scalar, report: Report) -> Template | None:
    """Compile the text of a node, reporting a syntax problem at its place in the document."""
    try:
        return compile_template(str(node.value))
    except TemplateSyntaxProblem as problem:
        place = _inside(node, problem.line, problem.column)
        hint = problem.hint or ("compare with '=='" if "got '='" in problem.message else None)
        report.error("template-syntax", place, f"the expression is not valid: {problem.message}", hint)
        return None


def number_of(node: Node | None, default: Number, report: Report, dialect: Dialect = "canonical") -> Number:
    """Return a number, a duration in seconds, or the expression that gives one."""
    if not isinstance(node, Scalar) or node.value is None:
        return default
    if has_template(node):
        compiled_at(node, report)
        return Expression(str(node.value), node.place, dialect)
    try:
        number = parse_duration(node.value)
    except ValueError:
        return default
    return int(number) if isinstance(node.value, int) else number


def count_of(node: Node | None, default: Number, report: Report, dialect: Dialect = "canonical") -> Number:
    """Return a whole number, or the expression that gives one."""
    number = number_of(node, default, report, dialect)
    return int(number) if isinstance(number, float) and number.is_integer() else number


def whole_of(node: Node | None) -> int | None:
    """Return the whole number that a node holds."""
    if isinstance(node, Scalar) and isinstance(node.value, int | float) and not isinstance(node.value, bool):
        return int(node.value) if node.value == int(node.value) else None
    return None


def optional_number(node: Node | None, report: Report, dialect: Dialect = "canonical") -> Number | None:
    """Return a number if one is given."""
    return None if node is None else number_of(node, 0, report, dialect)


def condition_of(node: Node | None, report: Report, on: On = "any", dialect: Dialect = "canonical") -> Condition:
    """Return the condition a node states, narrowed to outcomes with the status `on`."""
    if not isinstance(node, Scalar):
        return Condition(on)
    text = node.value if isinstance(node.value, str) else ("true" if node.value else "false")
    if not is_template(text):
        return Condition(on if truthy(text) else "never", text=text)
    compiled = compiled_at(node, report)
    recognised: str | None = compiled.condition if compiled is not None else None
    if dialect == "legacy" and recognised is None:
        recognised = _legacy_condition(text)
    if recognised is not None:
        return Condition(_both(on, recognised), text=text)
    return Condition(on, Expression(text, node.place, dialect), text)


def reads_outcome(condition: Condition) -> bool:
    """Say whether a guard asks about the event or outcome, so that it can take up a failure."""
    if condition.on in ("error", "success"):
        return True
    if condition.expression is None:
        return False
    try:
        names = compile_template(condition.expression.text).names
    except TemplateSyntaxProblem:
        return False
    return not names.isdisjoint({"event", "outcome", "output"})


def assignments_of(node: Node | None, report: Report, bare: Literal["ctx", "iter", "local"]) -> tuple[Assignment, ...]:
    """Return what a `set` writes; `bare` says where a name without `ctx.` or `iter.` goes."""
    if not isinstance(node, Mapping):
        return ()
    return tuple(_assignment(entry.key, value_of(entry.value, report), bare) for entry in node.entries)


def _assignment(key: str, value: Value, bare: Literal["ctx", "iter", "local"]) -> Assignment:
    first, *rest = key.split(".")
    if rest and first in ("ctx", "vars"):
        return Assignment("ctx", tuple(rest), value)
    if rest and first == "iter":
        return Assignment("iter", tuple(rest), value)
    return Assignment(bare, (first, *rest), value)


def _legacy_condition(text: str) -> str | None:
    inner = " ".join(text.strip().removeprefix("{{").removesuffix("}}").split())
    if inner in _LEGACY_ERROR:
        return "on_error"
    return "on_success" if inner in _LEGACY_SUCCESS else None


def _both(on: On, recognised: str) -> On:
    if recognised == "always":
        return on
    if recognised == "never" or on == "never":
        return "never"
    narrowed: On = "error" if recognised == "on_error" else "success"
    return narrowed if on in ("any", narrowed) else "never"


def _inside(node: Scalar, line: int, column: int) -> Place:
    """Return the place in the document of a place in a node's text, as near as the spelling allows."""
    if node.block:
        return Place(node.place.line + line, node.indent + column)
    if node.place.width == 1:
        return node.place
    offset = min(column - 1 + node.quoted, node.place.width - 1)
    return Place(node.place.line, node.place.column + offset)


def _all_constant(values: object) -> bool:
    return all(isinstance(value, Constant) for value in values)  # type: ignore[attr-defined]


def word_of(node: Node | None, default: str) -> str:
    """Return the word a node holds."""
    return text_of(node) or default
