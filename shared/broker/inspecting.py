"""What a RabbitMQ node really holds, compared with what Redrive wants to find there; nothing is changed by looking."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from typing import Any

import aiormq
from aio_pika.exceptions import ChannelNotFoundEntity, ChannelPreconditionFailed

from shared.broker.rabbit_link import FAILURES
from shared.broker.topology import Exchange, Queue, Topology
from shared.errors import UnavailableError

TIMEOUT_S = 10.0


@dataclass(slots=True)
class Inspection:
    """A node from outside: its version, and which exchanges and queues are missing or of another shape."""

    product: str
    version: str
    missing: list[str] = field(default_factory=list)
    different: dict[str, str] = field(default_factory=dict)


async def inspect(url: str, wanted: Topology) -> Inspection:
    """Compare a node with a topology; raises UnavailableError if it cannot be asked.

    To declare what exists, with the arguments it should have, changes nothing and is refused if it has others.
    """
    try:
        async with asyncio.timeout(TIMEOUT_S), _connected(url) as connection:
            said = {str(name): value for name, value in connection.server_properties.items()}
            found = Inspection(_text(said.get("product")), _text(said.get("version")))
            looks = _Looks(connection, found)
            for exchange in wanted.exchanges:
                await looks.at_exchange(exchange)
            for queue in wanted.queues:
                await looks.at_queue(queue)
            return found
    except FAILURES as failure:
        raise UnavailableError(f"RabbitMQ cannot be asked: {failure!r}") from failure


class _Looks:
    """Asks about one thing after another; a question that is refused costs its channel."""

    def __init__(self, connection: Any, found: Inspection) -> None:
        self._connection = connection
        self._found = found
        self._channel: aiormq.abc.AbstractChannel | None = None

    async def at_exchange(self, exchange: Exchange) -> None:
        """Note whether an exchange is there, and if so whether it is as it should be."""
        with self._noting(exchange.name):
            await (await self._open()).exchange_declare(exchange.name, passive=True)
            await (await self._open()).exchange_declare(
                exchange.name, exchange_type=exchange.kind, durable=True, arguments=dict(exchange.arguments)
            )

    async def at_queue(self, queue: Queue) -> None:
        """Note whether a queue is there, and if so whether it is as it should be."""
        with self._noting(queue.name):
            await (await self._open()).queue_declare(queue.name, passive=True)
            await (await self._open()).queue_declare(queue.name, durable=True, arguments=dict(queue.arguments))

    @contextmanager
    def _noting(self, name: str) -> Iterator[None]:
        try:
            yield
        except ChannelNotFoundEntity:
            self._found.missing.append(name)
        except ChannelPreconditionFailed as refusal:
            self._found.different[name] = str(refusal)[:500]

    async def _open(self) -> aiormq.abc.AbstractChannel:
        if self._channel is None or self._channel.is_closed:
            self._channel = await self._connection.channel()
        return self._channel


@asynccontextmanager
async def _connected(url: str) -> AsyncIterator[Any]:
    connection = await aiormq.connect(url)
    try:
        yield connection
    finally:
        await connection.close()


def _text(value: object) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value or "unknown")
