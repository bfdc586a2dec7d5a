"""The tool at the end of a wait: the broker did the waiting, so a job that arrives is done."""

from __future__ import annotations

from typing_extensions import override

from services.worker.tools.port import Call, Tool
from shared.contracts.outcomes import Outcome, failure, success


class WaitTool(Tool):
    """Succeeds when a time has come; fails when a signal has not come in time."""

    kind = "wait"

    @override
    async def run(self, call: Call) -> Outcome:
        if call.role == "signal":
            return failure("timeout", f"no signal '{call.config.get('signal')}' came in time")
        return success()
