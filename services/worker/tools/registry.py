"""The tools of a worker: built in, or brought by an installed package through an entry point."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from importlib.metadata import EntryPoint, entry_points

from typing_extensions import override

from services.worker.late import Late
from services.worker.tools.port import Call, Tool
from shared.contracts.outcomes import Outcome, failure
from shared.runtime.logs import Log

GROUP = "redrive.tools"

_log = Log("redrive.worker.tools")


class Registry:
    """Tools by their kind, each made once; of two with one kind the first is kept."""

    def __init__(self, tools: Iterable[Tool | Late[Tool]], disabled: Collection[str] = ()) -> None:
        self._tools: dict[str, Tool | Late[Tool]] = {}
        self._disabled = frozenset(disabled)
        for tool in tools:
            if self._tools.setdefault(tool.kind, tool) is not tool:
                _log.error("tool_not_loaded", tool=tool.kind, reason="there is another tool of this kind")

    @property
    def kinds(self) -> tuple[str, ...]:
        """Return the kinds that can be run here."""
        return tuple(sorted(self._tools.keys() - self._disabled))

    def find(self, kind: str) -> Tool | None:
        """Return the tool of a kind, or nothing; one that is turned off says so when it is called."""
        if kind in self._disabled:
            return DisabledTool(kind)
        found = self._tools.get(kind)
        return found.get() if isinstance(found, Late) else found

    async def open(self) -> None:
        """Let every tool that is made and may be used get ready."""
        for tool in self._made():
            if tool.kind not in self._disabled:
                await tool.open()

    async def close(self) -> None:
        """Close every tool that was made."""
        for tool in self._made():
            await tool.close()

    def _made(self) -> list[Tool]:
        found = (tool.made if isinstance(tool, Late) else tool for tool in self._tools.values())
        return [tool for tool in found if tool is not None]


class DisabledTool(Tool):
    """Stands in for a tool that the operator has turned off."""

    kind = "disabled"

    def __init__(self, kind: str) -> None:
        self._kind = kind

    @override
    async def run(self, call: Call) -> Outcome:
        return failure("exception", f"the tool '{self._kind}' is turned off on this worker (REDRIVE_DISABLED_TOOLS)")


def plugged_in(found: Iterable[EntryPoint] | None = None) -> list[Tool]:
    """Return the tools that installed packages offer; one that cannot be loaded is logged and left out."""
    tools: list[Tool] = []
    for point in entry_points(group=GROUP) if found is None else found:
        try:
            tool = point.load()()
        except Exception as problem:
            _log.error("tool_not_loaded", problem, tool=point.name, entry_point=point.value)
            continue
        if isinstance(tool, Tool) and isinstance(getattr(tool, "kind", None), str):
            tools.append(tool)
        else:
            _log.error("tool_not_loaded", tool=point.name, entry_point=point.value, reason="it is no Tool with a kind")
    return tools
