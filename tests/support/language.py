"""Short ways from the text of a playbook, or a piece of one, to its Plan and its findings."""

from textwrap import dedent, indent

from shared.language.compile import Compiled, compile_playbook
from shared.language.diagnostics import Diagnostic, render
from shared.language.lint.run import lint
from shared.language.plan import Plan, Rule, Step, Task


def of_steps(text: str, head: str = "") -> str:
    """Return a playbook with these steps."""
    return f"{dedent(head)}workflow:\n{indent(dedent(text).strip(), '  ')}\n"


def of_tasks(text: str, head: str = "") -> str:
    """Return a playbook whose only step has this list of tasks."""
    return of_steps(f"- step: only\n  tool:\n{indent(dedent(text).strip(), '    ')}", head)


def of_keys(text: str, tool: str = "tool: http\nurl: http://api/data") -> str:
    """Return a playbook whose only step is a flat one with these keys besides its tool's."""
    body = f"{dedent(tool).strip()}\n{dedent(text).strip()}"
    return of_steps(f"- step: only\n{indent(body, '  ')}")


def plan_of(text: str) -> Plan:
    """Return the Plan of a playbook that is right."""
    compiled = compile_playbook(text)
    assert compiled.plan is not None, render(compiled.errors, text)
    return compiled.plan


def step_of(text: str, name: str = "only") -> Step:
    """Return a step of a playbook that is right."""
    step = plan_of(text).step(name)
    assert step is not None
    return step


def task_of(text: str, step: str = "only") -> Task:
    """Return the only task of a step."""
    (task,) = step_of(text, step).tasks
    return task


def rules_of(text: str) -> tuple[Rule, ...]:
    """Return the rules of the only task of a playbook."""
    return task_of(text).rules


def found(text: str | bytes) -> list[tuple[str, int, int]]:
    """Return code, line and column of every error."""
    return [(item.code, item.line, item.column) for item in compile_playbook(text).errors]


def errors(text: str | bytes) -> tuple[Diagnostic, ...]:
    """Return every error of a playbook that is wrong, and check that it has no Plan."""
    compiled = compile_playbook(text)
    assert compiled.plan is None
    return compiled.errors


def error(text: str | bytes) -> Diagnostic:
    """Return the only error of a playbook."""
    (item,) = errors(text)
    return item


def advice(text: str) -> tuple[Diagnostic, ...]:
    """Return what lint says about a playbook that is right."""
    compiled: Compiled = compile_playbook(text)
    assert compiled.plan is not None, render(compiled.errors, text)
    return lint(compiled)


def advised(text: str, *codes: str) -> list[str]:
    """Return the messages of lint, of these codes only if some are given."""
    return [item.message for item in advice(text) if not codes or item.code in codes]


def marked(text: str) -> tuple[str, int, int]:
    """Return a text without its mark `▸`, and the line and column of what stands behind the mark."""
    before, mark, after = text.partition("▸")
    assert mark
    assert "▸" not in after
    return before + after, before.count("\n") + 1, len(before) - before.rfind("\n")
