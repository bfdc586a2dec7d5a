"""A whole playbook to its Plan."""

from __future__ import annotations

import json
from dataclasses import replace

from shared.language.diagnostics import Report
from shared.language.document import flat_kind
from shared.language.lower.context import AnyLabel, Lowering, option_of
from shared.language.lower.pools import playbook_pool
from shared.language.lower.routing import admission_of, join_of, loop_of, router_of
from shared.language.lower.tasks import Inherited, TaskNode, flat_task_node, task_nodes, task_of, workbook_body
from shared.language.lower.values import assignments_of, number_of, optional_number, value_of, whole_of
from shared.language.nodes import Mapping, Node, Scalar, Sequence, plain, text_of
from shared.language.plan import Credential, Limits, Plan, Step
from shared.language.task_shapes import KIND_KEYS

DEFAULT_NAME = "playbook"


def plan_of(root: Mapping, low: Lowering) -> Plan:
    """Return the Plan of a document; what is missing or wrong has been or is reported."""
    keychain = _keychain_of(root.get("keychain"), low)
    low.credentials = dict.fromkeys(credential.name for credential in keychain)
    low.workbook = _workbook_of(root.get("workbook"), low)
    spec = _executor_spec(root)
    api_version = text_of(root.get("apiVersion")) or "redrive.io/v1"
    workflow = root.get("workflow")
    items = [item for item in workflow.items if isinstance(item, Mapping)] if isinstance(workflow, Sequence) else []
    low.steps = dict.fromkeys(text_of(item.get("step")) or "" for item in items)
    pool = playbook_pool(spec, low)
    steps = tuple(_step_of(item, low) for item in items)
    metadata = root.get("metadata")
    meta = metadata if isinstance(metadata, Mapping) else Mapping((), root.place, 1)
    path = text_of(meta.get("path"))
    strict = spec.get("strict") if spec else None
    workload = root.get("workload")
    result = root.get("result")
    return Plan(
        name=text_of(meta.get("name")) or path or DEFAULT_NAME,
        entry=_entry_of(spec, steps),
        steps=steps,
        path=path,
        description=text_of(meta.get("description", "desc")),
        labels=_labels_of(meta.get("labels")),
        api_version=api_version,
        workload=json.dumps(plain(workload), ensure_ascii=False) if isinstance(workload, Mapping) else "{}",
        keychain=keychain,
        result=value_of(result, low.errors) if result is not None else None,
        strict=bool(strict.value) if isinstance(strict, Scalar) else api_version == "redrive.io/v1",
        on_failure="finish" if spec and text_of(spec.get("on_failure")) == "finish" else "fail_fast",
        reducers=_pairs(spec.get("reducers") if spec else None),
        pool=pool,
        end_step="end" if api_version.startswith("noetl") and "end" in low.steps else None,
        limits=_limits_of(spec.get("limits") if spec else None, low),
    )


def _step_of(node: Mapping, low: Lowering) -> Step:
    spec = node.get("spec")
    policy = spec.get("policy") if isinstance(spec, Mapping) else None
    name = text_of(node.get("step")) or ""
    timeout = args = None
    if flat_kind(node) is not None:
        pipeline = [flat_task_node(node, name or "task_0")]
        inherited = Inherited(pool=low.pool)
    else:
        pipeline = task_nodes(node.get("tool"), name or "task_0", low)
        timeout = option_of(node, low, "timeout")
        args = node.get("input", "args", "with")
        inherited = _inherited(node, policy, pipeline, low)
    labels = dict.fromkeys(task.name for task in pipeline)
    before_last = replace(inherited, sink=None)
    tasks = tuple(task_of(task, labels, inherited if task is pipeline[-1] else before_last, low) for task in pipeline)
    return Step(
        name=name,
        tasks=tasks,
        description=text_of(node.get("desc", "description")),
        admit=admission_of(node.get("when"), policy, low),
        loop=loop_of(node.get("loop"), inherited.pool, low),
        timeout=optional_number(timeout, low.errors),
        args=value_of(args, low.errors),
        set=assignments_of(node.get("set"), low.errors, "ctx"),
        next=router_of(node.get("next"), low),
        join=join_of(node.get("join"), low),
        place=node.place,
    )


