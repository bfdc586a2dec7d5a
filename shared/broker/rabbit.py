"""The broker on RabbitMQ: one connection that publishes, one that consumes, so that a block stops only publishers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager

import aiormq
from aio_pika.exceptions import ChannelNotFoundEntity, ChannelPreconditionFailed
from aiormq import spec
from typing_extensions import override

from shared.broker.port import Broker, Consumer, Message, QueueStats
from shared.broker.rabbit_consumer import RabbitConsumer
from shared.broker.rabbit_link import FAILURES, Link, RabbitSettings
from shared.broker.rabbit_publisher import Publisher
from shared.broker.topology import INCARNATION, Topology
from shared.errors import RejectedError, UnavailableError

# Another who looks at the mark holds it for a moment; only a queue that stays empty this long bears none.
_LOOKS = 40
_LOOK_AGAIN_S = 0.025


class RabbitBroker(Broker):
    """The adapter for RabbitMQ 3.10 and later."""

    def __init__(self, settings: RabbitSettings) -> None:
        self._settings = settings
        self._topology = Topology()
        self._consuming = Link(settings, "consume", self._redeclare)
        self._publishing = Link(settings, "publish", self._redeclare)
        self._publisher = Publisher(self._publishing, settings)
        self._consumers: list[RabbitConsumer] = []
        self._asking = asyncio.Lock()
        self._questions: aiormq.Channel | None = None

    @classmethod
    async def connect(cls, settings: RabbitSettings) -> RabbitBroker:
        """Return a connected broker; raises UnavailableError if it cannot be reached now."""
        broker = cls(settings)
        try:
            await broker._consuming.open()
            await broker._publishing.open()
        except BaseException:
            await broker.close()
            raise
        return broker

    @override
    async def declare(self, topology: Topology) -> None:
        async with self._question() as channel:
            await _declare(channel, topology)
        self._topology |= topology

    @override
    async def publish_many(self, messages: Sequence[Message]) -> list[Message]:
        return await self._publisher.publish_many(messages)

    @override
    async def consume(self, queue: str, prefetch: int) -> Consumer:
        consumer = RabbitConsumer(self._consuming, queue, prefetch, self._settings)
        await consumer.open()
        self._consumers = [each for each in self._consumers if not each.is_closed]
        self._consumers.append(consumer)
        return consumer

    @override
    async def stats(self, queues: Iterable[str]) -> dict[str, QueueStats]:
        found = {}
        for name in queues:
            try:
                async with self._question() as channel:
                    answer = await channel.queue_declare(name, passive=True)
            except RejectedError:
                continue
            found[name] = QueueStats(ready=answer.message_count or 0, consumers=answer.consumer_count or 0)
        return found

    @override
    async def purge(self, queue: str) -> int:
        async with self._question() as channel:
            return (await channel.queue_purge(queue)).message_count or 0

    @override
    async def incarnation(self) -> str | None:
        for _ in range(_LOOKS):
            if (mark := await self._look()) is not None:
                return mark
            await asyncio.sleep(_LOOK_AGAIN_S)
        return None

    @override
    async def mark_incarnation(self, mark: str) -> None:
        if await self.publish_many([Message("", INCARNATION, mark.encode(), mark, content_type="text/plain")]):
            raise RejectedError(f"there is no queue {INCARNATION}; declare the topology first")

    @property
    @override
    def is_blocked(self) -> bool:
        return self._publishing.is_blocked

    @override
    async def close(self) -> None:
        for consumer in self._consumers:
            await consumer.close()
        await self._publishing.close()
        await self._consuming.close()

    async def _redeclare(self, channel: aiormq.Channel) -> None:
        await _declare(channel, self._topology)

    async def _look(self) -> str | None:
        """Return the mark if it is there, putting it back at once."""
        try:
            async with self._question() as channel:
                message = await channel.basic_get(INCARNATION)
                if not isinstance(message.delivery, spec.Basic.GetOk):
                    return None
                await channel.basic_reject(message.delivery.delivery_tag or 0, requeue=True)
                return message.body.decode()
        except RejectedError:
            return None

    @asynccontextmanager
    async def _question(self) -> AsyncIterator[aiormq.Channel]:
        """Lend the channel on which single questions are asked, one at a time; a refused one costs the channel."""
        async with self._asking:
            if self._questions is None or self._questions.is_closed:
                self._questions = await self._consuming.channel()
            try:
                async with asyncio.timeout(self._settings.confirm_timeout_s):
                    yield self._questions
            except (ChannelNotFoundEntity, ChannelPreconditionFailed) as refusal:
                raise RejectedError(str(refusal)) from refusal
            except FAILURES as failure:
                raise UnavailableError(f"RabbitMQ is away: {failure!r}") from failure


async def _declare(channel: aiormq.Channel, topology: Topology) -> None:
    for exchange in topology.exchanges:
        await channel.exchange_declare(
            exchange.name, exchange_type=exchange.kind, durable=True, arguments=dict(exchange.arguments)
        )
    for queue in topology.queues:
        await channel.queue_declare(queue.name, durable=True, arguments=dict(queue.arguments))
    for binding in topology.bindings:
        if binding.to_exchange:
            await channel.exchange_bind(binding.destination, binding.source, binding.key)
        else:
            await channel.queue_bind(binding.destination, binding.source, binding.key)
