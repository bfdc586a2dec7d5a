"""Which credentials a task of a Plan names: nothing else is ever given to its jobs."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from shared.language.expressions import expressions_in
from shared.language.plan import Array, Constant, Expression, Object, Plan, Repeat, Step, Task, Value
from shared.templates.expressions import TemplateSyntaxProblem, compile_template

AUTH_KEYS = ("auth", "credential", "connection")
INNER_KEYS = ("credential", "name")
ATTACH = "attach"
KEYCHAIN = "keychain"


@dataclass(frozen=True, slots=True)
class Named:
    """What a task names outright, and whether it leaves a name to an expression in `auth`."""

    names: frozenset[str]
    is_left_open: bool = False


def named_by(plan: Plan, step_name: str, task_name: str | None) -> Named:
    """Return what a task names in its own fields, its sink's and its step's."""
    step = plan.step(step_name)
    if step is None:
        return Named(frozenset())
    names: set[str] = set()
    is_left_open = False
    for is_config, value in _values(step, task_name):
        names.update(_read(value))
        if is_config:
            for auth in _auths(value):
                if isinstance(auth, str):
                    names.add(auth)
                else:
                    is_left_open = True
    return Named(frozenset(names), is_left_open)


def may_be_chosen(plan: Plan, name: str) -> bool:
    """Say whether an expression in `auth` may choose a name: any, unless the playbook lists what it needs."""
    return not plan.keychain or any(entry.name == name for entry in plan.keychain)


def chosen_in(config: Any) -> frozenset[str]:
    """Return the names in the `auth` fields of a call as it was rendered, attached databases among them."""
    fields = config if isinstance(config, dict) else {}
    attached = fields.get(ATTACH)
    owners = [fields, *(item for item in (attached if isinstance(attached, list) else ()) if isinstance(item, dict))]
    return frozenset(name for owner in owners for key in AUTH_KEYS if key in owner for name in _names(owner[key]))


def _values(step: Step, task_name: str | None) -> Iterator[tuple[bool, Value]]:
    """Give everything that becomes part of a task's jobs, and whether it is the configuration of a call."""
    yield False, step.args
    if step.loop is not None and step.loop.cursor is not None:
        yield True, step.loop.cursor.config
    for task in step.tasks:
        if task_name in (None, task.name):
            yield from _values_of(task)


def _values_of(task: Task) -> Iterator[tuple[bool, Value]]:
    yield True, task.config
    yield False, task.input
    if task.sink is not None:
        yield True, task.sink.config
    for rule in task.rules:
        if isinstance(rule.then, Repeat):
            yield True, rule.then.next_call


def _read(value: Value) -> Iterator[str]:
    """Give the names after `keychain.` in every expression of a value."""
    for expression in expressions_in(value):
        try:
            reads = compile_template(expression.text).reads
        except TemplateSyntaxProblem:
            continue
        for path in reads:
            if len(path) > 1 and path[0] == KEYCHAIN and isinstance(path[1], str):
                yield path[1]


def _auths(config: Value) -> Iterator[str | Expression]:
    """Give what names a credential in a configuration: a text, or an expression that will be one."""
    for key, value in _items(config):
        if key in AUTH_KEYS:
            yield from _auth(value)
        elif key == ATTACH:
            for entry in _elements(value):
                yield from (found for name, item in _items(entry) if name in AUTH_KEYS for found in _auth(item))


def _auth(value: Value) -> Iterator[str | Expression]:
    match value:
        case Expression():
            yield value
        case Object(items=pairs):
            yield from (found for key, item in pairs if key in INNER_KEYS for found in _auth(item))
        case Constant(json=text):
            yield from _names(json.loads(text))
        case Array():
            return


def _items(value: Value) -> Iterator[tuple[str, Value]]:
    match value:
        case Object(items=pairs):
            yield from pairs
        case Constant(json=text) if isinstance(data := json.loads(text), dict):
            yield from ((key, Constant(json.dumps(item))) for key, item in data.items())
        case _:
            return


def _elements(value: Value) -> Iterator[Value]:
    match value:
        case Array(items=items):
            yield from items
        case Constant(json=text) if isinstance(data := json.loads(text), list):
            yield from (Constant(json.dumps(item)) for item in data)
        case _:
            return


def _names(auth: Any) -> Iterator[str]:
    """Give the name in an `auth` field, which is a text or a mapping with one."""
    found = next((auth[key] for key in INNER_KEYS if key in auth), None) if isinstance(auth, dict) else auth
    if isinstance(found, str):
        yield found
