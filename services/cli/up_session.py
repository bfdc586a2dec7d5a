"""The whole system as processes of their own: private servers, the services on them, restarted when they end."""

from __future__ import annotations

import asyncio
import secrets
import socket
import sys
import urllib.error
import urllib.request
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from services.cli.data_folder import DataFolder, held_folder
from services.cli.embedded_database import database, uninterrupted
from services.cli.up_folder import LOG, prepare, write_state
from shared.errors import ConflictError, UnavailableError
from shared.runtime.embedded_rabbit import HOST, PrivateRabbit, free_ports
from shared.runtime.guarded import Guarded
from shared.runtime.lifecycle import stop_on_signals

READY_S = 90.0
STOP_S = 30.0
LOOK_AGAIN_S = 0.1
RESTART_AFTER_S = 1.0


@dataclass(frozen=True, slots=True)
class Up:
    """What was asked for."""

    folder: Path
    port: int
    workers: int
    environ: Mapping[str, str] = field(repr=False)


class Service:
    """One service as a process, started again whenever it ends by itself."""

    def __init__(self, name: str, kind: str, port: int, environment: Mapping[str, str], folder: Path) -> None:
        self.name = name
        self.url = f"http://{HOST}:{port}"
        self._command = [sys.executable, "-m", "services.cli", kind]
        self._environment = environment
        self._folder = folder
        self._process = self._start()

    @property
    def pid(self) -> int | None:
        """Return the number of its process."""
        return self._process.pid

    def is_ready(self) -> bool:
        """Say whether it can work."""
        try:
            with urllib.request.urlopen(f"{self.url}/readyz", timeout=2) as answer:
                return bool(answer.status == 200)
        except (OSError, urllib.error.URLError):
            return False

    def problem(self) -> str | None:
        """Say how it ended, if it did."""
        code = self._process.exit_code
        return None if code is None else f"{self.name} ended with exit code {code}:\n{self._process.said(1500)}"

    def restart(self) -> None:
        """Start it again."""
        self._process.stop(within_s=STOP_S)
        self._process = self._start()

    def stop(self) -> None:
        """End it in good order."""
        self._process.stop(within_s=STOP_S)

    def _start(self) -> Guarded:
        place = self._folder
        return Guarded(
            self._command,
            environment=self._environment,
            cwd=Path.cwd(),
            log=place / f"{self.name}.log",
            pid_file=place / f"{self.name}.pid",
        )


async def stay_up(up: Up) -> None:
    """Run the system until SIGTERM or SIGINT; raises ConflictError, RejectedError, UnavailableError."""
    prepare(up.folder)
    async with stop_on_signals() as stop:
        with held_folder(up.folder, command="up", port=up.port) as folder:
            write_state(folder.path, status="starting")
            _refuse_taken(up.port)
            async with database(folder, None) as database_url, _rabbit(folder) as rabbit:
                with _services(up, folder, database_url, rabbit.url()) as services:
                    if await _ready(services, stop):
                        pids = {service.name: service.pid for service in services} | rabbit.pids
                        write_state(folder.path, status="ready", url=services[0].url, amqp=rabbit.url(), pids=pids)
                        await _watched(services, rabbit, stop)
            write_state(folder.path, status="stopped")


@asynccontextmanager
async def _rabbit(folder: DataFolder) -> AsyncIterator[PrivateRabbit]:
    node = PrivateRabbit(folder.path / "rabbitmq")
    try:
        await uninterrupted(node.start)
        yield node
    finally:
        await uninterrupted(node.stop)


@contextmanager
def _services(up: Up, folder: DataFolder, database_url: str, amqp_url: str) -> Iterator[list[Service]]:
    """Give the services; afterwards they are ended, those that take work before those that it comes from."""
    kinds = [("ingest", "ingest"), ("orchestrator", "orchestrator")]
    kinds += [(f"worker-{number}", "worker") for number in range(1, up.workers + 1)]
    told = _told(up, folder, database_url, amqp_url)
    running: list[Service] = []
    try:
        for (name, kind), health_port in zip(kinds, free_ports(len(kinds)), strict=True):
            own = {"REDRIVE_HEALTH_PORT": str(health_port)}
            own |= {"REDRIVE_WORKER_NAME": name} if kind == "worker" else {"REDRIVE_NAME": name}
            port = up.port if kind == "ingest" else health_port
            running.append(Service(name, kind, port, told | own, folder.path))
        yield running
    finally:
        for service in reversed(running):
            service.stop()


def _told(up: Up, folder: DataFolder, database_url: str, amqp_url: str) -> dict[str, str]:
    """Return what every service is told: the caller's environment, where this system has no say of its own."""
    token = secrets.token_urlsafe(32)
    keys = up.environ.get("REDRIVE_API_KEYS", "")
    own = {
        "REDRIVE_DEV": "1",
        "REDRIVE_DATA_DIR": str(folder.path),
        "REDRIVE_DATABASE_URL": database_url,
        "REDRIVE_AMQP_URL": amqp_url,
        "REDRIVE_HOST": HOST,
        "REDRIVE_PORT": str(up.port),
        "REDRIVE_HEALTH_HOST": HOST,
        "REDRIVE_INGEST_URL": f"http://{HOST}:{up.port}",
        "REDRIVE_WORKER_TOKEN": token,
        # Without keys everybody of this machine may ask; with keys the workers need one as well.
        **({"REDRIVE_API_KEYS": f"{keys},up-worker:worker:{token}"} if keys else {}),
    }
    hidden = {f"{name}_FILE" for name in own}
    return {**{name: text for name, text in up.environ.items() if name not in hidden}, **own}


def _refuse_taken(port: int) -> None:
    try:
        socket.create_server((HOST, port)).close()
    except OSError as problem:
        raise ConflictError(f"port {port} of {HOST} cannot be had: {problem.strerror}; name another") from None


async def _ready(services: list[Service], stop: asyncio.Event) -> bool:
    """Return when all services can work; not, if asked to stop before. Raises UnavailableError."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + READY_S
    waiting = list(services)
    while waiting and not stop.is_set():
        for service in waiting:
            if (problem := service.problem()) is not None:
                raise UnavailableError(problem)
        waiting = [service for service in waiting if not await asyncio.to_thread(service.is_ready)]
        if waiting and loop.time() > deadline:
            raise UnavailableError(f"{waiting[0].name} was not ready within {READY_S:g} s; see its log beside {LOG}")
        await asyncio.sleep(LOOK_AGAIN_S)
    return not stop.is_set()


async def _watched(services: list[Service], rabbit: PrivateRabbit, stop: asyncio.Event) -> None:
    """Look after everything until asked to stop."""
    while not stop.is_set():
        for service in services:
            if (problem := service.problem()) is not None:
                print(f"{problem}\n{service.name} is started again", flush=True)
                await asyncio.to_thread(service.restart)
        if not rabbit.is_running:
            raise UnavailableError(f"the private RabbitMQ ended; it said:\n{rabbit.log()[-2000:]}")
        try:
            await asyncio.wait_for(stop.wait(), RESTART_AFTER_S)
        except TimeoutError:
            continue