def _inherited(node: Mapping, policy: Node | None, pipeline: list[TaskNode], low: Lowering) -> Inherited:
    has_rules = isinstance(policy, Mapping) and (policy.get("rules") or policy.get("on_unmatched")) is not None
    for entry in (node.entry("eval"), node.entry("spec") if has_rules else None):
        if entry is not None and len(pipeline) != 1:
            message = f"which task do the rules judge? this step has {len(pipeline) or 'no'} tasks"
            low.errors.error("rules-on-step", entry.place, message, "put the rules on the task they judge")
    retry = node.entry("retry")
    if retry is not None and not pipeline:
        low.errors.error("rules-on-step", retry.place, "a step without a task has nothing to retry")
    sink = node.entry("sink")
    if sink is not None and not pipeline:
        low.errors.error("sink-without-task", sink.place, "a step without a task has no result to store")
    if sink is not None and pipeline and pipeline[-1].body.get("sink") is not None:
        low.errors.error("said-twice", sink.place, "the last task has a sink of its own", "keep one of the two")
    return Inherited(
        retry=node.get("retry"),
        eval=node.get("eval"),
        policy=policy if has_rules else None,
        sink=node.get("sink"),
        pool=option_of(node, low, "pool") or low.pool,
    )


def _workbook_of(node: Node | None, low: Lowering) -> dict[str, Mapping]:
    out: dict[str, Mapping] = {}
    for item in node.items if isinstance(node, Sequence) else ():
        entry = item.entry("name", "task") if isinstance(item, Mapping) else None
        name = text_of(entry.value) if entry is not None else None
        if not isinstance(item, Mapping) or entry is None or name is None:
            continue
        if name in out:
            low.errors.error("duplicate-name", entry.value.place, f"the workbook has two tasks '{name[:80]}'")
        out[name] = item
    for name, item in out.items():
        _check_workbook_task(name, workbook_body(item), low)
    return out


def _check_workbook_task(name: str, body: Mapping, low: Lowering) -> None:
    """Report what is wrong with a task of the workbook, called or not; only its caller knows the labels of a jump."""
    if text_of(body.get(*KIND_KEYS)) != "workbook":
        task_of(TaskNode(name, body, body.place), AnyLabel(), Inherited(), replace(low, advice=Report("")))


def _executor_spec(root: Mapping) -> Mapping | None:
    executor = root.get("executor")
    spec = executor.get("spec") if isinstance(executor, Mapping) else None
    return spec if isinstance(spec, Mapping) else None


def _entry_of(spec: Mapping | None, steps: tuple[Step, ...]) -> str:
    named = text_of(spec.get("entry_step")) if spec else None
    if named is not None:
        return named
    if any(step.name == "start" for step in steps):
        return "start"
    return steps[0].name if steps else ""


def _labels_of(node: Node | None) -> tuple[tuple[str, str], ...]:
    if not isinstance(node, Mapping):
        return ()
    return tuple((e.key, _label(e.value)) for e in node.entries if isinstance(e.value, Scalar))


def _label(node: Scalar) -> str:
    return node.value if isinstance(node.value, str) else json.dumps(node.value)


def _pairs(node: Node | None) -> tuple[tuple[str, str], ...]:
    if not isinstance(node, Mapping):
        return ()
    return tuple((e.key, text) for e in node.entries if (text := text_of(e.value)))


def _keychain_of(node: Node | None, low: Lowering) -> tuple[Credential, ...]:
    out: dict[str, Credential] = {}
    for item in node.items if isinstance(node, Sequence) else ():
        entry = item.entry("name") if isinstance(item, Mapping) else None
        name = text_of(entry.value) if entry is not None else None
        if not isinstance(item, Mapping) or entry is None or name is None:
            continue
        if name in out:
            low.errors.error("duplicate-name", entry.value.place, f"the keychain names '{name[:80]}' twice")
        out[name] = Credential(name, text_of(item.get("kind", "type")), text_of(item.get("credential")))
    return tuple(out.values())


def _limits_of(node: Node | None, low: Lowering) -> Limits:
    if not isinstance(node, Mapping):
        return Limits()
    timeout = node.get("timeout")
    seconds = number_of(timeout, 0, low.errors) if timeout is not None else None
    return Limits(whole_of(node.get("max_steps")), float(seconds) if isinstance(seconds, int | float) else None)
