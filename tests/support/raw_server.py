"""A server on the loopback that says bytes, in whatever way a test wants them said."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Awaitable, Callable
from typing import Self

from typing_extensions import override

from tests.support.loopback import LoopbackServer

Say = Callable[[asyncio.StreamWriter], Awaitable[None]]


class RawServer(LoopbackServer):
    """Reads the head of a request, unless it does not listen, says what the test says, and closes the connection."""

    def __init__(self, say: Say | bytes, *, tls: ssl.SSLContext | None = None, listens: bool = True) -> None:
        super().__init__(tls)
        self._say = say
        self._listens = listens
        self.heads: list[bytes] = []
        self.names: list[str] = []

    @override
    async def __aenter__(self) -> Self:
        if self._tls is not None:
            self._tls.sni_callback = lambda _, name, __: self.names.append(name)
        return await super().__aenter__()

    @override
    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._listens:
            self.heads.append(await reader.readuntil(b"\r\n\r\n"))
        if isinstance(self._say, bytes):
            writer.write(self._say)
        else:
            await self._say(writer)
        await writer.drain()
