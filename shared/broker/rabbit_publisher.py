"""Publishing to RabbitMQ: a batch is written as one block, and its confirms are counted."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence

from shared.broker.port import Message
from shared.broker.rabbit_channel import HotChannel, Sent
from shared.broker.rabbit_link import Link, RabbitSettings
from shared.errors import UnavailableError

BLOCK_MESSAGES = 250
BLOCK_BYTES = 1024 * 1024


class Publisher:
    """Publishes on one confirming channel of a link; persistent, mandatory, so many at a time and no more."""

    def __init__(self, link: Link, settings: RabbitSettings) -> None:
        self._link = link
        self._settings = settings
        self._channel: HotChannel | None = None
        self._opening = asyncio.Lock()

    async def publish_many(self, messages: Sequence[Message]) -> list[Message]:
        """Return those that no queue wanted, when all are confirmed."""
        await self._link.unblocked()
        channel = await self._open_channel()
        most = self._settings.max_in_flight
        sent: list[Sent] = []
        try:
            for block in _blocks(messages, min(BLOCK_MESSAGES, most)):
                sent.append(await channel.send(block, most))
            for each in sent:
                await self._confirmed(channel, each)
        finally:
            for each in sent:
                each.done.cancel()
        return [message for each in sent for message in each.unrouted]

    async def _open_channel(self) -> HotChannel:
        async with self._opening:
            if self._channel is None or self._channel.is_closed:
                self._channel = await self._link.channel(confirms=True)
            return self._channel

    async def _confirmed(self, channel: HotChannel, sent: Sent) -> None:
        """Wait for every confirm; a broker that is silent without having asked for patience is given up."""
        while not sent.done.done():
            answers = channel.answers
            await asyncio.wait([sent.done], timeout=self._settings.confirm_timeout_s)
            if not sent.done.done() and channel.answers == answers and not self._link.is_blocked:
                await self._link.drop()
                raise UnavailableError(f"RabbitMQ did not confirm within {self._settings.confirm_timeout_s} s")
        sent.done.result()


def _blocks(messages: Sequence[Message], most: int) -> Iterator[Sequence[Message]]:
    """Give the messages in pieces that are neither many nor large."""
    start = size = 0
    for index, message in enumerate(messages):
        if index > start and (index - start >= most or size + len(message.body) > BLOCK_BYTES):
            yield messages[start:index]
            start, size = index, 0
        size += len(message.body)
    if start < len(messages):
        yield messages[start:]
