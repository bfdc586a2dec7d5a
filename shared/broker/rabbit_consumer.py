"""Consuming from RabbitMQ: deliveries gathered as they come, handed over in lists, resumed after a loss."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import Awaitable, Iterable
from contextlib import suppress

from aio_pika.exceptions import ChannelNotFoundEntity
from aiormq.abc import DeliveredMessage
from pamqp import commands as spec
from pamqp.header import ContentHeader
from typing_extensions import override

from shared.broker import rabbit_wire as wire
from shared.broker.port import Consumer, Delivery
from shared.broker.rabbit_channel import HotChannel
from shared.broker.rabbit_link import FAILURES, Link, RabbitSettings
from shared.errors import RejectedError, UnavailableError

log = logging.getLogger("redrive.broker")

# A channel counts its deliveries from one. A tag of ours counts channels above that, so that one of a lost channel is
# never taken for one of the present channel, and later is always greater.
_DELIVERIES_OF_A_CHANNEL = 1 << 40

LOSSES: tuple[type[BaseException], ...] = (UnavailableError, *FAILURES)


class RabbitConsumer(Consumer):
    """One channel at a time; when it is lost, what it had delivered is forgotten, for it will come again."""

    def __init__(self, link: Link, queue: str, prefetch: int, settings: RabbitSettings) -> None:
        self._link = link
        self._queue = queue
        self._prefetch = prefetch
        self._settings = settings
        self._channel: HotChannel | None = None
        self._generation = 0
        self._lost = asyncio.Event()
        self._buffer: deque[Delivery] = deque()
        self._news = asyncio.Event()
        self._outstanding: dict[int, None] = {}
        self._keeper: asyncio.Task[None] | None = None
        self._is_stopped = False
        self._is_closed = False

    async def open(self) -> None:
        """Begin to consume; from then on the consumer looks after itself."""
        try:
            await self._attach()
        except ChannelNotFoundEntity as missing:
            raise RejectedError(f"there is no queue {self._queue}") from missing
        except FAILURES as failure:
            raise UnavailableError(f"RabbitMQ cannot be reached: {failure!r}") from failure
        self._keeper = asyncio.create_task(self._keep(), name=f"consumer:{self._queue}")

    @property
    def is_closed(self) -> bool:
        """Say whether it was closed."""
        return self._is_closed

    @override
    async def receive(self, limit: int, wait_s: float) -> list[Delivery]:
        if self._is_closed:
            raise RuntimeError("the consumer is closed")
        await self._arrival(wait_s)
        taken = [self._buffer.popleft() for _ in range(min(limit, len(self._buffer)))]
        self._outstanding.update((delivery.tag, None) for delivery in taken)
        return taken

    @override
    async def ack(self, tags: Iterable[int]) -> None:
        ours = [tag for tag in sorted(set(tags)) if tag in self._outstanding]
        if not ours:
            return
        if all(ours[index] == tag for index, tag in zip(range(len(ours)), self._outstanding, strict=False)):
            await self.ack_up_to(ours[-1])
            return
        self._settle(ours)
        await self._tell(b"".join(wire.ack(self._number, _wire_tag(tag)) for tag in ours))

    @override
    async def ack_up_to(self, tag: int) -> None:
        ours = [each for each in self._outstanding if each <= tag]
        if not ours or self._channel is None:
            return
        self._settle(ours)
        await self._tell(wire.ack(self._channel.number, _wire_tag(ours[-1]), multiple=True))

    @override
    async def reject(self, tags: Iterable[int], *, requeue: bool) -> None:
        ours = [tag for tag in sorted(set(tags)) if tag in self._outstanding]
        self._settle(ours)
        await self._put_away(ours, requeue=requeue)

    @override
    async def stop(self) -> None:
        if self._is_stopped:
            return
        self._is_stopped = True
        self._news.set()
        if self._channel is not None:
            await self._while_attached(self._cancel())
            back = [delivery.tag for delivery in self._buffer]
            self._buffer.clear()
            await self._put_away(back, requeue=True)

    @override
    async def close(self) -> None:
        self._is_stopped = self._is_closed = True
        self._news.set()
        if self._keeper is not None:
            self._keeper.cancel()
            await asyncio.wait([self._keeper])
        await self._detach()

    async def _keep(self) -> None:
        pause_s = self._settings.first_pause_s
        while True:
            await self._lost.wait()
            self._forget()
            if self._is_stopped:
                return
            log.warning("consumer lost its channel", extra={"queue": self._queue})
            try:
                await self._attach()
                pause_s = self._settings.first_pause_s
            except LOSSES as failure:
                log.warning("consumer not resumed", extra={"queue": self._queue, "reason": repr(failure)})
                await asyncio.sleep(pause_s)
                pause_s = min(pause_s * 2, self._settings.longest_pause_s)

    async def _attach(self) -> None:
        self._lost = lost = asyncio.Event()
        # Still lost, should what follows fail.
        lost.set()
        channel = await self._link.channel()
        generation = self._generation = self._generation + 1
        self._channel = channel
        lost.clear()
        channel.closing.add_done_callback(lambda _: lost.set())
        channel.on_consumer_cancel_callbacks.add(lambda _: lost.set())

        def arrived(frame: spec.Basic.Deliver, header: ContentHeader, body: bytes) -> None:
            if generation == self._generation and not lost.is_set():
                self._buffer.append(_delivery(generation, frame, header, body))
                self._news.set()

        channel.arrived = arrived
        try:
            async with asyncio.timeout(self._settings.connect_timeout_s):
                await channel.basic_qos(prefetch_count=self._prefetch)
                await channel.basic_consume(self._queue, _unused, consumer_tag=self._queue)
        except BaseException:
            lost.set()
            await self._detach()
            raise
        if self._is_stopped:
            await self._detach()

    async def _arrival(self, wait_s: float) -> None:
        """Return when something is there, when nothing more will come, or when the wait is over."""
        deadline = time.monotonic() + wait_s
        while not self._buffer and not self._is_stopped:
            left_s = deadline - time.monotonic()
            self._news.clear()
            if left_s <= 0:
                # A caller that asks again and again without waiting must not keep deliveries from coming in.
                await asyncio.sleep(0)
                return
            with suppress(TimeoutError):
                async with asyncio.timeout(left_s):
                    await self._news.wait()

    def _settle(self, tags: Iterable[int]) -> None:
        for tag in tags:
            del self._outstanding[tag]

    def _forget(self) -> None:
        self._buffer.clear()
        self._outstanding.clear()
        self._channel = None

    @property
    def _number(self) -> int:
        return self._channel.number if self._channel is not None else 0

    async def _put_away(self, tags: Iterable[int], *, requeue: bool) -> None:
        await self._tell(b"".join(wire.reject(self._number, _wire_tag(tag), requeue=requeue) for tag in tags))

    async def _tell(self, block: bytes) -> None:
        """Have the broker told, unless the channel is lost: then it delivers again, whatever it was told."""
        if block and self._channel is not None:
            with suppress(UnavailableError):
                await self._channel.put(block)

    async def _cancel(self) -> None:
        if (channel := self._channel) is not None:
            await channel.basic_cancel(self._queue)

    async def _detach(self) -> None:
        channel = self._channel
        self._forget()
        if channel is not None and not channel.is_closed:
            with suppress(*FAILURES):
                async with asyncio.timeout(self._settings.patience_s):
                    await channel.close()

    async def _while_attached(self, work: Awaitable[None]) -> None:
        """Do it unless the channel is lost meanwhile: then the broker delivers again, whatever it was told."""
        doing = asyncio.ensure_future(work)
        losing = asyncio.ensure_future(self._lost.wait())
        try:
            await asyncio.wait((doing, losing), return_when=asyncio.FIRST_COMPLETED)
            if doing.done():
                with suppress(*FAILURES):
                    doing.result()
        finally:
            doing.cancel()
            losing.cancel()


async def _unused(message: DeliveredMessage) -> None:
    """Stand where the driver wants a callback: deliveries are taken from the channel beneath."""


def _delivery(generation: int, frame: spec.Basic.Deliver, header: ContentHeader, body: bytes) -> Delivery:
    properties = header.properties
    headers = properties.headers or {}
    count = headers.get("x-delivery-count", 0)
    return Delivery(
        body=body,
        tag=generation * _DELIVERIES_OF_A_CHANNEL + (frame.delivery_tag or 0),
        message_id=properties.message_id or "",
        headers={name: value for name, value in headers.items() if isinstance(value, str)},
        exchange=frame.exchange,
        routing_key=frame.routing_key or "",
        redelivered=bool(frame.redelivered),
        delivery_count=count if isinstance(count, int) else 0,
    )


def _wire_tag(tag: int) -> int:
    return tag % _DELIVERIES_OF_A_CHANNEL
