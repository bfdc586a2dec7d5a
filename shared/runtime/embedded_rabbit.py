"""A private RabbitMQ: the server that is installed here, as a node of its own on the loopback, in a folder."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from shared.errors import UnavailableError
from shared.runtime.guarded import Guarded

HOST = "127.0.0.1"
NODE = "redrive@localhost"
# The scripts themselves; those on Debian's path change user and folder.
LIBRARY = Path("/usr/lib/rabbitmq/bin")
NAME_SERVER = "epmd"
STOP_S = 30.0
START_S = 60.0
CONTROL_S = 60.0
LOOK_AGAIN_S = 0.02

CONF = """\
loopback_users.guest = true
vm_memory_high_watermark.absolute = 512MB
disk_free_limit.absolute = 64MB
raft.wal_max_size_bytes = 33554432
log.file.level = warning
"""
# A dead letter that its target did not confirm is sent again after this long. Three minutes is the default, and a node
# that was killed often needs it: it forwards before all its queues are back.
ADVANCED = "[{rabbit, [{dead_letter_worker_publisher_confirm_timeout, 3000}]}].\n"
# Schedulers that wait for work in a loop would take the processor from everything else; and other nodes, which are on
# the loopback if they are anywhere, are listened for there alone.
ERLANG_ARGUMENTS = "+sbwt none +sbwtdcpu none +sbwtdio none -kernel inet_dist_use_interface {127,0,0,1}"

_PROTOCOL = b"AMQP\x00\x00\x09\x01"


@dataclass(frozen=True, slots=True)
class NodeFiles:
    """What a node is told by its files; where it listens is not among it."""

    conf: str = CONF
    advanced: str = ADVANCED
    plugins: str = "[].\n"


class PrivateRabbit:
    """One node over one folder; it keeps its data there and ends with the process that started it."""

    def __init__(self, folder: Path, *, files: NodeFiles | None = None, port: int | None = None) -> None:
        self._home = folder.absolute()
        self._files = files or NodeFiles()
        self.port, self._distribution_port, self._names_port = free_ports(3)
        if port is not None:
            self.port = port
        self._names: Guarded | None = None
        self._server: Guarded | None = None

    def url(self, user: str = "guest", password: str = "guest", vhost: str = "/") -> str:
        """Return where a client finds the node."""
        return f"amqp://{quote(user, safe='')}:{quote(password, safe='')}@{HOST}:{self.port}/{quote(vhost, safe='')}"

    @property
    def is_running(self) -> bool:
        """Say whether the node was started and has not ended."""
        return self._server is not None and self._server.exit_code is None

    @property
    def pids(self) -> dict[str, int]:
        """Return the numbers of the processes, as far as they are known."""
        found = {"rabbitmq": self._server, NAME_SERVER: self._names}
        return {name: each.pid for name, each in found.items() if each is not None and each.pid is not None}

    def start(self) -> None:
        """Start the node and return when it takes connections; raises UnavailableError."""
        server = _program("rabbitmq-server")
        self._write_files()
        try:
            if self._names is None:
                self._names = self._spawn(NAME_SERVER, [_program(NAME_SERVER), "-port", str(self._names_port)])
            self._server = self._spawn("rabbitmq", [server])
            self._await_ready(time.monotonic() + START_S)
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """End the node in good order; nothing happens if it does not run."""
        server, self._server = self._server, None
        if server is not None:
            server.stop(within_s=STOP_S)
        names, self._names = self._names, None
        if names is not None:
            names.stop(within_s=STOP_S)

    def kill(self) -> None:
        """End the node as a power cut would; its data stays, and `start` takes it up again."""
        server, self._server = self._server, None
        if server is not None:
            server.kill()

    def control(self, *arguments: str) -> str:
        """Run rabbitmqctl against the node and return what it prints; raises UnavailableError."""
        command = [_program("rabbitmqctl"), "-q", "-n", NODE, *arguments]
        done = subprocess.run(
            command, env=self._environment(), capture_output=True, text=True, timeout=CONTROL_S, check=False
        )
        if done.returncode != 0:
            raise UnavailableError(f"rabbitmqctl {arguments[0]}: {(done.stderr or done.stdout).strip()}")
        return done.stdout

    def log(self) -> str:
        """Return the end of what the node said."""
        paths = sorted([*self._home.glob("*.log"), *(self._home / "log").glob("*.log")])
        return "\n".join(path.read_text(encoding="utf-8", errors="replace")[-4000:] for path in paths)

    def _spawn(self, name: str, command: list[str]) -> Guarded:
        home = self._home
        return Guarded(
            command, environment=self._environment(), cwd=home, log=home / f"{name}.log", pid_file=home / f"{name}.pid"
        )

    def _write_files(self) -> None:
        self._home.mkdir(parents=True, exist_ok=True)
        # The last word of a setting counts, so that nothing of the files can open another port.
        conf = f"{self._files.conf}\nlisteners.tcp.default = {HOST}:{self.port}\n"
        for name, text in (
            ("rabbitmq.conf", conf),
            ("advanced.config", self._files.advanced),
            ("rabbitmq-env.conf", ""),
            ("enabled_plugins", self._files.plugins),
        ):
            (self._home / name).write_text(text, encoding="utf-8")

    def _environment(self) -> dict[str, str]:
        home = self._home
        inherited = {name: value for name, value in os.environ.items() if not name.startswith(("RABBITMQ_", "ERL_"))}
        return inherited | {
            "HOME": str(home),
            "ERL_EPMD_PORT": str(self._names_port),
            "ERL_EPMD_ADDRESS": HOST,
            "RABBITMQ_NODENAME": NODE,
            "RABBITMQ_DIST_PORT": str(self._distribution_port),
            "RABBITMQ_MNESIA_BASE": str(home / "data"),
            "RABBITMQ_LOG_BASE": str(home / "log"),
            "RABBITMQ_CONFIG_FILE": str(home / "rabbitmq.conf"),
            "RABBITMQ_ADVANCED_CONFIG_FILE": str(home / "advanced.config"),
            "RABBITMQ_CONF_ENV_FILE": str(home / "rabbitmq-env.conf"),
            "RABBITMQ_ENABLED_PLUGINS_FILE": str(home / "enabled_plugins"),
            "RABBITMQ_PID_FILE": str(home / "node.pid"),
            "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": ERLANG_ARGUMENTS,
        }

    def _await_ready(self, deadline: float) -> None:
        while not _speaks_amqp(self.port):
            if not self.is_running or time.monotonic() > deadline:
                raise UnavailableError(f"the private RabbitMQ did not start; it said:\n{self.log()[-4000:]}")
            time.sleep(LOOK_AGAIN_S)


def free_ports(count: int) -> list[int]:
    """Return ports of the loopback that nobody listens on."""
    sockets = [socket.create_server((HOST, 0)) for _ in range(count)]
    try:
        return [int(each.getsockname()[1]) for each in sockets]
    finally:
        _close_all(sockets)


def _close_all(sockets: Iterable[socket.socket]) -> None:
    for each in sockets:
        each.close()


def _program(name: str) -> str:
    script = LIBRARY / name
    if script.is_file():
        return str(script)
    found = shutil.which(name)
    if found is None:
        raise UnavailableError(
            f"no {name} on the path: install RabbitMQ, for example with 'sudo apt-get install rabbitmq-server' or "
            "'brew install rabbitmq'"
        )
    return found


def _speaks_amqp(port: int) -> bool:
    try:
        with socket.create_connection((HOST, port), timeout=2) as wire:
            wire.sendall(_PROTOCOL)
            return bool(wire.recv(1))
    except OSError:
        return False
