"""The sink that publishes what a task produced as one message."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

from typing_extensions import override

from services.worker.sinks.outcomes import error_of
from services.worker.sinks.port import Sink, Write, Written
from services.worker.sinks.rows import rows_of
from services.worker.tools.configs import BadConfigError, Config, read_config
from services.worker.tools.rabbitmq import RabbitmqConfig, published
from services.worker.tools.rabbitmq_publishing import Publishing
from services.worker.tools.sending import Sending


class RabbitmqSinkConfig(RabbitmqConfig):
    """What a `rabbitmq` sink may say: what the tool may, and how it stores."""

    mode: Literal["append"] = "append"
    key: None = None
    data: Any = None


class RabbitmqSink(Sink):
    """Publishes the data in one message, confirmed by the broker to be in a queue.

    The `message_id` is the identity of the write: a write that is delivered twice may be published twice, and a
    consumer recognises the second by its id.
    """

    kind = "rabbitmq"
    config_model: ClassVar[type[Config]] = RabbitmqSinkConfig

    def __init__(self, publishing: Publishing | None = None, default_url: str | None = None) -> None:
        self._publishing = publishing or Publishing()
        self._default_url = default_url

    @override
    async def write(self, write: Write) -> Written:
        given = write.config if write.config.get("body") is not None else {**write.config, "body": write.data}
        try:
            config = read_config("rabbitmq", RabbitmqSinkConfig, given)
        except BadConfigError as problem:
            raise error_of(problem.outcome) from None
        sending = Sending(write.identity, write.timeout_s, write.credential)
        outcome = await published(self._publishing, config, sending, self._default_url)
        if outcome.status == "error":
            raise error_of(outcome)
        return Written(len(rows_of(write.data)), details={"message_id": write.identity})

    @override
    async def close(self) -> None:
        await self._publishing.close()
