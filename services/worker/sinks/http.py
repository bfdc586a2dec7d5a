"""The sink that sends what a task produced to an HTTP endpoint."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

from pydantic import BeforeValidator
from typing_extensions import override

from services.worker.sinks.outcomes import error_of
from services.worker.sinks.port import Sink, Write, Written
from services.worker.sinks.rows import rows_of
from services.worker.tools.configs import BadConfigError, Config, read_config
from services.worker.tools.http_caller import outcome_of
from services.worker.tools.http_config import HttpFields, method_of
from services.worker.tools.http_exchange import Exchange
from services.worker.tools.http_guard import Guard
from services.worker.tools.sending import Sending


class HttpSinkConfig(HttpFields):
    """What an `http` sink may say: what the tool may, and how it stores."""

    sends_null = True
    method: Annotated[str, BeforeValidator(method_of)] = "POST"
    mode: Literal["append"] = "append"
    key: None = None


class HttpSink(Sink):
    """Sends the data in one call; a status that is not expected is a failure.

    The `Idempotency-Key` is the identity of the write, so that a server that honours it stores a write that is
    delivered twice only once.
    """

    kind = "http"
    config_model: ClassVar[type[Config]] = HttpSinkConfig

    def __init__(self, exchange: Exchange | None = None) -> None:
        self._exchange = exchange or Exchange(Guard())

    @override
    async def write(self, write: Write) -> Written:
        try:
            config = read_config("http", HttpSinkConfig, _with_data(write))
        except BadConfigError as problem:
            raise error_of(problem.outcome) from None
        sending = Sending(write.identity, write.timeout_s, write.credential)
        outcome = await outcome_of(self._exchange, config, sending)
        if outcome.status == "error":
            raise error_of(outcome)
        return Written(len(rows_of(write.data)), details={"status": outcome.result["status_code"]})

    @override
    async def close(self) -> None:
        await self._exchange.close()


def _with_data(write: Write) -> dict[str, Any]:
    """Return the configuration with the data as JSON, unless it says itself what is sent."""
    is_said = any(write.config.get(name) is not None for name in ("body", "json", "form", "files"))
    return write.config if is_said else {**write.config, "json": write.data}
