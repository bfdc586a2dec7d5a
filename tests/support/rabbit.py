"""A RabbitMQ node of one's own, and a wire to it that can be cut: temporary data, free ports, nothing left behind."""

from __future__ import annotations

import asyncio
import atexit
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from functools import cache
from pathlib import Path
from uuid import uuid4

START_S = 60.0
STOP_S = 30.0
LIBRARY = Path("/usr/lib/rabbitmq/bin")
PROTOCOL = b"AMQP\x00\x00\x09\x01"

# Waits until the tests are over, however they end, and then ends and deletes what they started.
GUARD = """\
read -r _
for group in $(cat "$1/groups"); do kill -KILL "-$group"; done
rm -rf "$1"
"""

CONFIG = """\
listeners.tcp.1 = 127.0.0.1:{port}
loopback_users.guest = true
vm_memory_high_watermark.absolute = 512MB
disk_free_limit.absolute = 32MB
raft.wal_max_size_bytes = 33554432
log.file.level = warning
"""


MAKE_ROOM = """\
Name = <<"{name}">>, All = <<".*">>, By = <<"tests">>,
rabbit_vhost:add(Name, By), rabbit_auth_backend_internal:set_permissions(<<"guest">>, Name, All, All, All, By).
"""

# A dead letter that its target did not confirm is sent again after this long. Three minutes is the default, and a node
# that was killed often needs it: it forwards before all its queues are back.
ADVANCED = "[{rabbit, [{dead_letter_worker_publisher_confirm_timeout, 3000}]}].\n"


class RabbitNode:
    """One private node that a test starts, stops, kills and wipes; its address stays the same."""

    def __init__(self) -> None:
        self._home = Path(tempfile.mkdtemp(prefix="redrive-rabbit-"))
        self._name = f"redrive-{uuid4().hex[:12]}@localhost"
        self.port, self._distribution_port, self._names_port = _free_ports(3)
        self._guard = subprocess.Popen(
            ["/bin/sh", "-c", GUARD, "guard", str(self._home)],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        self._names: subprocess.Popen[bytes] | None = None
        self._server: subprocess.Popen[bytes] | None = None
        self.startup_s = 0.0

    @property
    def url(self) -> str:
        """Return the address for a client."""
        return f"amqp://guest:guest@127.0.0.1:{self.port}/"

    def start(self) -> None:
        """Start the node and return when it takes connections."""
        began = time.monotonic()
        self._write_settings()
        if self._names is None:
            self._names = self._spawn("epmd", "-port", str(self._names_port), log="epmd.log")
        self._server = self._spawn(_script("rabbitmq-server"), log="server.log")
        (self._home / "groups").write_text(f"{self._names.pid} {self._server.pid}")
        self._await_ready(began + START_S)
        self.startup_s = time.monotonic() - began

    def stop(self) -> None:
        """End the node in good order."""
        self._end_server(signal.SIGTERM)

    def kill(self) -> None:
        """End the node as a power cut would end it for its clients."""
        self._end_server(signal.SIGKILL)

    def keep_declarations(self) -> None:
        """Have what was declared written to disk now; a kill within some three seconds would half undo it otherwise."""
        self.control("eval", "mnesia:sync_log().")

    def wipe(self) -> None:
        """Forget all data of the node, which must not be running."""
        assert self._server is None, "the node runs"
        shutil.rmtree(self._home / "data", ignore_errors=True)

    def control(self, *arguments: str) -> str:
        """Run rabbitmqctl against the node and return what it prints."""
        command = [_script("rabbitmqctl"), "-q", "-n", self._name, *arguments]
        done = subprocess.run(command, env=self._environment(), check=True, capture_output=True, text=True, timeout=60)
        return done.stdout

    def remove(self) -> None:
        """End everything that was started and delete what it left."""
        if self._guard.poll() is not None:
            return
        _end(self._names, signal.SIGKILL)
        self._names = None
        self.kill()
        self._guard.communicate()

    def log(self) -> str:
        """Return what the node wrote about itself."""
        return "\n".join(path.read_text(errors="replace") for path in sorted(self._home.glob("**/*.log")))

    def _end_server(self, how: signal.Signals) -> None:
        _end(self._server, how)
        self._server = None
        (self._home / "groups").write_text(str(self._names.pid) if self._names else "")

    def _write_settings(self) -> None:
        (self._home / "rabbitmq.conf").write_text(CONFIG.format(port=self.port))
        (self._home / "advanced.config").write_text(ADVANCED)
        (self._home / "rabbitmq-env.conf").touch()
        (self._home / "enabled_plugins").write_text("[].\n")

    def _environment(self) -> dict[str, str]:
        home = self._home
        inherited = {name: value for name, value in os.environ.items() if not name.startswith(("RABBITMQ_", "ERL_"))}
        return inherited | {
            "HOME": str(home),
            "ERL_EPMD_PORT": str(self._names_port),
            "ERL_EPMD_ADDRESS": "127.0.0.1",
            "RABBITMQ_NODENAME": self._name,
            "RABBITMQ_DIST_PORT": str(self._distribution_port),
            "RABBITMQ_MNESIA_BASE": str(home / "data"),
            "RABBITMQ_LOG_BASE": str(home / "log"),
            "RABBITMQ_CONFIG_FILE": str(home / "rabbitmq.conf"),
            "RABBITMQ_ADVANCED_CONFIG_FILE": str(home / "advanced.config"),
            "RABBITMQ_CONF_ENV_FILE": str(home / "rabbitmq-env.conf"),
            "RABBITMQ_ENABLED_PLUGINS_FILE": str(home / "enabled_plugins"),
            "RABBITMQ_PID_FILE": str(home / "node.pid"),
            # Schedulers that wait for work in a loop would take the processor from everything else here.
            "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": "+sbwt none +sbwtdcpu none +sbwtdio none",
        }

    def _spawn(self, *command: str, log: str) -> subprocess.Popen[bytes]:
        with (self._home / log).open("ab") as out:
            return subprocess.Popen(
                command,
                cwd=self._home,
                env=self._environment(),
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                start_new_session=True,
            )

    def _await_ready(self, deadline: float) -> None:
        assert self._server is not None
        while not _speaks_amqp(self.port):
            if self._server.poll() is not None or time.monotonic() > deadline:
                said = self.log()
                self.kill()
                raise RuntimeError(f"RabbitMQ did not start:\n{said[-4000:]}")
            time.sleep(0.02)


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


def _script(name: str) -> str:
    """Return the script itself; the one on Debian's path changes user and folder."""
    return str(LIBRARY / name) if LIBRARY.is_dir() else name


def _speaks_amqp(port: int) -> bool:
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=2) as wire:
            wire.sendall(PROTOCOL)
            return bool(wire.recv(1))
    except OSError:
        return False


def _end(process: subprocess.Popen[bytes] | None, how: signal.Signals) -> None:
    """End a process that leads a session of its own, and whatever it started there."""
    if process is None:
        return
    try:
        os.killpg(process.pid, how) if how == signal.SIGKILL else process.send_signal(how)
        process.wait(STOP_S)
    except ProcessLookupError:
        pass
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def _free_ports(count: int) -> list[int]:
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    try:
        return [int(each.getsockname()[1]) for each in sockets]
    finally:
        for each in sockets:
            each.close()
