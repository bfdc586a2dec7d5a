"""One connection to RabbitMQ that is made again, with growing pauses, whenever it is lost."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import aiormq
from aio_pika import Connection
from aio_pika.connection import make_url
from aio_pika.exceptions import CONNECTION_EXCEPTIONS

from shared.broker.rabbit_channel import HotChannel, open_channel
from shared.errors import UnavailableError

log = logging.getLogger("redrive.broker")

# What a driver raises when the other side is gone, in any of the ways it says so.
FAILURES: tuple[type[BaseException], ...] = (*CONNECTION_EXCEPTIONS, TimeoutError)

Prepare = Callable[[aiormq.Channel], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class RabbitSettings:
    """Where RabbitMQ is, and how long to bear with it."""

    url: str
    name: str = "redrive"
    heartbeat_s: int = 10
    connect_timeout_s: float = 10.0
    patience_s: float = 5.0
    confirm_timeout_s: float = 30.0
    max_in_flight: int = 1000
    first_pause_s: float = 0.05
    longest_pause_s: float = 5.0


class Link:
    """A connection by name; `prepare` runs on each new one before anybody gets it."""

    def __init__(self, settings: RabbitSettings, purpose: str, prepare: Prepare) -> None:
        self._settings = settings
        self._purpose = purpose
        self._prepare = prepare
        self._connection: Connection | None = None
        self._is_up = asyncio.Event()
        self._keeper: asyncio.Task[None] | None = None

    async def open(self) -> None:
        """Connect for the first time; from then on the link looks after itself."""
        try:
            connection, lost = await self._connect()
        except FAILURES as failure:
            raise UnavailableError(f"RabbitMQ cannot be reached: {failure!r}") from failure
        self._keeper = asyncio.create_task(self._keep(connection, lost), name=f"link:{self._purpose}")

    async def channel(self, *, confirms: bool = False) -> HotChannel:
        """Return a new channel of the connection, waiting a while if it is just being made again."""
        try:
            async with asyncio.timeout(self._settings.patience_s):
                return await self._channel(confirms)
        except TimeoutError as failure:
            raise UnavailableError(f"RabbitMQ was away for {self._settings.patience_s} s") from failure

    @property
    def is_blocked(self) -> bool:
        """Say whether the broker asked this connection not to publish."""
        transport = self._connection.transport if self._connection else None
        return transport is not None and _would_wait(transport.connection.ready())

    async def unblocked(self) -> None:
        """Return when the broker lets this connection publish, or when the connection is gone."""
        transport = self._connection.transport if self._connection else None
        if transport is None or not self.is_blocked:
            return
        ready = asyncio.ensure_future(transport.connection.ready())
        gone = transport.connection.closing
        try:
            await asyncio.wait((ready, gone), return_when=asyncio.FIRST_COMPLETED)
        finally:
            ready.cancel()
            gone.cancel()

    async def drop(self) -> None:
        """Give up the present connection, so that a fresh one is made."""
        if self._connection is not None and self._connection.transport is not None:
            with suppress(*FAILURES):
                await self._connection.transport.connection.close(ConnectionError("given up"))

    async def close(self) -> None:
        """End the connection and the keeping of it."""
        if self._keeper is not None:
            self._keeper.cancel()
            await asyncio.wait([self._keeper])
        connection, self._connection = self._connection, None
        self._is_up.set()
        if connection is not None:
            await _close(connection)

    async def _channel(self, confirms: bool) -> HotChannel:
        while True:
            await self._is_up.wait()
            if self._connection is None:
                raise UnavailableError("the connection to RabbitMQ was closed")
            # A connection may be lost before that is known here; what follows then finds the next one.
            with suppress(*FAILURES):
                return await _channel(self._connection, confirms)
            await asyncio.sleep(self._settings.first_pause_s)

    async def _keep(self, connection: Connection, lost: asyncio.Event) -> None:
        while True:
            self._connection = connection
            self._is_up.set()
            await lost.wait()
            self._is_up.clear()
            log.warning("connection lost", extra={"purpose": self._purpose})
            await _close(connection)
            connection, lost = await self._connect_again()
            log.info("connection made again", extra={"purpose": self._purpose})

    async def _connect_again(self) -> tuple[Connection, asyncio.Event]:
        pause_s = self._settings.first_pause_s
        while True:
            await asyncio.sleep(pause_s * random.uniform(0.5, 1.0))
            try:
                return await self._connect()
            except FAILURES as failure:
                log.warning("connection refused", extra={"purpose": self._purpose, "reason": repr(failure)})
            pause_s = min(pause_s * 2, self._settings.longest_pause_s)

    async def _connect(self) -> tuple[Connection, asyncio.Event]:
        settings = self._settings
        name = f"{settings.name} {self._purpose}"
        connection = Connection(make_url(settings.url, heartbeat=settings.heartbeat_s, name=name))
        lost = asyncio.Event()
        connection.close_callbacks.add(lambda *_: lost.set())
        try:
            async with asyncio.timeout(settings.connect_timeout_s):
                await connection.connect()
                channel = await _channel(connection, confirms=False)
            await self._prepare(channel)
            await channel.close()
        except BaseException:
            await _close(connection)
            raise
        return connection, lost


async def _channel(connection: Connection, confirms: bool) -> HotChannel:
    transport = connection.transport
    if transport is None:
        raise ConnectionError("the connection is not open")
    return await open_channel(transport.connection, confirms=confirms)


async def _close(connection: Connection) -> None:
    # Closing is cut short too when the other side does not answer.
    with suppress(*FAILURES):
        async with asyncio.timeout(5):
            await connection.close()


def _would_wait(coroutine: Coroutine[Any, Any, Any]) -> bool:
    """Say whether awaiting it now would suspend: the driver tells of a block only to those who wait for its end."""
    try:
        coroutine.send(None)
    except StopIteration:
        return False
    coroutine.close()
    return True
