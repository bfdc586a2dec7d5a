"""The tool behind an attempt that could not be rendered: its outcome was known beforehand."""

from __future__ import annotations

from typing_extensions import override

from services.worker.tools.port import Call, Tool
from shared.contracts.outcomes import Outcome


class ErrorTool(Tool):
    """Fails with the error that it is configured with."""

    kind = "error"

    @override
    async def run(self, call: Call) -> Outcome:
        return Outcome("error", error=call.config)
