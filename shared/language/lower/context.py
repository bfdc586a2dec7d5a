"""What the parts of lowering share: where problems go, which kinds exist, what the workbook holds."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field

from shared.language.diagnostics import Report
from shared.language.kinds import Kinds
from shared.language.nodes import Mapping, Node


@dataclass(slots=True)
class Lowering:
    """One run of lowering over one document; `errors` stop the playbook, `advice` is what lint says."""

    errors: Report
    advice: Report
    kinds: Kinds
    workbook: dict[str, Mapping] = field(default_factory=dict)
    steps: Collection[str] = ()
    credentials: Collection[str] = ()
    pool: Node | None = None


def option_of(node: Mapping, low: Lowering, *names: str) -> Node | None:
    """Return an option that may stand on a mapping or under its `spec:`, but not on both."""
    spec = node.get("spec")
    here, under = node.entry(*names), spec.entry(*names) if isinstance(spec, Mapping) else None
    if here is not None and under is not None:
        message = f"'{under.key}' stands outside 'spec' too, in line {here.place.line}"
        low.errors.error("said-twice", under.place, message, "keep one of the two")
    entry = here or under
    return None if entry is None else entry.value


class AnyLabel(Collection[str]):
    """The labels of a pipeline that is not known: every name may be one."""

    def __contains__(self, name: object) -> bool:
        return True

    def __iter__(self) -> Iterator[str]:
        return iter(())

    def __len__(self) -> int:
        return 0
