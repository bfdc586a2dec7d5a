"""Messages to brokers outside: connections by address, so many and no more, each closed when nobody uses it."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, cast

import aiormq
from aio_pika import Connection
from aio_pika.abc import AbstractChannel
from aio_pika.connection import make_url
from aiormq import spec

from shared.broker.rabbit_link import FAILURES

MAX_CONNECTIONS = 16
IDLE_S = 60.0
CONNECT_S = 10.0
CLOSE_S = 5.0
HEARTBEAT_S = 10
PERSISTENT = 2


@dataclass(frozen=True, slots=True)
class Post:
    """A message: where it goes, what it is, and what marks it however often it is sent."""

    exchange: str
    routing_key: str
    body: bytes
    message_id: str
    content_type: str | None = None
    headers: dict[str, Any] = field(default_factory=dict)

    def properties(self) -> spec.Basic.Properties:
        """Return what goes before the body."""
        return spec.Basic.Properties(
            content_type=self.content_type,
            headers=dict(self.headers),
            delivery_mode=PERSISTENT,
            message_id=self.message_id,
        )


@dataclass(slots=True, eq=False)
class _Held:
    """A connection, made when it is first needed and again when it was lost."""

    connecting: asyncio.Lock = field(default_factory=asyncio.Lock)
    connection: Connection | None = None
    is_lost: bool = False
    users: int = 0
    ending: asyncio.TimerHandle | None = None


class Publishing:
    """Publishes messages to brokers by their address; one connection for each, one channel for each message."""

    def __init__(self, *, max_connections: int = MAX_CONNECTIONS, idle_s: float = IDLE_S) -> None:
        self._max = max_connections
        self._idle_s = idle_s
        self._held: OrderedDict[str, _Held] = OrderedDict()
        self._released = asyncio.Event()
        self._closing: set[asyncio.Task[None]] = set()

    @property
    def connections(self) -> int:
        """Return how many connections are held."""
        return len(self._held)

    async def publish(self, url: str, post: Post) -> None:
        """Return when the broker has the message in a queue; raises what the driver raises, and PublishError if none.

        A channel of its own, because the broker closes the channel of a message that it refuses.
        """
        async with self._using(url) as held:
            connection = await _connected(held, url)
            channel = connection.channel(publisher_confirms=True, on_return_raises=True)
            try:
                await channel.initialize()
                wire = cast("aiormq.Channel", await channel.get_underlay_channel())
                await wire.basic_publish(
                    post.body,
                    exchange=post.exchange,
                    routing_key=post.routing_key,
                    properties=post.properties(),
                    mandatory=True,
                )
            finally:
                if channel.is_initialized:
                    await _closed(channel)

    async def close(self) -> None:
        """Close every connection."""
        while self._held:
            _, held = self._held.popitem()
            self._end(held)
        await asyncio.gather(*self._closing)

    @asynccontextmanager
    async def _using(self, url: str) -> AsyncIterator[_Held]:
        held = await self._taken(url)
        try:
            yield held
        finally:
            held.users -= 1
            if held.users == 0:
                held.ending = asyncio.get_running_loop().call_later(self._idle_s, self._end_idle, url, held)
                self._released.set()

    async def _taken(self, url: str) -> _Held:
        """Return the place of an address, waiting until there is one."""
        while url not in self._held and len(self._held) >= self._max:
            idle = next((each for each, held in self._held.items() if held.users == 0), None)
            if idle is None:
                self._released.clear()
                await self._released.wait()
            else:
                self._end(self._held.pop(idle))
        held = self._held.setdefault(url, _Held())
        held.users += 1
        self._held.move_to_end(url)
        if held.ending is not None:
            held.ending.cancel()
            held.ending = None
        return held

    def _end_idle(self, url: str, held: _Held) -> None:
        if held.users == 0 and self._held.get(url) is held:
            self._end(self._held.pop(url))

    def _end(self, held: _Held) -> None:
        if held.ending is not None:
            held.ending.cancel()
        if held.connection is not None:
            task = asyncio.create_task(_closed(held.connection))
            self._closing.add(task)
            task.add_done_callback(self._closing.discard)


async def _connected(held: _Held, url: str) -> Connection:
    async with held.connecting:
        if held.connection is not None and not held.is_lost:
            return held.connection
        if held.connection is not None:
            await _closed(held.connection)
            held.connection = None
        connection = Connection(make_url(url, heartbeat=HEARTBEAT_S, name="redrive tool"))
        try:
            async with asyncio.timeout(CONNECT_S):
                await connection.connect()
        except BaseException:
            await _closed(connection)
            raise
        held.connection, held.is_lost = connection, False
        connection.close_callbacks.add(lambda *_: setattr(held, "is_lost", True))
        return connection


async def _closed(connection: Connection | AbstractChannel) -> None:
    # Closing is cut short too when the other side does not answer.
    with suppress(*FAILURES):
        async with asyncio.timeout(CLOSE_S):
            await connection.close()
