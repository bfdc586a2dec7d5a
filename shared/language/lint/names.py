"""Advice on names in expressions that nothing defines."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from collections.abc import Set as AbstractSet
from typing import TypeAlias

from shared.language.checks import SCOPE_NAMES
from shared.language.claims import CLAIM_NAMES, claim_of
from shared.language.diagnostics import Report, nearest
from shared.language.plan import (
    Array,
    Assignment,
    Condition,
    Constant,
    Expression,
    Jump,
    Loop,
    Number,
    Object,
    Plan,
    Repeat,
    Retry,
    Step,
    Task,
    Value,
)
from shared.templates.expressions import TemplateSyntaxProblem, compile_template

ALWAYS_IN_SCOPE = SCOPE_NAMES | {"input_data"}
LEGACY = frozenset(
    {"result", "status_code", "error", "success", "data", "attempt", "execution_id", "node_id", "response"}
)


Scopes: TypeAlias = tuple[AbstractSet[str], ...]


def advise_on_names(plan: Plan, report: Report) -> None:
    """Report names that no step, task, workload key, argument or assignment brings into scope."""
    everywhere = ALWAYS_IN_SCOPE | _workload_keys(plan) | {step.name for step in plan.steps} | _carried(plan)
    for step in plan.steps:
        local = {task.name for task in step.tasks} | _set_names(step) | _keys(step.args)
        if step.loop is not None:
            local |= {step.loop.iterator}
        for expression, extra in _of_step(step):
            legacy = LEGACY if expression.dialect == "legacy" else frozenset[str]()
            _check(expression, (everywhere, local, extra, legacy), report)
    for expression in _of_value(plan.result):
        _check(expression, (everywhere,), report)


def _check(expression: Expression, scopes: Scopes, report: Report) -> None:
    try:
        names = compile_template(expression.text).names
    except TemplateSyntaxProblem:
        return
    for name in sorted(names):
        if not any(name in scope for scope in scopes):
            report.warning("unknown-name", expression.place, f"nothing defines '{name[:80]}'", _suggest(name, scopes))


def _suggest(name: str, scopes: Scopes) -> Callable[[], str]:
    def hint() -> str:
        near = nearest(name, frozenset().union(*scopes))
        return f"did you mean '{near}'?" if near else "a submitted workload may bring it; name its default in workload"

    return hint


def _workload_keys(plan: Plan) -> set[str]:
    return set(json.loads(plan.workload))


def _carried(plan: Plan) -> set[str]:
    """Return what arcs carry and `set` writes anywhere: bare names that other steps may read."""
    out: set[str] = set()
    for step in plan.steps:
        for arc in step.next.arcs:
            out |= _keys(arc.args) | {patch.path[0] for patch in arc.set}
        out |= {patch.path[0] for patch in step.set}
        for task in step.tasks:
            out |= {patch.path[0] for rule in task.rules for patch in rule.set if patch.target == "ctx"}
            out |= {patch.path[0] for patch in task.set if patch.target == "ctx"}
    return out


def _set_names(step: Step) -> set[str]:
    out: set[str] = set()
    for task in step.tasks:
        out |= {patch.path[0] for patch in task.set}
        out |= {patch.path[0] for rule in task.rules for patch in rule.set}
        out |= {r.then.gather.into for r in task.rules if isinstance(r.then, Repeat) and r.then.gather.into}
    return out


def _keys(value: Value) -> set[str]:
    match value:
        case Object(items=items):
            return {key for key, _ in items}
        case Constant(json=text):
            data = json.loads(text)
            return set(data) if isinstance(data, dict) else set()
        case _:
            return set()


def _of_step(step: Step) -> Iterator[tuple[Expression, frozenset[str] | set[str]]]:
    nothing: frozenset[str] = frozenset()
    for admission in step.admit:
        yield from ((e, nothing) for e in _of_condition(admission.when))
    if step.loop is not None:
        yield from ((e, nothing) for e in _of_value(step.loop.source))
        yield from ((e, nothing) for e in _of_condition(step.loop.where))
        yield from ((e, nothing) for e in _of_loop(step.loop))
    yield from ((e, nothing) for e in (*_of_value(step.args), *_of_numbers(step.timeout)))
    yield from ((e, nothing) for e in _of_patches(step.set))
    claim = claim_of(step)
    if claim is not None:
        yield from ((e, CLAIM_NAMES) for e in _of_task(claim))
    for task in step.tasks:
        own = _keys(task.input)
        yield from ((e, own) for e in _of_task(task))
    for arc in step.next.arcs:
        yield from ((e, nothing) for e in (*_of_condition(arc.when), *_of_value(arc.args), *_of_patches(arc.set)))


def _of_task(task: Task) -> Iterator[Expression]:
    yield from _of_value(task.config)
    yield from _of_value(task.input)
    yield from _of_value(task.pool)
    yield from _of_numbers(task.timeout)
    yield from _of_patches(task.set)
    if task.sink is not None:
        yield from _of_value(task.sink.config)
    for rule in task.rules:
        yield from _of_condition(rule.when)
        yield from _of_patches(rule.set)
        match rule.then:
            case Retry() as item:
                yield from _of_numbers(item.attempts, item.delay, item.multiplier, item.max_delay, item.budget)
            case Jump() as item:
                yield from _of_numbers(item.delay, item.max_jumps)
            case Repeat() as item:
                yield from _of_value(item.next_call)
                yield from _of_numbers(item.delay, item.max_attempts)


def _of_loop(loop: Loop) -> Iterator[Expression]:
    yield from _of_numbers(loop.max_in_flight, loop.chunk_size, loop.tolerate)
    if loop.cursor is not None:
        yield from _of_numbers(loop.cursor.max_rows)


def _of_numbers(*numbers: Number | None) -> Iterator[Expression]:
    return (number for number in numbers if isinstance(number, Expression))


def _of_patches(patches: tuple[Assignment, ...]) -> Iterator[Expression]:
    for patch in patches:
        yield from _of_value(patch.value)


def _of_condition(condition: Condition | None) -> Iterator[Expression]:
    if condition is not None and condition.expression is not None:
        yield condition.expression


def _of_value(value: Value | None) -> Iterator[Expression]:
    match value:
        case Expression():
            yield value
        case Array(items=items):
            for item in items:
                yield from _of_value(item)
        case Object(items=pairs):
            for _, item in pairs:
                yield from _of_value(item)
