"""The tool that calls HTTP endpoints."""

from __future__ import annotations

from typing import ClassVar

from typing_extensions import override

from services.worker.tools.configs import BadConfigError, Config, read_config
from services.worker.tools.http_caller import outcome_of
from services.worker.tools.http_config import HttpConfig
from services.worker.tools.http_exchange import Exchange
from services.worker.tools.http_guard import Guard
from services.worker.tools.port import Call, Tool
from services.worker.tools.sending import Sending
from shared.contracts.outcomes import Outcome


class HttpTool(Tool):
    """Calls an endpoint over pooled connections; a status that is not expected is a failure."""

    kind = "http"
    keeps_time = True
    config_model: ClassVar[type[Config]] = HttpConfig

    def __init__(self, exchange: Exchange | None = None) -> None:
        self._exchange = exchange or Exchange(Guard())

    @override
    async def run(self, call: Call) -> Outcome:
        try:
            config = read_config(self.kind, HttpConfig, call.config)
        except BadConfigError as problem:
            return problem.outcome
        return await outcome_of(self._exchange, config, Sending(call.idempotency_key, call.timeout_s, call.credential))

    @override
    async def close(self) -> None:
        await self._exchange.close()
