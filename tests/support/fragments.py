"""Pieces of playbooks, as pages show them: each is put where it belongs, so that the compiler can judge it."""

from __future__ import annotations

from typing import Any

import yaml

from shared.language.document import STEP_FIELDS
from shared.language.kinds import BUILT_IN
from shared.language.task_shapes import KIND_KEYS, task_fields

HEAD = {"apiVersion": "redrive.io/v1"}
STEP = {"step": "only", "tool": {"kind": "noop"}}
PLAYBOOK_KEYS = frozenset({"apiVersion", "kind", "metadata", "workload", "keychain", "executor", "workbook", "result"})
TASK_KEYS = frozenset(task_fields(BUILT_IN))


def is_playbook(data: Any) -> bool:
    """Say whether this is a whole playbook, to be compiled and run as it stands."""
    return isinstance(data, dict) and "workflow" in data and "apiVersion" in data


def is_test_file(data: Any) -> bool:
    """Say whether this is a file of playbook tests."""
    return isinstance(data, dict) and "tests" in data and ("playbook" in data or "inline" in data)


def completed(data: Any) -> str:
    """Return a playbook around a piece of one; raises ValueError if nobody knows where it belongs."""
    return yaml.safe_dump(_around(data), sort_keys=False, allow_unicode=True)


def _around(data: Any) -> dict[str, Any]:
    if isinstance(data, list) and data and all(isinstance(item, dict) for item in data):
        first = data[0]
        if "step" in first:
            return {**HEAD, "workflow": data}
        if first.keys() & {"expr", "when", "else"}:
            return _with_task({"eval": data})
        if first.keys() & {"kind"}:
            return {**HEAD, "workflow": [{"step": "only", "tool": data}]}
    if isinstance(data, dict):
        if "workflow" in data or data.keys() <= PLAYBOOK_KEYS - {"kind"}:
            return {**HEAD, "workflow": [STEP], **data}
        if data.keys() & set(KIND_KEYS) and data.keys() - STEP_FIELDS.keys():
            return {**HEAD, "workflow": [{"step": "only", "tool": data}]}
        if data.keys() <= STEP_FIELDS.keys():
            return {**HEAD, "workflow": [{**STEP, **data}, *_targets(data.get("next"))]}
        if data.keys() <= TASK_KEYS:
            return _with_task(data)
    raise ValueError("it is no playbook, no test, and no piece of one that is known here")


def _with_task(keys: dict[str, Any]) -> dict[str, Any]:
    """Return a playbook whose tasks are those that the rules jump to, the first with these keys."""
    names = [str(rule["to"]) for rule in keys.get("eval", ()) if isinstance(rule, dict) and "to" in rule] or ["only"]
    tasks = [{"name": name, "kind": "noop", **(keys if number == 0 else {})} for number, name in enumerate(names)]
    return {**HEAD, "workflow": [{"step": "only", "tool": tasks}]}


def _targets(following: Any) -> list[dict[str, Any]]:
    """Return steps for arcs to lead to."""
    arcs = following.get("arcs", ()) if isinstance(following, dict) else following or ()
    arcs = [arcs] if isinstance(arcs, str) else arcs
    names = [arc if isinstance(arc, str) else arc.get("step") for arc in arcs]
    return [{"step": name, "tool": {"kind": "noop"}} for name in dict.fromkeys(names) if name and name != "only"]
