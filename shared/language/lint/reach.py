"""Advice on steps and arcs that nothing leads to."""

from __future__ import annotations

from shared.language.diagnostics import Report
from shared.language.plan import ALWAYS, Plan


def reachable(plan: Plan) -> set[str]:
    """Return the steps that some way from the entry leads to."""
    arcs = {step.name: [arc.step for arc in step.next.arcs] for step in plan.steps}
    found: set[str] = set()
    waiting = [plan.entry] + ([plan.end_step] if plan.end_step else [])
    while waiting:
        name = waiting.pop()
        if name not in found:
            found.add(name)
            waiting.extend(arcs.get(name, ()))
    return found


def advise_on_reach(plan: Plan, report: Report) -> None:
    """Report steps nobody reaches and arcs behind one that always fires."""
    found = reachable(plan)
    for step in plan.steps:
        if step.name not in found:
            message = f"no way leads from '{plan.entry}' to step '{step.name}'"
            report.warning("unreachable-step", step.place, message, "name it in some step's next")
        if step.next.mode != "exclusive":
            continue
        always = None
        for arc in step.next.arcs:
            if always is not None and not arc.is_else and not arc.takes_failures:
                message = f"the arc to '{arc.step}' is never taken: the one to '{always}' always is"
                report.warning("unreachable-arc", arc.place, message, "use mode: inclusive for all to fire")
            if always is None and arc.when == ALWAYS and not arc.is_else:
                always = arc.step
