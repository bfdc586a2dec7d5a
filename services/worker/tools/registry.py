"""The tools of a worker: built in, or brought by an installed package through an entry point."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from importlib.metadata import EntryPoint, entry_points

from services.worker.tools.port import Tool
from shared.runtime.logs import Log

GROUP = "redrive.tools"

Factory = Callable[[], Tool]

_log = Log("redrive.worker.tools")


class Registry:
    """Tools by their kind, each made once."""

    def __init__(self, tools: Iterable[Tool]) -> None:
        self._tools: Mapping[str, Tool] = {tool.kind: tool for tool in tools}

    @property
    def kinds(self) -> tuple[str, ...]:
        """Return the kinds that can be run here."""
        return tuple(sorted(self._tools))

    def find(self, kind: str) -> Tool | None:
        """Return the tool of a kind, or nothing."""
        return self._tools.get(kind)

    async def close(self) -> None:
        """Close every tool."""
        for tool in self._tools.values():
            await tool.close()


def plugged_in(found: Iterable[EntryPoint] | None = None) -> list[Tool]:
    """Return the tools that installed packages offer; one that cannot be loaded is logged and left out."""
    tools: list[Tool] = []
    for point in entry_points(group=GROUP) if found is None else found:
        try:
            tool = point.load()()
        except Exception as problem:
            _log.error("tool_not_loaded", problem, tool=point.name, entry_point=point.value)
            continue
        if isinstance(tool, Tool):
            tools.append(tool)
        else:
            _log.error("tool_not_loaded", tool=point.name, entry_point=point.value, reason="it is no Tool")
    return tools
