"""How a test names tasks: by task, step, iteration, page or attempt, as far as it matters."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from shared.contracts.ids import Address
from shared.engine.program import Program
from shared.language.checks import report_unknown_step
from shared.language.claims import tasks_of
from shared.language.diagnostics import Report, did_you_mean
from shared.language.place import Place
from shared.language.plan import Step, Task

ANY_TASK = "*"
_NAME = r"[A-Za-z_][\w-]*"
_PATTERN = re.compile(
    rf"(?:(?P<playbook>[^:]+):)?(?P<head>{_NAME})(?:~(?P<visit>\d+))?(?:\[(?P<iteration>\d+)\])?"
    rf"(?:\.(?P<task>{_NAME}))?(?:@(?P<page>\d+))?(?:#(?P<attempt>\d+))?"
)
_FORMS = "write task, step.task, step[3].task, or a node such as step~1[3].task#2"


@dataclass(frozen=True, slots=True)
class Pattern:
    """The attempts that a text names; what is None does not matter."""

    text: str
    playbook: str | None = None
    step: str | None = None
    visit: int | None = None
    iteration: int | None = None
    task: str | None = None
    page: int | None = None
    attempt: int | None = None

    def matches(self, program: Program, address: Address) -> bool:
        """Say whether an attempt of a playbook is meant; a claim is only where it is named."""
        if self.task is None and program.is_claim(address):
            return False
        if self.playbook is not None and self.playbook not in names_of(program):
            return False
        wanted = (self.step, self.visit, self.iteration, self.task, self.page, self.attempt)
        found = (address.step, address.visit, address.iteration, address.task, address.page, address.attempt)
        return all(one is None or one == other for one, other in zip(wanted, found, strict=True))

    @property
    def precision(self) -> int:
        """Return how much it says; of two that match an attempt the one that says more counts."""
        parts = (self.playbook, self.step, self.visit, self.iteration, self.task, self.page, self.attempt)
        return sum(part is not None for part in parts)


def names_of(program: Program) -> tuple[str, ...]:
    """Return the names under which a test can speak of a playbook."""
    plan = program.plan
    return (plan.name,) if plan.path is None else (plan.path, plan.name)


def pattern_of(text: str, place: Place, programs: Sequence[Program], report: Report) -> Pattern | None:
    """Return the pattern a text states, or report why it names no task of these playbooks."""
    if text == ANY_TASK:
        return Pattern(text)
    found = _PATTERN.fullmatch(text)
    if found is None:
        report.error("unknown-task", place, f"'{text}' names no task", _FORMS)
        return None
    meant = [program for program in programs if found["playbook"] in (None, *names_of(program))]
    if not meant:
        known = [name for program in programs for name in names_of(program)]
        message = f"no playbook '{found['playbook']}'"
        report.error("unknown-playbook", place, message, lambda: did_you_mean(found["playbook"], known, "playbooks"))
        return None
    step, task = _step_and_task(found, meant)
    pattern = Pattern(
        text, found["playbook"], step, _number(found["visit"]), _number(found["iteration"]), task,
        _number(found["page"]), _number(found["attempt"]),
    )  # fmt: skip
    return pattern if _leads_somewhere(pattern, place, meant, report) else None


def tasks_meant(pattern: Pattern, programs: Sequence[Program]) -> list[tuple[Step, Task]]:
    """Return the tasks that a pattern can match."""
    meant = [program for program in programs if pattern.playbook in (None, *names_of(program))]
    return [
        (step, task)
        for step, task in _all_tasks(meant)
        if pattern.step in (None, step.name) and pattern.task in (None, task.name)
    ]


def _step_and_task(found: re.Match[str], programs: Sequence[Program]) -> tuple[str | None, str | None]:
    """Return the step and the task; a single name is a task's, or else a step's with all its tasks."""
    head, task = found["head"], found["task"]
    if task is not None or found["visit"] is not None or found["iteration"] is not None:
        return head, task
    is_task = any(task.name == head for _, task in _all_tasks(programs))
    is_step = any(head in program.steps for program in programs)
    return (head, None) if is_step and not is_task else (None, head)


def _leads_somewhere(pattern: Pattern, place: Place, programs: Sequence[Program], report: Report) -> bool:
    steps = {step.name: step for program in programs for step in program.plan.steps}
    if pattern.step is not None and pattern.step not in steps:
        report_unknown_step(pattern.step, place, list(steps), report)
        return False
    if not tasks_meant(pattern, programs):
        _report_unknown_task(pattern, place, programs, report)
        return False
    if pattern.iteration is not None and pattern.step is not None and steps[pattern.step].loop is None:
        report.error("no-loop", place, f"step '{pattern.step}' has no loop, so it has no iterations")
        return False
    return True


def _report_unknown_task(pattern: Pattern, place: Place, programs: Sequence[Program], report: Report) -> None:
    name = pattern.task or pattern.text
    if pattern.step is not None:
        known = [task.name for step, task in _all_tasks(programs) if step.name == pattern.step]
        message = f"step '{pattern.step}' has no task" + (f" '{pattern.task}'" if pattern.task else "")
    else:
        known = [name for step, task in _all_tasks(programs) for name in (task.name, step.name)]
        message = f"no task '{name}'"
    report.error("unknown-task", place, message, lambda: did_you_mean(name, known, "tasks"))


def _all_tasks(programs: Sequence[Program]) -> Iterator[tuple[Step, Task]]:
    return ((step, task) for program in programs for step in program.plan.steps for task in tasks_of(step))


def _number(text: str | None) -> int | None:
    return None if text is None else int(text)
