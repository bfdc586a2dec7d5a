"""Tasks in every shape to tasks of the Plan."""

from __future__ import annotations

import json
from collections.abc import Collection
from dataclasses import dataclass, replace

from shared.language.diagnostics import did_you_mean
from shared.language.kinds import Kind
from shared.language.lower.context import Lowering
from shared.language.lower.pools import pool_of
from shared.language.lower.retry import retry_rules
from shared.language.lower.rules import EVAL, POLICY, completed, jitter_of, retry, rules_of
from shared.language.lower.values import (
    assignments_of,
    constant,
    literal_of,
    number_of,
    object_of,
    value_of,
    whole_of,
)
from shared.language.nodes import Mapping, Node, Scalar, Sequence, has_template, plain, text_of
from shared.language.place import Place
from shared.language.plan import (
    EMPTY_OBJECT,
    Condition,
    Expression,
    Jitter,
    Number,
    Object,
    Rule,
    Sink,
    Task,
    Value,
)
from shared.language.task_shapes import KIND_KEYS, is_labelled


@dataclass(frozen=True, slots=True)
class TaskNode:
    """A task as it is written, with the name it has in the pipeline."""

    name: str
    body: Mapping
    place: Place


def task_nodes(tool: Node | None, step: str, low: Lowering) -> list[TaskNode]:
    """Return the tasks of a pipeline, whichever way they are written; a single one is called as its step is."""
    if isinstance(tool, Sequence):
        return [found for i, item in enumerate(tool.items) if (found := _task_node(item, f"task_{i}", low))]
    found = _task_node(tool, step, low)
    return [found] if found else []


def _task_node(node: Node | None, default: str, low: Lowering) -> TaskNode | None:
    if not isinstance(node, Mapping):
        return None
    if not is_labelled(node):
        return TaskNode(text_of(node.get("name")) or default, node, node.place)
    entry = node.entries[0]
    assert isinstance(entry.value, Mapping)
    name = entry.value.entry("name")
    if name is not None and text_of(entry.value.get(*KIND_KEYS)) != "workbook" and text_of(name.value) != entry.key:
        message = f"the task has the label '{entry.key[:80]}' and another name"
        low.errors.error("said-twice", name.place, message, "keep one of the two")
    return TaskNode(entry.key, entry.value, entry.place)


def flat_task_node(node: Mapping, step: str) -> TaskNode:
    """Return the task of a step that has the tool's fields on itself."""
    name = None if text_of(node.get(*KIND_KEYS)) == "workbook" else text_of(node.get("name"))
    return TaskNode(name or step, node, node.place)


@dataclass(frozen=True, slots=True)
class Inherited:
    """What a step hands down to its tasks."""

    retry: Node | None = None
    eval: Node | None = None
    policy: Node | None = None
    sink: Node | None = None
    pool: Node | None = None


def task_of(node: TaskNode, labels: Collection[str], inherited: Inherited, low: Lowering) -> Task:
    """Return the task with its configuration and its complete list of rules."""
    body = node.body
    kind_name = text_of(body.get(*KIND_KEYS)) or ""
    if kind_name == "workbook":
        return _from_workbook(node, labels, inherited, low)
    kind = low.kinds.tools.get(kind_name)
    entries = _merged_entries(body)
    sink = body.get("sink") or inherited.sink
    timeout = entries.get("timeout")
    return Task(
        name=node.name,
        kind=kind_name,
        config=_config_of(kind, entries, low) if kind else EMPTY_OBJECT,
        input=value_of(body.get("input", "args", "with"), low.errors),
        rules=_rules_of(body, labels, inherited, low),
        sink=_sink_of(sink, low),
        timeout=_total_timeout(timeout, low),
        pool=pool_of(entries.get("pool") or inherited.pool, low),
        set=assignments_of(body.get("set"), low.errors, "local"),
        select=_select_of(body.get("output")),
        place=node.place,
        code_line=_code_line(entries),
    )


def _merged_entries(body: Mapping) -> dict[str, Node]:
    spec = body.get("spec")
    out = {entry.key: entry.value for entry in (spec.entries if isinstance(spec, Mapping) else ())}
    out.update({entry.key: entry.value for entry in body.entries})
    return out


