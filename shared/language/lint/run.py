"""Everything lint looks at, in one call."""

from __future__ import annotations

from shared.language.compile import Compiled
from shared.language.diagnostics import Diagnostic, Report, in_order
from shared.language.lint.calls import advise_on_calls
from shared.language.lint.loops import advise_on_loops
from shared.language.lint.names import advise_on_names
from shared.language.lint.reach import advise_on_reach
from shared.language.lint.rules import advise_on_rules
from shared.language.lint.waits import advise_on_waits


def lint(compiled: Compiled) -> tuple[Diagnostic, ...]:
    """Return all advice about a playbook that compiled; nothing, if it did not."""
    plan = compiled.plan
    if plan is None:
        return compiled.advice
    report = Report(compiled.file)
    advise_on_rules(plan, report)
    advise_on_calls(plan, report)
    advise_on_loops(plan, report)
    advise_on_names(plan, report)
    advise_on_reach(plan, report)
    advise_on_waits(plan, report)
    return tuple(sorted((*compiled.advice, *report.diagnostics()), key=in_order))
