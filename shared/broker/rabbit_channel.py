"""A channel of the driver with a hot path: batches written as one block, confirms counted, deliveries without a task.

It stands on the driver's own connection and channel, and answers itself only to the frames that come with every
message; everything else goes the driver's way.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import aiormq
from aiormq.abc import ChannelFrame
from pamqp import commands as spec
from pamqp.body import ContentBody
from pamqp.header import ContentHeader
from typing_extensions import override

from shared.broker import rabbit_wire as wire
from shared.broker.port import Message
from shared.errors import UnavailableError

Arrived = Callable[[spec.Basic.Deliver, ContentHeader, bytes], None]

_CHANNELS = range(1, 65_536)


@dataclass(slots=True)
class Sent:
    """A batch on its way: what the broker has not answered yet, what it sent back, and how it ends."""

    messages: Sequence[Message]
    done: asyncio.Future[None]
    left: int = 0
    returned: set[int] = field(default_factory=set)
    refused: int = 0

    @property
    def unrouted(self) -> list[Message]:
        """Return the messages that no queue wanted."""
        return [self.messages[index] for index in sorted(self.returned)]


class HotChannel(aiormq.Channel):
    """The driver's channel, made for many messages at a time."""

    def __init__(self, connector: Any, number: int, *, confirms: bool) -> None:
        super().__init__(connector, number, publisher_confirms=confirms)
        self.frames = _Frames(self)
        self.arrived: Arrived | None = None
        self._awaited: dict[int, tuple[Sent, int]] = {}
        self._room = asyncio.Event()
        self._writing = asyncio.Lock()
        self._content = _Content()
        self.answers = 0
        self.closing.add_done_callback(lambda _: self._lose())

    @property
    def in_flight(self) -> int:
        """Return how many messages the broker has not answered."""
        return len(self._awaited)

    async def send(self, messages: Sequence[Message], most: int) -> Sent:
        """Write a batch as one block as soon as no more than `most` are in flight with it; confirms are counted."""
        async with self._writing:
            while self._awaited and len(self._awaited) + len(messages) > most:
                self._room.clear()
                await self._room.wait()
            block = wire.publish_block(self.number, messages, self.max_content_size)
            sent = Sent(messages, self.loop.create_future(), len(messages))
            first = self.delivery_tag + 1
            self.delivery_tag += len(messages)
            self._awaited.update((first + index, (sent, index)) for index in range(len(messages)))
            try:
                await self.put(block, drain=True)
            except BaseException:
                # Whether the block goes out is not known, so what the broker counts is not known either.
                self._give_up()
                raise
        return sent

    async def put(self, block: bytes, *, drain: bool = False) -> None:
        """Have a block written after what was put before it; raises UnavailableError if the channel is gone."""
        if self.is_closed:
            raise UnavailableError("the channel to RabbitMQ is closed")
        frame = ChannelFrame(block, should_close=False, drain_future=self.loop.create_future() if drain else None)
        if not self.write_queue.full():
            self.write_queue.put_nowait(frame)
            return
        putting, gone = asyncio.ensure_future(self.write_queue.put(frame)), self.closing
        try:
            await asyncio.wait((putting, gone), return_when=asyncio.FIRST_COMPLETED)
            if not putting.done():
                raise UnavailableError("the channel to RabbitMQ was closed")
        finally:
            putting.cancel()
            gone.cancel()

    def take(self, frame: Any) -> bool:
        """Deal with a frame of the hot path at once; say whether it was one."""
        kind = type(frame)
        if kind is ContentHeader:
            return self._content.begins(frame) and self._complete()
        if kind is ContentBody:
            return self._content.goes_on(frame.value) and self._complete()
        if kind is spec.Basic.Deliver and self.arrived is not None:
            return self._content.announced(frame)
        if not self.publisher_confirms:
            return False
        if kind is spec.Basic.Ack:
            return self._answered(frame, is_refused=False)
        if kind is spec.Basic.Nack:
            return self._answered(frame, is_refused=True)
        return kind is spec.Basic.Return and self._content.announced(frame)

    def _complete(self) -> bool:
        found = self._content.whole()
        if found is None:
            return True
        said, header, body = found
        if isinstance(said, spec.Basic.Return):
            self._returned(said, header)
        elif self.arrived is not None:
            self.arrived(said, header, body)
        return True

    def _answered(self, frame: spec.Basic.Ack | spec.Basic.Nack, *, is_refused: bool) -> bool:
        tag = frame.delivery_tag or 0
        tags = [tag]
        if frame.multiple:
            tags = []
            for each in self._awaited:
                if each > tag:
                    break
                tags.append(each)
        for each in tags:
            found = self._awaited.pop(each, None)
            if found is not None:
                self._count(found[0], is_refused)
        self.answers += len(tags)
        self._room.set()
        return True

    def _count(self, sent: Sent, is_refused: bool) -> None:
        sent.left -= 1
        sent.refused += is_refused
        if sent.left == 0 and not sent.done.done():
            if sent.refused:
                reason = f"RabbitMQ refused {sent.refused} of {len(sent.messages)} messages"
                sent.done.set_exception(UnavailableError(reason))
            else:
                sent.done.set_result(None)

    def _returned(self, frame: spec.Basic.Return, header: ContentHeader) -> None:
        """Note a message that no queue wanted: it is told by what it was, and the first such one is meant."""
        identity = (header.properties.message_id, frame.exchange, frame.routing_key)
        for sent, index in self._awaited.values():
            message = sent.messages[index]
            if (message.message_id, message.exchange, message.routing_key) == identity and index not in sent.returned:
                sent.returned.add(index)
                return

    def _give_up(self) -> None:
        self._lose()
        if not self.is_closed:
            self.create_task(self.close(UnavailableError("a batch was given up half-way")))

    def _lose(self) -> None:
        lost = {id(sent): sent for sent, _ in self._awaited.values()}
        self._awaited.clear()
        self._room.set()
        for sent in lost.values():
            if not sent.done.done():
                sent.done.set_exception(UnavailableError("RabbitMQ did not answer: the connection was lost"))
                # Whoever asked may have gone.
                sent.done.exception()


