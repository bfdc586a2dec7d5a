"""A RabbitMQ node of one's own, and a wire to it that can be cut: temporary data, free ports, nothing left behind."""

from __future__ import annotations

import asyncio
import atexit
import shutil
import tempfile
from functools import cache
from pathlib import Path
from uuid import uuid4

from shared.runtime.embedded_rabbit import PrivateRabbit

MAKE_ROOM = """\
Name = <<"{name}">>, All = <<".*">>, By = <<"tests">>,
rabbit_vhost:add(Name, By), rabbit_auth_backend_internal:set_permissions(<<"guest">>, Name, All, All, All, By).
"""


class RabbitNode:
    """One private node that a test starts, stops, kills and wipes; its address stays the same."""

    def __init__(self) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="redrive-rabbit-"))
        self._node = PrivateRabbit(self._folder)
        self.port = self._node.port
        self.start, self.stop, self.kill = self._node.start, self._node.stop, self._node.kill
        self.control = self._node.control

    @property
    def url(self) -> str:
        """Return the address for a client."""
        return f"amqp://guest:guest@127.0.0.1:{self.port}/"

    @property
    def pid(self) -> int | None:
        """Return the number of the server's process, if it runs."""
        return self._node.pids.get("rabbitmq")

    def keep_declarations(self) -> None:
        """Have what was declared written to disk now; a kill within some three seconds would half undo it otherwise."""
        self.control("eval", "mnesia:sync_log().")

    def wipe(self) -> None:
        """Forget all data of the node, which must not be running."""
        assert not self._node.is_running, "the node runs"
        shutil.rmtree(self._folder / "data", ignore_errors=True)

    def remove(self) -> None:
        """End everything that was started and delete what it left."""
        self.kill()
        self.stop()
        shutil.rmtree(self._folder, ignore_errors=True)

    def log(self) -> str:
        """Return what the node wrote about itself."""
        return "\n".join(path.read_text(errors="replace") for path in sorted(self._folder.glob("**/*.log")))


class Wire:
    """A port that leads to a node, until it is cut or frozen."""

    def __init__(self, node: RabbitNode) -> None:
        self._node = node
        self._server: asyncio.Server | None = None
        self._ends: set[asyncio.StreamWriter] = set()
        self._flows = asyncio.Event()
        self._flows.set()
        self._left: int | None = None

    @property
    def url(self) -> str:
        """Return the address for a client."""
        assert self._server is not None
        return f"amqp://guest:guest@127.0.0.1:{self._server.sockets[0].getsockname()[1]}/"

    async def __aenter__(self) -> Wire:
        self._server = await asyncio.start_server(self._join, "127.0.0.1", 0)
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._server is not None
        self._server.close()
        self._flows.set()
        self.cut()

    def cut(self) -> None:
        """Break every connection, with whatever is on the way."""
        for end in tuple(self._ends):
            end.transport.abort()

    def cut_after(self, size: int) -> None:
        """Break every connection once so many more bytes have gone either way."""
        self._left = size

    def freeze(self) -> None:
        """Let nothing through any more, without a word."""
        self._flows.clear()

    def thaw(self) -> None:
        """Let everything through again."""
        self._flows.set()

    async def _join(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            there, back = await asyncio.open_connection("127.0.0.1", self._node.port)
        except OSError:
            writer.transport.abort()
            return
        self._ends |= {writer, back}
        try:
            await asyncio.gather(self._carry(reader, back), self._carry(there, writer), return_exceptions=True)
        finally:
            self._ends -= {writer, back}

    def _count(self, size: int) -> None:
        if self._left is None:
            return
        self._left -= size
        if self._left <= 0:
            self._left = None
            self.cut()

    async def _carry(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        try:
            while data := await source.read(65536):
                await self._flows.wait()
                self._count(len(data))
                sink.write(data)
                await sink.drain()
        except OSError:
            pass
        finally:
            sink.close()


class Room:
    """A part of the shared node for one module: its own queues, under an address of its own."""

    def __init__(self) -> None:
        self._node = shared_node()
        self._name = f"room-{uuid4().hex[:12]}"
        self._node.control("eval", MAKE_ROOM.format(name=self._name))

    @property
    def url(self) -> str:
        """Return the address for a client."""
        return f"{self._node.url}{self._name}"

    def control(self, *arguments: str) -> str:
        """Run rabbitmqctl against this part of the node and return what it prints."""
        return self._node.control(*arguments, "-p", self._name)

    def log(self) -> str:
        """Return what the node wrote about itself."""
        return self._node.log()


@cache
def shared_node() -> RabbitNode:
    """Return the node that the tests of this process have in common, started at first use."""
    return new_node()


def new_node() -> RabbitNode:
    """Return a started node that ends with this process at the latest."""
    node = RabbitNode()
    atexit.register(node.remove)
    node.start()
    return node
