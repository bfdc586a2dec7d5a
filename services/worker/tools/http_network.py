"""Connections of HTTP calls: the name resolved once, the addresses checked, and exactly those connected to."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, TypeAlias

import httpcore
from typing_extensions import override

from services.worker.tools.http_guard import Guard

HEAD_START_S = 0.25
MAX_ADDRESSES = 8

Resolve = Callable[[str, int], Awaitable[Sequence[str]]]
SocketOptions: TypeAlias = Iterable[
    tuple[int, int, int] | tuple[int, int, bytes | bytearray] | tuple[int, int, None, int]
]


class TooMuchReceivedError(Exception):
    """The other side sends more than it could need for what was asked."""


@dataclass(slots=True)
class Allowance:
    """How many bytes may still be received for one call, however they are packed or framed."""

    left: int

    def spend(self, size: int) -> None:
        """Count what was received; raises TooMuchReceivedError."""
        self.left -= size
        if self.left < 0:
            raise TooMuchReceivedError


allowance: ContextVar[Allowance | None] = ContextVar("allowance", default=None)
"""The allowance of the call that is under way in this context."""


async def resolved(host: str, port: int) -> Sequence[str]:
    """Return the addresses of a name, or of an address in whatever form; raises OSError."""
    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(entry[4][0]) for entry in found))


class GuardedNetwork(httpcore.AsyncNetworkBackend):
    """Connects only to addresses that the guard permits, and measures what comes in."""

    def __init__(self, guard: Guard, resolve: Resolve = resolved) -> None:
        self._guard = guard
        self._resolve = resolve
        self._sockets = httpcore.AnyIOBackend()

    @override
    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: SocketOptions | None = None,
    ) -> httpcore.AsyncNetworkStream:
        limit = asyncio.timeout(timeout)
        try:
            async with limit:
                addresses = self._guard.permitted(host, await self._resolve(host, port))
                return _Measured(await self._first(addresses[:MAX_ADDRESSES], port))
        except TimeoutError as problem:
            raise httpcore.ConnectTimeout(str(problem)) from problem
        except (OSError, UnicodeError) as problem:
            raise httpcore.ConnectError(f"the name cannot be resolved: {problem}") from None

    @override
    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    async def _first(self, addresses: Sequence[str], port: int) -> httpcore.AsyncNetworkStream:
        """Return the first connection that stands; each address has a head start over the next."""
        waiting = list(addresses)
        running: set[asyncio.Task[httpcore.AsyncNetworkStream]] = set()
        problem: BaseException | None = None
        try:
            while waiting or running:
                if waiting:
                    running.add(asyncio.create_task(self._sockets.connect_tcp(waiting.pop(0), port)))
                patience_s = HEAD_START_S if waiting else None
                done, running = await asyncio.wait(running, timeout=patience_s, return_when=asyncio.FIRST_COMPLETED)
                while done:
                    task = done.pop()
                    problem = task.exception()
                    if problem is None:
                        running |= done
                        return task.result()
        finally:
            await _abandon(running)
        raise problem or httpcore.ConnectError("the name has no address")


class _Measured(httpcore.AsyncNetworkStream):
    """A connection whose every byte is counted against the allowance of the call."""

    def __init__(self, stream: httpcore.AsyncNetworkStream) -> None:
        self._stream = stream

    @override
    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        data = await self._stream.read(max_bytes, timeout)
        left = allowance.get()
        if left is not None:
            left.spend(len(data))
        return data

    @override
    async def write(self, buffer: bytes, timeout: float | None = None) -> None:
        await self._stream.write(buffer, timeout)

    @override
    async def aclose(self) -> None:
        await self._stream.aclose()

    @override
    async def start_tls(
        self, ssl_context: ssl.SSLContext, server_hostname: str | None = None, timeout: float | None = None
    ) -> httpcore.AsyncNetworkStream:
        return _Measured(await self._stream.start_tls(ssl_context, server_hostname, timeout))

    @override
    def get_extra_info(self, info: str) -> Any:
        return self._stream.get_extra_info(info)


async def _abandon(tasks: set[asyncio.Task[httpcore.AsyncNetworkStream]]) -> None:
    """End attempts that came too late, and close what they connected to."""
    for task in tasks:
        task.cancel()
    for found in await asyncio.gather(*tasks, return_exceptions=True):
        if not isinstance(found, BaseException):
            await found.aclose()
