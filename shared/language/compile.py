"""The way through the language: text in, Plan and findings out."""

from __future__ import annotations

from dataclasses import dataclass

from shared.language.checks import check
from shared.language.diagnostics import Diagnostic, Report, Severity
from shared.language.document import playbook_shape
from shared.language.keychain_places import check_keychain
from shared.language.kinds import BUILT_IN, Kinds
from shared.language.lower.context import Lowering
from shared.language.lower.playbook import plan_of
from shared.language.nodes import Mapping, Node
from shared.language.parse import parse
from shared.language.place import Place
from shared.language.plan import Plan
from shared.language.shapes import wrong_type


@dataclass(frozen=True, slots=True)
class Compiled:
    """What became of a playbook: its Plan, if nothing was wrong with it, and what was found."""

    file: str
    plan: Plan | None
    errors: tuple[Diagnostic, ...]
    advice: tuple[Diagnostic, ...]

    @property
    def ok(self) -> bool:
        """Say whether the playbook can run."""
        return self.plan is not None


def compile_playbook(source: str | bytes, file: str = "playbook.yaml", kinds: Kinds = BUILT_IN) -> Compiled:
    """Return the Plan of a playbook, or every problem that keeps it from having one."""
    errors, advice = Report(file), Report(file)
    root = parse(source, errors)
    if root is None:
        return Compiled(file, None, errors.diagnostics(), ())
    if not isinstance(root, Mapping):
        wrong_type(root, "a playbook: a mapping with apiVersion, metadata, workflow", errors)
        return Compiled(file, None, errors.diagnostics(), ())
    playbook_shape(kinds).check(root, errors)
    plan = plan_of(root, Lowering(errors, advice, kinds))
    check(plan, _entry_place(root), errors)
    check_keychain(plan, errors)
    found = errors.diagnostics()
    failed = any(item.severity is Severity.ERROR for item in found)
    return Compiled(file, None if failed else plan, found, advice.diagnostics())


def _entry_place(root: Mapping) -> Place:
    node: Node | None = root
    for key in ("executor", "spec", "entry_step"):
        node = node.get(key) if isinstance(node, Mapping) else None
    return (node or root).place
