"""Advice on rules that let errors or endless jumps through."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from shared.language.claims import tasks_of
from shared.language.diagnostics import Report
from shared.language.plan import (
    ALWAYS,
    ON_ERROR,
    ON_SUCCESS,
    Break,
    Condition,
    Continue,
    Jump,
    Plan,
    Repeat,
    Retry,
    Rule,
    Task,
)

_MESSAGES = {"legacy": {"{{error}}"}, "canonical": {"{{outcome.error.message}}", "{{output.error.message}}"}}


def advise_on_rules(plan: Plan, report: Report) -> None:
    """Report rules that swallow errors or may go round forever."""
    for step in plan.steps:
        order = {task.name: index for index, task in enumerate(step.tasks)}
        for task in tasks_of(step):
            _swallowed(task, report)
            _unmatched(task, report)
            _jumps(order, task, report)
            _broad_retries(task, report)
            _text_conditions(task, report)


def _judged(task: Task) -> Iterator[tuple[Rule, Condition]]:
    """Give every rule with what is left for it: a last rule for anything may only see errors, or successes."""
    left = ALWAYS
    for rule in task.rules:
        yield rule, left if rule.when == ALWAYS else rule.when
        if rule.when == ON_ERROR:
            left = ON_SUCCESS
        elif rule.when == ON_SUCCESS:
            left = ON_ERROR


def _swallowed(task: Task, report: Report) -> None:
    """Warn where an error can reach a rule that goes on as if nothing had happened."""
    for rule, when in _judged(task):
        if when.expression is None and when.on in ("any", "error"):
            if isinstance(rule.then, Continue | Break):
                place = task.place if rule.implicit else rule.place
                what = "the default of policy rules" if rule.implicit else rule.label
                message = f"{what} goes on after an error of task '{task.name}' as if it had succeeded"
                hint = "add a rule for errors before it: when \"{{ outcome.status == 'error' }}\", do: fail"
                report.warning("swallowed-error", place, message, hint)
            return


def _unmatched(task: Task, report: Report) -> None:
    """Say what happens to outcomes that no written rule matches."""
    written = [rule for rule in task.rules if not rule.implicit]
    tail = [rule for rule in task.rules if rule.implicit]
    if written and tail and written[-1].label.startswith("eval"):
        does = "errors fail, the rest continues" if len(tail) == 2 else "the rest continues"
        message = f"outcomes of task '{task.name}' that no rule matches get the default: {does}"
        report.info("implicit-default", written[-1].place, message, "an 'else' rule says it openly")


def _jumps(order: Mapping[str, int], task: Task, report: Report) -> None:
    for rule, when in _judged(task):
        if not isinstance(rule.then, Jump) or order.get(rule.then.to, 0) > order.get(task.name, 0):
            continue
        if when.expression is None and when != ON_ERROR:
            message = f"{rule.label} jumps back to '{rule.then.to}' every time; only max_jumps ends it"
            report.warning("unbounded-jump", rule.place, message, "give the rule a condition that becomes false")


def _broad_retries(task: Task, report: Report) -> None:
    for rule, when in _judged(task):
        if isinstance(rule.then, Retry) and when in (ALWAYS, ON_SUCCESS):
            hint = "retry errors only: \"{{ outcome.status == 'error' }}\""
            report.warning("broad-retry", rule.place, f"{rule.label} retries successes too", hint)
        if isinstance(rule.then, Repeat) and when == ON_SUCCESS:
            message = f"{rule.label} calls again after every success; only max_attempts ends it"
            report.warning("unbounded-repeat", rule.place, message, "give it a condition that becomes false")


def _text_conditions(task: Task, report: Report) -> None:
    """Warn of a condition that is a message: a text is true only where it says so."""
    for rule in task.rules:
        expression = rule.when.expression
        if expression is not None and "".join(expression.text.split()) in _MESSAGES.get(expression.dialect, ()):
            message = f"{rule.label} asks for a text, which is true only if it says true, 1, yes or on"
            hint = "compare it: error != None" if expression.dialect == "legacy" else "compare it with something"
            report.warning("text-condition", expression.place, message, hint)