def _code_line(entries: dict[str, Node]) -> int:
    """Return the line on which the program text of a task begins, 0 if it has none."""
    script = entries.get("script")
    node = entries.get("code") or (script.get("inline") if isinstance(script, Mapping) else None)
    if not isinstance(node, Scalar) or not isinstance(node.value, str):
        return 0
    return node.place.line + 1 if node.block else node.place.line


def _config_of(kind: Kind, entries: dict[str, Node], low: Lowering) -> Value:
    fields: dict[str, Value] = {}
    for key, node in entries.items():
        if key not in kind.known:
            continue
        name, _ = kind.known[key]
        if name in kind.literal:
            fields[name] = literal_of(node)
        elif isinstance(node, Mapping) and any(f"{name}.{entry.key}" in kind.literal for entry in node.entries):
            fields[name] = _partly_literal(name, node, kind, low)
        elif name == "auth":
            fields[name] = auth_of(node, low)
        elif name == "key" and text_of(node) and not has_template(node):
            fields[name] = constant([plain(node)])
        else:
            fields[name] = value_of(node, low.errors)
    timeout = entries.get("timeout")
    if isinstance(timeout, Mapping):
        fields["timeout"] = value_of(timeout, low.errors)
    return object_of(fields)


def _partly_literal(name: str, node: Mapping, kind: Kind, low: Lowering) -> Value:
    return object_of(
        {
            entry.key: literal_of(entry.value)
            if f"{name}.{entry.key}" in kind.literal
            else value_of(entry.value, low.errors)
            for entry in node.entries
        }
    )


def auth_of(node: Node, low: Lowering) -> Value:
    """Return the name of the credential, however it is given."""
    inner = node.get("credential", "name") if isinstance(node, Mapping) else node
    if inner is None:
        return EMPTY_OBJECT
    name = text_of(inner)
    if name is not None and low.credentials and name not in low.credentials and not has_template(inner):
        message = f"the keychain names no credential '{name[:80]}'"
        low.advice.warning(
            "unknown-credential", inner.place, message, lambda: did_you_mean(name, low.credentials, "the keychain has")
        )
    return value_of(inner, low.errors)


def _total_timeout(node: Node | None, low: Lowering) -> Number | None:
    if isinstance(node, Mapping):
        node = node.get("total")
    return None if node is None else number_of(node, 0, low.errors)


def _select_of(output: Node | None) -> tuple[str, ...]:
    chosen = output.get("output_select", "select") if isinstance(output, Mapping) else None
    if not isinstance(chosen, Sequence):
        return ()
    return tuple(text for item in chosen.items if (text := text_of(item)))


def _sink_of(node: Node | None, low: Lowering) -> Sink | None:
    if not isinstance(node, Mapping):
        return None
    name = text_of(node.get(*KIND_KEYS)) or ""
    kind = low.kinds.sinks.get(name)
    if kind is None:
        return None
    entries = {entry.key: entry.value for entry in node.entries if entry.key not in KIND_KEYS}
    return Sink(name, _config_of(kind, entries, low), node.place)


def _rules_of(body: Mapping, labels: Collection[str], inherited: Inherited, low: Lowering) -> tuple[Rule, ...]:
    """Return eval rules, then policy rules, then those of a retry block, then the tail."""
    spec = body.get("spec")
    own_policy = spec.get("policy") if isinstance(spec, Mapping) else None
    eval_node, policy, retry_node = body.get("eval"), own_policy, body.get("retry")
    if eval_node is None and not _has_policy_rules(policy) and retry_node is None:
        eval_node, policy, retry_node = inherited.eval, inherited.policy, inherited.retry
    stated = spec.get("jitter") if isinstance(spec, Mapping) else None
    jitter = jitter_of(stated, "none") if stated is not None else None
    rules = rules_of(eval_node, replace(EVAL, jitter=jitter or EVAL.jitter), labels, low)
    unmatched = EVAL.unmatched
    if isinstance(policy, Mapping):
        rules += rules_of(policy.get("rules"), replace(POLICY, jitter=jitter or POLICY.jitter), labels, low)
        alone = eval_node is None and retry_node is None and _has_policy_rules(policy)
        unmatched = text_of(policy.get("on_unmatched")) or (POLICY.unmatched if alone else EVAL.unmatched)
    rules += retry_rules(retry_node, labels, jitter, low)
    rules += _spec_retries(spec, jitter or "none")
    return completed(rules, unmatched, low)


