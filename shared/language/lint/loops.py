"""Advice on loops whose iterations write to one place."""

from __future__ import annotations

from shared.language.diagnostics import Report
from shared.language.plan import Loop, Plan, Step


def advise_on_loops(plan: Plan, report: Report) -> None:
    """Report parallel iterations that write one `ctx` key without a reducer."""
    reduced = {key for key, _ in plan.reducers}
    for step in plan.steps:
        if step.loop is None:
            continue
        if step.loop.mode != "parallel":
            _idle_option(step, step.loop, report)
            continue
        for key in sorted(_ctx_writes(step) - reduced):
            message = f"parallel iterations of step '{step.name}' write ctx.{key}; a second, different value fails"
            hint = f"keep it in iter, or say how it combines: executor.spec.reducers: {{ {key}: append }}"
            report.warning("parallel-write", step.loop.place, message, hint)


def _idle_option(step: Step, loop: Loop, report: Report) -> None:
    if loop.max_in_flight is not None and loop.max_in_flight != 1:
        message = f"the loop of step '{step.name}' is sequential: max_in_flight has no effect"
        report.warning("idle-option", loop.place, message, "add mode: parallel")


def _ctx_writes(step: Step) -> set[str]:
    out: set[str] = set()
    for task in step.tasks:
        patches = [*task.set, *(patch for rule in task.rules for patch in rule.set)]
        out.update(patch.path[0] for patch in patches if patch.target == "ctx")
    return out