class _Content:
    """A message that comes in several frames, put together."""

    def __init__(self) -> None:
        self._said: Any = None
        self._header: ContentHeader | None = None
        self._pieces: list[bytes] = []
        self._size = 0

    def announced(self, frame: Any) -> bool:
        self._said, self._header, self._pieces, self._size = frame, None, [], 0
        return True

    def begins(self, header: ContentHeader) -> bool:
        """Take the header, unless it belongs to something that the driver deals with."""
        if self._said is None:
            return False
        self._header = header
        return True

    def goes_on(self, piece: bytes) -> bool:
        if self._said is None:
            return False
        self._pieces.append(piece)
        self._size += len(piece)
        return True

    def whole(self) -> tuple[Any, ContentHeader, bytes] | None:
        """Return what was announced, once all of it is there."""
        header = self._header
        if header is None or self._size < (header.body_size or 0):
            return None
        said, self._said, self._header = self._said, None, None
        return said, header, self._pieces[0] if len(self._pieces) == 1 else b"".join(self._pieces)


class _Frames(asyncio.Queue[Any]):
    """What the connection hands to a channel: frames of the hot path never wait in it."""

    def __init__(self, channel: HotChannel) -> None:
        super().__init__(maxsize=10)
        self._channel = channel

    @override
    async def put(self, item: Any) -> None:
        if not self._channel.take(item[1]):
            await super().put(item)


async def open_channel(connection: Any, *, confirms: bool) -> HotChannel:
    """Return a new channel of the driver's connection."""
    async with connection.last_channel_lock:
        number = next(each for each in _CHANNELS if each not in connection.channels)
        channel = HotChannel(connection, number, confirms=confirms)
        connection.channels[number] = channel
    await channel.open()
    return channel