def _has_policy_rules(policy: Node | None) -> bool:
    return isinstance(policy, Mapping) and (policy.get("rules") or policy.get("on_unmatched")) is not None


def _spec_retries(spec: Node | None, jitter: Jitter) -> list[Rule]:
    """Return the rule that `spec.retries` stands for: no tool retries by itself."""
    node = spec.get("retries") if isinstance(spec, Mapping) else None
    retries = whole_of(node)
    if node is None or not retries or retries < 1:
        return []
    text = "{{ outcome.error.retryable }}"
    when = Condition("error", Expression(text, node.place), text)
    directive = retry(attempts=retries + 1, backoff="exponential", jitter=jitter)
    return [Rule(when, directive, label="spec.retries", place=node.place)]


def _from_workbook(node: TaskNode, labels: Collection[str], inherited: Inherited, low: Lowering) -> Task:
    """Return the workbook's task under this name, with what the caller says laid over it."""
    inner = _called(node, low)
    if inner is None:
        return Task(node.name, "noop", rules=completed([], "safe", low), place=node.place)
    handed = inherited if not _has_rules(inner) else replace(inherited, eval=None, policy=None, retry=None)
    base = task_of(TaskNode(node.name, inner, node.place), labels, handed, low)
    caller, entries = node.body, _merged_entries(node.body)
    sink = caller.get("sink") or inherited.sink
    changes: dict[str, object] = {
        "input": _overlaid(base.input, value_of(caller.get("input", "args", "with"), low.errors))
    }
    if _has_rules(caller):
        changes["rules"] = _rules_of(caller, labels, inherited, low)
    if sink is not None:
        changes["sink"] = _sink_of(sink, low)
    if caller.get("set") is not None:
        changes["set"] = assignments_of(caller.get("set"), low.errors, "local")
    if caller.get("output") is not None:
        changes["select"] = _select_of(caller.get("output"))
    if entries.get("timeout") is not None:
        changes["timeout"] = _total_timeout(entries.get("timeout"), low)
    if entries.get("pool") is not None:
        changes["pool"] = pool_of(entries.get("pool"), low)
    return replace(base, **changes)  # type: ignore[arg-type]


def _called(node: TaskNode, low: Lowering) -> Mapping | None:
    """Return the body of the workbook's task that a task calls."""
    wanted = _merged_entries(node.body).get("task") or node.body.get("name")
    name = text_of(wanted) or node.name
    found = low.workbook.get(name)
    if found is None:
        low.errors.error(
            "unknown-task",
            wanted.place if wanted else node.place,
            f"no task '{name[:80]}' in the workbook",
            lambda: did_you_mean(name, low.workbook, "the workbook has") if low.workbook else "there is no workbook",
        )
        return None
    inner = workbook_body(found)
    if text_of(inner.get(*KIND_KEYS)) == "workbook":
        low.errors.error("workbook-cycle", inner.place, "a task of the workbook cannot call the workbook")
        return None
    return inner


def workbook_body(entry: Mapping) -> Mapping:
    """Return the task of an entry of the workbook, whichever way it is written."""
    tool = entry.get("tool")
    return tool if isinstance(tool, Mapping) else entry


def _has_rules(body: Mapping) -> bool:
    spec = body.get("spec")
    own = [spec.get(key) for key in ("policy", "retries", "jitter")] if isinstance(spec, Mapping) else []
    return any(node is not None for node in (body.get("eval"), body.get("retry"), *own))


def _overlaid(base: Value, over: Value) -> Value:
    if over == EMPTY_OBJECT:
        return base
    if base == EMPTY_OBJECT or isinstance(over, Expression) or isinstance(base, Expression):
        return over
    fields = dict(_items(base))
    fields.update(_items(over))
    return object_of(fields)


def _items(value: Value) -> tuple[tuple[str, Value], ...]:
    if isinstance(value, Object):
        return value.items
    data = json.loads(getattr(value, "json", "{}"))
    return tuple((key, constant(item)) for key, item in data.items()) if isinstance(data, dict) else ()
