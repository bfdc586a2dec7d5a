"""The tool that publishes messages to RabbitMQ."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Iterator
from typing import Annotated, Any, ClassVar
from urllib.parse import urlsplit

from aio_pika.exceptions import PublishError
from aiormq import exceptions as amqp
from pydantic import AfterValidator, model_validator
from typing_extensions import override

from services.worker.keychain import CredentialError
from services.worker.tools.configs import BadConfigError, Config, bad_config, read_config
from services.worker.tools.http_bodies import content_of
from services.worker.tools.port import Call, Tool
from services.worker.tools.rabbitmq_publishing import Post, Publishing
from services.worker.tools.sending import Lend, Sending
from shared.broker.rabbit_link import FAILURES
from shared.contracts.outcomes import Outcome, failure, success

SETTING = "REDRIVE_TOOL_AMQP_URL"
MAX_MESSAGE_BYTES = 16 * 1024 * 1024
MAX_NAME_BYTES = 255
MAX_HEADER_NAME_BYTES = 128
DEFAULT_TIMEOUT_S = 60.0


def _short(value: str) -> str:
    if len(value.encode(errors="replace")) > MAX_NAME_BYTES:
        raise ValueError(f"it is longer than {MAX_NAME_BYTES} bytes")
    return value


ShortText = Annotated[str, AfterValidator(_short)]


class RabbitmqConfig(Config):
    """What a `rabbitmq` task may say."""

    exchange: ShortText = ""
    routing_key: ShortText = ""
    body: Any = None
    headers: dict[str, Any] | None = None
    auth: Any = None

    @model_validator(mode="after")
    def _goes_somewhere(self) -> RabbitmqConfig:
        if not self.exchange and not self.routing_key:
            raise ValueError("routing_key or exchange is needed")
        return self


class RabbitmqTool(Tool):
    """Publishes one message: persistent, and confirmed by the broker to be in a queue."""

    kind = "rabbitmq"
    keeps_time = True
    config_model: ClassVar[type[Config]] = RabbitmqConfig

    def __init__(self, publishing: Publishing | None = None, default_url: str | None = None) -> None:
        self._publishing = publishing or Publishing()
        self._default_url = default_url

    @override
    async def run(self, call: Call) -> Outcome:
        sending = Sending(call.idempotency_key, call.timeout_s, call.credential)
        try:
            config = read_config(self.kind, RabbitmqConfig, call.config)
        except BadConfigError as problem:
            return problem.outcome
        return await published(self._publishing, config, sending, self._default_url)

    @override
    async def close(self) -> None:
        await self._publishing.close()


async def published(
    publishing: Publishing, config: RabbitmqConfig, sending: Sending, default_url: str | None
) -> Outcome:
    """Publish once and return the outcome; raises CredentialError."""
    try:
        url = await _url(config, sending.lend, default_url)
        post = _post(config, sending.identity)
    except BadConfigError as problem:
        return problem.outcome
    if len(post.body) > MAX_MESSAGE_BYTES:
        return failure(
            "limit", f"the message has {len(post.body)} bytes, and no more than {MAX_MESSAGE_BYTES} are sent"
        )
    limit_s = sending.timeout_s if sending.timeout_s is not None else DEFAULT_TIMEOUT_S
    try:
        async with asyncio.timeout(limit_s):
            await publishing.publish(url, post)
    except FAILURES as problem:
        return _failed(problem, config, limit_s)
    result = {
        "message_id": post.message_id,
        "exchange": post.exchange,
        "routing_key": post.routing_key,
        "size": len(post.body),
    }
    return success(result)


async def _url(config: RabbitmqConfig, lend: Lend, default_url: str | None) -> str:
    """Return the address of the broker: the credential's, or else the one that the operator set for tools."""
    if config.auth is None:
        if default_url is None:
            raise bad_config("rabbitmq", f"auth is needed: this worker has no broker for tools ({SETTING} is not set)")
        return default_url
    credential = await lend(config.auth)
    url = credential.fields.get("url")
    if not isinstance(url, str) or not _is_address(url):
        said = f"the credential '{credential.name}' holds no url that begins with amqp:// or amqps://"
        raise CredentialError(failure("auth", said))
    return url


def _is_address(url: str) -> bool:
    try:
        parts = urlsplit(url)
        return parts.scheme in ("amqp", "amqps") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False


def _post(config: RabbitmqConfig, message_id: str) -> Post:
    try:
        content = content_of(config.body)
        body = content.arguments.get("content", b"")
        post = Post(config.exchange, config.routing_key, body, message_id, content.kind, config.headers or {})
    except (ValueError, TypeError, RecursionError):
        raise bad_config("rabbitmq", "body: it is no JSON and no text") from None
    try:
        f"{config.exchange}{config.routing_key}".encode()
        if any(len(name.encode()) > MAX_HEADER_NAME_BYTES for name in _names(post.headers)):
            raise ValueError
        post.properties().marshal()
    except (ValueError, TypeError, OverflowError, RecursionError, struct.error):
        raise bad_config("rabbitmq", "exchange, routing_key or headers hold what AMQP has no place for") from None
    return post


def _names(value: Any) -> Iterator[str]:
    """Give the names of headers, also within headers: the driver would cut long ones without a word."""
    if isinstance(value, dict):
        yield from map(str, value)
        value = list(value.values())
    if isinstance(value, list):
        for item in value:
            yield from _names(item)


def _failed(problem: BaseException, config: RabbitmqConfig, limit_s: float) -> Outcome:
    where = f"exchange '{config.exchange}', routing key '{config.routing_key}'"
    match problem:
        case PublishError():
            return failure("client_error", f"no queue takes the message: {where}", code="unroutable")
        case amqp.DeliveryError():
            return failure("server_error", f"the broker did not take the message: {where}")
        case amqp.ChannelNotFoundEntity():
            return failure("client_error", f"there is no exchange '{config.exchange}'", code="not_found")
        case amqp.ChannelAccessRefused() | amqp.ConnectionNotAllowed():
            return failure("auth", f"the broker does not let this user publish there: {where}")
        case amqp.AuthenticationError() | amqp.ProbableAuthenticationError():
            return failure("auth", "the broker did not accept the user and password")
        case amqp.ChannelPreconditionFailed():
            return failure("client_error", f"the broker refused the message: {where}", code="precondition_failed")
        case TimeoutError():
            return failure("timeout", f"timeout: the broker did not confirm the message within {limit_s:g} s")
        case _:
            return failure("connection", f"the broker cannot be reached, or was lost: {type(problem).__name__}")
