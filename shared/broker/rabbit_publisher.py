"""Publishing to RabbitMQ: a batch is written whole, then all its confirms are awaited together."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import aiormq
from aio_pika.exceptions import PublishError
from aiormq import spec

from shared.broker.port import Message
from shared.broker.rabbit_link import FAILURES, Link, RabbitSettings
from shared.errors import UnavailableError

PERSISTENT = 2

Sending = asyncio.Task[Message | None]


class Publisher:
    """Publishes on one confirming channel of a link; persistent, mandatory, so many at a time and no more."""

    def __init__(self, link: Link, settings: RabbitSettings) -> None:
        self._link = link
        self._settings = settings
        self._channel: aiormq.Channel | None = None
        self._opening = asyncio.Lock()
        self._room = asyncio.Semaphore(settings.max_in_flight)
        self._in_flight: dict[str, asyncio.Event] = {}

    async def publish_many(self, messages: Sequence[Message]) -> list[Message]:
        """Return those that no queue wanted, when all are confirmed."""
        unrouted: list[Message] = []
        size = self._settings.max_in_flight
        for start in range(0, len(messages), size):
            unrouted += await self._publish(messages[start : start + size])
        return unrouted

    async def _publish(self, messages: Sequence[Message]) -> list[Message]:
        await self._link.unblocked()
        channel = await self._open_channel()
        sendings = [asyncio.create_task(self._send(channel, message)) for message in messages]
        gone = channel.closing
        gone.add_done_callback(lambda _: _cancel(sendings))
        try:
            await self._confirmed(set(sendings))
            return _unrouted(sendings)
        finally:
            gone.cancel()
            _cancel(sendings)

    async def _open_channel(self) -> aiormq.Channel:
        async with self._opening:
            if self._channel is None or self._channel.is_closed:
                self._channel = await self._link.channel(confirms=True)
            return self._channel

    async def _send(self, channel: aiormq.Channel, message: Message) -> Message | None:
        """Publish one message; return it if no queue wanted it."""
        # The driver tells a returned message by its id alone, so no two with the same id are on the way at once.
        while (earlier := self._in_flight.get(message.message_id)) is not None:
            await earlier.wait()
        done = self._in_flight[message.message_id] = asyncio.Event()
        try:
            async with self._room:
                await channel.basic_publish(
                    message.body,
                    exchange=message.exchange,
                    routing_key=message.routing_key,
                    properties=_properties(message),
                    mandatory=True,
                    wait=False,
                )
        except PublishError:
            return message
        finally:
            del self._in_flight[message.message_id]
            done.set()
        return None

    async def _confirmed(self, pending: set[Sending]) -> None:
        """Wait for every confirm; a broker that is silent without having asked for patience is given up."""
        while pending:
            done, pending = await asyncio.wait(pending, timeout=self._settings.confirm_timeout_s)
            if pending and not done and not self._link.is_blocked:
                await self._link.drop()
                raise UnavailableError(f"RabbitMQ did not confirm within {self._settings.confirm_timeout_s} s")


def _properties(message: Message) -> spec.Basic.Properties:
    return spec.Basic.Properties(
        content_type=message.content_type,
        headers=dict(message.headers),
        delivery_mode=PERSISTENT,
        message_id=message.message_id,
    )


def _unrouted(sendings: Sequence[Sending]) -> list[Message]:
    lost = sum(sending.cancelled() for sending in sendings)
    failures = [failure for sending in sendings if not sending.cancelled() and (failure := sending.exception())]
    if unforeseen := [failure for failure in failures if not isinstance(failure, FAILURES)]:
        raise unforeseen[0]
    if failures or lost:
        reason = repr(failures[0]) if failures else "the connection was lost"
        raise UnavailableError(f"RabbitMQ did not take {len(failures) + lost} of {len(sendings)} messages: {reason}")
    return [message for sending in sendings if (message := sending.result()) is not None]


def _cancel(sendings: Sequence[Sending]) -> None:
    for sending in sendings:
        sending.cancel()
