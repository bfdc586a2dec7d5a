"""The tool that does nothing, successfully."""

from __future__ import annotations

from typing_extensions import override

from services.worker.tools.port import Call, Tool
from shared.contracts.outcomes import Outcome, success


class NoopTool(Tool):
    """Succeeds with no result."""

    kind = "noop"

    @override
    async def run(self, call: Call) -> Outcome:
        return success()
