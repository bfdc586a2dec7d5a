"""Judging an outcome: the first rule that matches, what it says, and a record of how that came about."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from shared.engine.redaction import shown_value
from shared.engine.render import ExpressionFailed, Renderer
from shared.engine.scope import Scope
from shared.engine.turn import Turn
from shared.language.plan import Condition, Directive, Fail, Rule, Task
from shared.templates.expressions import MISSING as UNDEFINED
from shared.templates.expressions import compile_template, look_up

MAX_READS = 12
MAX_TEXT = 500
LEFT_TO_WORKER = "known to the worker alone"


@dataclass(slots=True)
class Verdict:
    """A rule that matched, what it writes, and the record of the decision."""

    rule: Rule
    directive: Directive
    patches: dict[str, Any]
    record: dict[str, Any]
    error: dict[str, Any] | None = None
    renderer: Renderer | None = field(default=None, repr=False)


def judge(turn: Turn, task: Task, scope: Scope) -> Verdict:
    """Return the verdict of a task's rules on the outcome in scope; a rule that cannot be evaluated fails the task."""
    tried: list[dict[str, Any]] = []
    renderer = turn.renderer(scope)
    for rule in task.rules:
        entry: dict[str, Any] = {"rule": rule.label, **looked_at(rule.when, rule.place.line)}
        tried.append(entry)
        try:
            holds = entry["value"] = renderer.holds(rule.when)
        except ExpressionFailed as problem:
            entry["error"] = problem.error["message"]
            return _failed(rule, tried, problem)
        finally:
            add_reads(entry, rule.when, scope)
        if holds:
            return _matched(rule, tried, renderer)
    raise AssertionError("the rules of a Plan always end with one that matches")


def _matched(rule: Rule, tried: list[dict[str, Any]], renderer: Renderer) -> Verdict:
    record = {"rules": tried, "matched": rule.label, "directive": directive_name(rule.then)}
    if renderer.warnings:
        record["undefined"] = list(renderer.warnings)
    try:
        patches = renderer.patches(rule.set)
    except ExpressionFailed as problem:
        return _failed(rule, tried, problem)
    return Verdict(rule, rule.then, patches, record, renderer=renderer)


def _failed(rule: Rule, tried: list[dict[str, Any]], problem: ExpressionFailed) -> Verdict:
    error = {**problem.error, "details": {**problem.error.get("details", {}), "rule": rule.label}}
    record = {"rules": tried, "matched": rule.label, "directive": "fail", "error": error["message"]}
    return Verdict(rule, Fail(), {}, record, error)


def failed_by(verdict: Verdict, problem: ExpressionFailed) -> Verdict:
    """Return the verdict that an option of the matched rule could not be evaluated."""
    return _failed(verdict.rule, verdict.record.get("rules", []), problem)


def directive_name(directive: Directive) -> str:
    """Return the word for a directive."""
    return type(directive).__name__.lower()


def looked_at(condition: Condition, line: int) -> dict[str, Any]:
    """Return the start of a condition's entry in a decision record: its text and its place."""
    text = condition.text or "always"
    entry: dict[str, Any] = {"text": text if len(text) <= MAX_TEXT else text[: MAX_TEXT - 1] + "…"}
    if line:
        entry["line"] = line
    return entry


def add_reads(entry: dict[str, Any], condition: Condition, scope: Scope) -> None:
    """Note the values of the names a condition read, as far as they can be shown."""
    if condition.expression is None:
        if condition.on != "any":
            entry["reads"] = {"outcome.status": (scope.outcome or {}).get("status")}
        return
    template = compile_template(condition.expression.text)
    try:
        names = scope.bound(template, condition.expression.dialect)
    except LookupError:
        return
    reads: dict[str, Any] = {}
    for path in template.reads[:MAX_READS]:
        dotted = ".".join(str(part) for part in path)
        if scope.reads_deferred(path, condition.expression.dialect):
            reads[dotted] = LEFT_TO_WORKER
            continue
        value = look_up(names, path)
        reads[dotted] = "undefined" if value is UNDEFINED else shown_value(path, value)
    entry["reads"] = reads
