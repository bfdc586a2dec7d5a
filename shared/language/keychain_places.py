"""Where `keychain` may be read: in what a worker finishes, and nowhere that the engine decides by or writes down."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import replace

from shared.language.checks import SCOPE_NAMES
from shared.language.diagnostics import Report
from shared.language.expressions import expressions_in
from shared.language.plan import EMPTY_OBJECT, Constant, Expression, Loop, Object, Plan, Step, Task, Value
from shared.templates.expressions import Path, TemplateSyntaxProblem, compile_template

KEYCHAIN = "keychain"
CHILD = "playbook"
OWN_FIELDS = ("wait", CHILD)
CODE = "keychain-place"
_WHY = "a worker fills it in when the task runs; nothing that is decided by or stored may depend on a secret"


def check_keychain(plan: Plan, report: Report) -> None:
    """Report every expression that reads `keychain` where no worker could fill it in."""
    elsewhere = "'keychain' can be read in the fields, the input and the sink of a task, and not here"
    _refuse((plan.result, *map(_around_tasks, plan.steps)), elsewhere, report)
    for step in plan.steps:
        for task in step.tasks:
            _refuse(replace(task, config=EMPTY_OBJECT, input=EMPTY_OBJECT, sink=None), elsewhere, report)
            _check_task(step, task, report)


def _around_tasks(step: Step) -> Step:
    """Return a step without what workers finish: the fields of tasks, its own arguments, the claim of a cursor."""
    return replace(step, tasks=(), args=EMPTY_OBJECT, loop=_without_claim(step.loop))


def _without_claim(loop: Loop | None) -> Loop | None:
    if loop is None or loop.cursor is None:
        return loop
    return replace(loop, cursor=replace(loop.cursor, config=EMPTY_OBJECT))


def _check_task(step: Step, task: Task, report: Report) -> None:
    if task.kind in OWN_FIELDS:
        message = f"'keychain' cannot be read in the fields of '{task.kind}': no worker fills them in"
        _refuse(task.config, message, report)
    if task.kind == CHILD:
        message = "a child playbook cannot be given what needs the 'keychain': its workload is stored"
        _refuse((step.args, task.input), message, report)
    for given in (step.args, task.input):
        if isinstance(given, Expression):
            _refuse(given, "arguments that need the 'keychain' are named one by one", report)
    _check_arguments(step, task, report)


def _check_arguments(step: Step, task: Task, report: Report) -> None:
    """Report what the engine itself evaluates and what reads an argument that only a worker knows."""
    secret = _secret_keys(task.input, _secret_keys(step.args, frozenset()))
    if not secret:
        return
    config = task.config if task.kind in OWN_FIELDS else None
    for expression in expressions_in((task.rules, task.timeout, task.pool, config)):
        for name in sorted(secret.intersection(_arguments(expression))):
            message = f"the argument '{name}' needs the 'keychain', so that it cannot be read here"
            report.error(CODE, expression.place, message, _WHY)


def _secret_keys(given: Value, before: frozenset[str]) -> frozenset[str]:
    """Return which arguments need the keychain, given those that did before these were laid over them."""
    if isinstance(given, Constant):
        data = json.loads(given.json)
        return before.difference(data) if isinstance(data, dict) else before
    if not isinstance(given, Object):
        return before
    own = {key for key, value in given.items if _needs_keychain(value, before)}
    return (before - {key for key, _ in given.items}) | own


def _needs_keychain(value: Value, secret: frozenset[str]) -> bool:
    return any(
        any(path[0] == KEYCHAIN for path in _reads(expression)) or not secret.isdisjoint(_arguments(expression))
        for expression in expressions_in(value)
    )


def _arguments(expression: Expression) -> Iterator[str]:
    """Give the names that mean arguments, if there are arguments of these names."""
    for path in _reads(expression):
        if path[0] == "args" and len(path) > 1:
            yield str(path[1])
        elif path[0] not in SCOPE_NAMES and expression.dialect == "canonical":
            yield str(path[0])


def _refuse(parts: object, message: str, report: Report) -> None:
    for expression in expressions_in(parts):
        if any(path[0] == KEYCHAIN for path in _reads(expression)):
            report.error(CODE, expression.place, message, _WHY)


def _reads(expression: Expression) -> Iterable[Path]:
    try:
        return compile_template(expression.text).reads
    except TemplateSyntaxProblem:
        return ()
