"""Advice on calls that are not safe to make twice."""

from __future__ import annotations

import json
import re

from shared.language.diagnostics import Report
from shared.language.plan import Constant, Expression, Object, Plan, Retry, Task, Value

_UNSAFE_METHODS = frozenset({"POST", "PATCH"})
_INSERT = re.compile(r"\binsert\s+into\b", re.IGNORECASE)
_ON_CONFLICT = re.compile(r"\bon\s+conflict\b|\bmerge\s+into\b|\bnot\s+exists\b", re.IGNORECASE)


def advise_on_calls(plan: Plan, report: Report) -> None:
    """Report calls that are retried although a second call may do the work twice."""
    for step in plan.steps:
        for task in step.tasks:
            rule = next((rule for rule in task.rules if isinstance(rule.then, Retry)), None)
            if rule is None:
                continue
            if task.kind == "http" and _posts_without_key(task):
                message = f"task '{task.name}' retries a {_method(task)} without an idempotency key"
                hint = "set idempotency_key, or an Idempotency-Key header, that stays the same over attempts"
                report.warning("retry-not-idempotent", rule.place, message, hint)
            if task.kind in ("postgres", "duckdb") and _inserts_blindly(task):
                message = f"task '{task.name}' retries an INSERT that may have happened"
                report.warning("retry-not-idempotent", rule.place, message, "add ON CONFLICT")


def _field(value: Value, name: str) -> Value | None:
    if isinstance(value, Object):
        return dict(value.items).get(name)
    if isinstance(value, Constant):
        data = json.loads(value.json)
        if isinstance(data, dict) and name in data:
            return Constant(json.dumps(data[name]))
    return None


def _text(value: Value | None) -> str:
    match value:
        case Expression(text=text):
            return text
        case Constant(json=text):
            data = json.loads(text)
            return data if isinstance(data, str) else json.dumps(data)
        case _:
            return ""


def _method(task: Task) -> str:
    return _text(_field(task.config, "method")).upper()


def _posts_without_key(task: Task) -> bool:
    if _method(task) not in _UNSAFE_METHODS or _field(task.config, "idempotency_key") is not None:
        return False
    headers = _field(task.config, "headers")
    if isinstance(headers, Object):
        names = {key.lower() for key, _ in headers.items}
    else:
        data = json.loads(headers.json) if isinstance(headers, Constant) else {}
        names = {str(key).lower() for key in data} if isinstance(data, dict) else set()
    return "idempotency-key" not in names


def _inserts_blindly(task: Task) -> bool:
    texts = [_text(_field(task.config, "command")), _text(_field(task.config, "commands"))]
    return any(_INSERT.search(text) and not _ON_CONFLICT.search(text) for text in texts)
