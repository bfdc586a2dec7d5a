"""A server on the loopback that says bytes, in whatever way a test wants them said."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Awaitable, Callable
from types import TracebackType

Say = Callable[[asyncio.StreamWriter], Awaitable[None]]


class RawServer:
    """Reads the head of a request, unless it does not listen, says what the test says, and closes the connection."""

    def __init__(self, say: Say | bytes, *, tls: ssl.SSLContext | None = None, listens: bool = True) -> None:
        self._say = say
        self._listens = listens
        self._tls = tls
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self.heads: list[bytes] = []
        self.names: list[str] = []
        self.port = 0

    @property
    def url(self) -> str:
        """Return the address for a client."""
        return f"http{'s' if self._tls else ''}://127.0.0.1:{self.port}"

    async def __aenter__(self) -> RawServer:
        if self._tls is not None:
            self._tls.sni_callback = lambda _, name, __: self.names.append(name)
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0, ssl=self._tls)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._server is not None
        self._server.close()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._server.wait_closed()

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.create_task(self._serve(reader, writer))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            if self._listens:
                self.heads.append(await reader.readuntil(b"\r\n\r\n"))
            if isinstance(self._say, bytes):
                writer.write(self._say)
            else:
                await self._say(writer)
            await writer.drain()
        except (OSError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()
