"""What must hold between the parts of a playbook: names are unique, and every reference leads somewhere."""

from __future__ import annotations

from collections.abc import Collection

from shared.language.claims import CLAIM, claim_of
from shared.language.diagnostics import Report, did_you_mean
from shared.language.place import Place
from shared.language.plan import Plan, Step

SCOPE_NAMES = frozenset(
    {
        "workload",
        "ctx",
        "vars",
        "iter",
        "args",
        "outcome",
        "output",
        "event",
        "execution_id",
        "keychain",
        "env",
        "job",
        "_prev",
        "_task",
        "_attempt",
        "result",
    }
)
RESERVED = SCOPE_NAMES | {"loop", "true", "false", "none", "and", "or", "not", "if", "else", "in", "is"}


def check(plan: Plan, entry_place: Place, report: Report) -> None:
    """Report every name that is used twice and every reference that leads nowhere."""
    names = _check_step_names(plan, report)
    if plan.steps and plan.entry not in names:
        report_unknown_step(plan.entry, entry_place, names, report)
    for step in plan.steps:
        _check_arcs(step, names, report)
        _check_tasks(step, report)


def report_unknown_step(name: str, place: Place, names: Collection[str], report: Report) -> None:
    """Report the name of a step that does not exist, with the one that was probably meant."""
    message = f"no step '{name[:80]}'"
    report.error("unknown-step", place, message, lambda: did_you_mean(name, names, "steps"))


def _check_step_names(plan: Plan, report: Report) -> set[str]:
    names: dict[str, Step] = {}
    for step in plan.steps:
        first = names.get(step.name)
        if first is not None and step.name:
            hint = f"the first stands in line {first.place.line}"
            report.error("duplicate-name", step.place, f"two steps are called '{step.name}'", hint)
        if step.name in RESERVED:
            message = f"'{step.name}' has a meaning of its own in expressions and cannot name a step"
            report.error("reserved-name", step.place, message)
        names.setdefault(step.name, step)
    return set(names)


def _check_arcs(step: Step, names: set[str], report: Report) -> None:
    for arc in step.next.arcs:
        if arc.step not in names:
            report_unknown_step(arc.step, arc.place, names, report)
    for arc in [arc for arc in step.next.arcs if arc.is_else][1:]:
        report.error("said-twice", arc.place, f"step '{step.name}' has two 'else' arcs", "keep one of the two")


def _check_tasks(step: Step, report: Report) -> None:
    seen: set[str] = set()
    for task in step.tasks:
        if task.name in seen:
            message = f"two tasks of step '{step.name}' are called '{task.name}'"
            report.error("duplicate-name", task.place, message, "a jump could not tell them apart")
        if task.name in RESERVED:
            message = f"'{task.name}' has a meaning of its own in expressions and cannot name a task"
            report.error("reserved-name", task.place, message)
        if task.name == CLAIM and claim_of(step) is not None:
            message = f"'{CLAIM}' is what the cursor of step '{step.name}' does and cannot name a task beside it"
            report.error("reserved-name", task.place, message)
        seen.add(task.name)
