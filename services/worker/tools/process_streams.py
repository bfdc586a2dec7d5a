"""Pipes to and from a process: what it reads is fed, what it says is heard, and only so much of it is kept."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable

from typing_extensions import override


class Tail:
    """The end of what a stream said, and how much it said."""

    def __init__(self, keeps: int) -> None:
        self._keeps = keeps
        self._kept = bytearray()
        self.size = 0

    def add(self, piece: bytes) -> None:
        """Take note of what was said."""
        self._kept += piece
        self.size += len(piece)
        if len(self._kept) > 2 * self._keeps:
            del self._kept[: -self._keeps]

    @property
    def data(self) -> bytes:
        """Return the end as it was said."""
        return bytes(self._kept[-self._keeps :])

    @property
    def text(self) -> str:
        """Return the end as text, marked if there was more."""
        return self.last(self._keeps)

    def last(self, size: int) -> str:
        """Return so much of the end as text, marked if there was more."""
        data = bytes(self._kept[-min(size, self._keeps) :])
        shown = data.decode("utf-8", "replace")
        return f"… {shown}" if self.size > len(data) else shown


class Stream(asyncio.Protocol):
    """Hears a pipe until it ends."""

    def __init__(self, tail: Tail, heard: Callable[[], None]) -> None:
        self._tail = tail
        self._heard = heard
        self._transport: asyncio.ReadTransport
        self.ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    @classmethod
    async def of(cls, fd: int, tail: Tail, heard: Callable[[], None]) -> Stream:
        """Return the stream that adds to a tail what comes from a descriptor, and says so."""
        loop = asyncio.get_running_loop()
        stream = cls(tail, heard)
        stream._transport, _ = await loop.connect_read_pipe(lambda: stream, os.fdopen(fd, "rb", buffering=0))
        return stream

    @override
    def data_received(self, data: bytes) -> None:
        self._tail.add(data)
        self._heard()

    @override
    def connection_lost(self, exc: Exception | None) -> None:
        if not self.ended.done():
            self.ended.set_result(None)

    def close(self) -> None:
        """Hear no more."""
        self._transport.close()


class Feed(asyncio.BaseProtocol):
    """Writes to a pipe what a process reads, as fast as it does."""

    def __init__(self) -> None:
        self._transport: asyncio.WriteTransport
        self._is_over = False

    @classmethod
    async def to(cls, fd: int, data: bytes) -> Feed:
        """Return what feeds data to a descriptor and then ends it."""
        loop = asyncio.get_running_loop()
        feed = cls()
        feed._transport, _ = await loop.connect_write_pipe(lambda: feed, os.fdopen(fd, "wb", buffering=0))
        feed._transport.write(data)
        feed._transport.write_eof()
        return feed

    @override
    def connection_lost(self, exc: Exception | None) -> None:
        self._is_over = True

    def close(self) -> None:
        """Write no more."""
        if not self._is_over:
            self._transport.abort()
