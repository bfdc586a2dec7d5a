"""Jobs, calls and tools that tests of the worker are given."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Any

from typing_extensions import override

from services.worker.tools.port import Call, Tool
from shared.contracts.ids import Address, job_id
from shared.contracts.jobs import Job
from shared.contracts.outcomes import Outcome, success

EXECUTION = "e1"
DUE = datetime(2024, 1, 1, tzinfo=UTC)


def a_call(config: dict[str, Any] | None = None, **more: Any) -> Call:
    """Return a call with this configuration."""
    return Call("job-1", EXECUTION, "fetch~1.get#1", config or {}, more.pop("input", {}), **more)


def a_job(kind: str = "noop", config: Any = None, *, task: str = "get", attempt: int = 1, **more: Any) -> Job:
    """Return a job of this kind."""
    address = Address("fetch", task=task, attempt=attempt)
    return Job(job_id(EXECUTION, address), EXECUTION, address, kind, config, available_at=DUE, **more)


class ToldTool(Tool):
    """Does what the test says."""

    kind = "told"

    def __init__(self, does: Callable[[Call], Awaitable[Outcome]]) -> None:
        self._does = does
        self.calls: list[Call] = []

    @override
    async def run(self, call: Call) -> Outcome:
        self.calls.append(call)
        return await self._does(call)


class HeldTool(Tool):
    """Ends when the test lets it."""

    kind = "held"

    def __init__(self) -> None:
        self.calls: list[Call] = []
        self.begun = asyncio.Event()
        self.let_go = asyncio.Event()
        self.cancelled = 0

    @override
    async def run(self, call: Call) -> Outcome:
        self.calls.append(call)
        self.begun.set()
        try:
            await self.let_go.wait()
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        return success("let go")
