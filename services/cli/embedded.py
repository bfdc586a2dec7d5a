"""The whole system in one process: database, broker, ingest, orchestrator and worker, begun and ended together."""

from __future__ import annotations

import asyncio
import gc
import os
import secrets
import socket
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from services.cli.data_folder import DataFolder, held_folder
from services.cli.embedded_database import database
from shared.errors import ConflictError, UnavailableError
from shared.runtime.config import Environment

if TYPE_CHECKING:
    from services.worker.keychain import Credential
    from shared.broker.port import Broker
    from shared.store.port import Store

HOST = "127.0.0.1"
MEMORY = "memory"
DRAIN_S = 0.5
# One process is quicker to notice what several would have to wait for: nobody else can be just about to do it.
QUICK = {
    "REDRIVE_SWEEP_EVERY": "500ms",
    "REDRIVE_SWEEP_GRACE": "500ms",
    "REDRIVE_WORKER_SILENT": "10s",
    "REDRIVE_HEARTBEAT": "3s",
    "REDRIVE_LEASE": "15s",
    "REDRIVE_STOP_WITHIN": "1s",
    "REDRIVE_GRACE": "1s",
}


@dataclass(frozen=True, slots=True)
class Wanted:
    """What kind of system is asked for; a `port` of 0 is any, and `is_open` lets everybody of this machine in."""

    command: str
    data: Path | None = None
    port: int = 0
    is_open: bool = False
    amqp_url: str | None = None
    pools: tuple[str, ...] = ()
    credentials: Mapping[str, str] = field(default_factory=dict, repr=False)
    environ: Mapping[str, str] = field(default_factory=lambda: dict(os.environ), repr=False)


@dataclass(frozen=True, slots=True)
class Running:
    """A system at work; `ended` is over when a service ended that nobody asked to."""

    url: str
    key: str | None = field(repr=False)
    folder: DataFolder
    database: str = field(repr=False)
    broker: str = field(repr=False)
    ended: asyncio.Task[None]


@asynccontextmanager
async def embedded(wanted: Wanted) -> AsyncIterator[Running]:
    """Give the whole system; afterwards what was under way is in the database, and nothing runs any more."""
    given = Environment(wanted.environ)
    database_url = given.text("REDRIVE_DATABASE_URL", "")
    amqp_url = wanted.amqp_url or given.text("REDRIVE_AMQP_URL", "")
    given.check()
    with (
        held_folder(wanted.data, command=wanted.command, port=wanted.port) as folder,
        _listening(wanted.port) as door,
    ):
        port: int = door.getsockname()[1]
        folder.note(command=wanted.command, port=port)
        opening = asyncio.create_task(_loaded())
        async with database(folder, database_url) as url:
            await opening
            settings = _settings(wanted, folder, url, amqp_url, port)
            async with _broker(amqp_url) as broker, _store(url) as store:
                services = Services(settings, store, broker, door)
                try:
                    yield Running(
                        f"http://{HOST}:{port}",
                        None if settings.is_open else settings.secret,
                        folder,
                        url if database_url else "private Postgres",
                        "RabbitMQ" if amqp_url else "in memory",
                        services.begin(),
                    )
                finally:
                    await services.end(at_once=folder.is_temporary and not database_url)
                    gc.unfreeze()  # libraries complain of what is still there when the interpreter ends


@dataclass(frozen=True, slots=True)
class Settings:
    """The settings of the three services, and the key by which they and the caller know one another."""

    ingest: Any
    orchestrator: Any
    worker: Any
    secret: str = field(repr=False)
    is_open: bool
    credentials: Mapping[str, Credential] = field(repr=False)


class Services:
    """The three services as tasks of one loop."""

    def __init__(self, settings: Settings, store: Store, broker: Broker, door: socket.socket) -> None:
        self._settings = settings
        self._store = store
        self._broker = broker
        self._door = door
        self._stop_worker = asyncio.Event()
        self._stop_others = asyncio.Event()
        self._worker: asyncio.Task[None] | None = None
        self._others: list[asyncio.Task[None]] = []
        self._watch: asyncio.Task[None] | None = None

    def begin(self) -> asyncio.Task[None]:
        """Start everything and return what ends only when something ended by itself."""
        from services.ingest.__main__ import listen
        from services.orchestrator.__main__ import orchestrate
        from shared.runtime.clock import SystemClock

        clock, stop, settings = SystemClock(), self._stop_others, self._settings
        self._others = [
            asyncio.create_task(listen(settings.ingest, self._store, self._broker, stop, [self._door]), name="ingest"),
            asyncio.create_task(
                orchestrate(settings.orchestrator, self._store, self._broker, clock, stop), name="orchestrator"
            ),
        ]
        self._worker = asyncio.create_task(self._work(), name="worker")
        self._watch = asyncio.create_task(_first_to_end([self._worker, *self._others]))
        return self._watch

    async def end(self, *, at_once: bool) -> None:
        """End everything: at once, or the worker first, then what it reported is stored, then the others."""
        if self._worker is None:
            return
        tasks = [self._worker, *self._others]
        if not at_once:
            self._stop_worker.set()
            await asyncio.wait([self._worker])
            await self._stored()
            self._stop_others.set()
            await asyncio.wait(self._others)
        for task in (*tasks, self._watch):
            if task is not None:
                task.cancel()
        await asyncio.gather(*tasks, *([self._watch] if self._watch else ()), return_exceptions=True)

    async def _stored(self) -> None:
        """Give ingest a moment to store what the worker said last, for a broker in memory forgets it."""
        from shared.broker.topology import OUTCOMES

        deadline = asyncio.get_running_loop().time() + DRAIN_S
        while asyncio.get_running_loop().time() < deadline:
            found = (await self._broker.stats([OUTCOMES])).get(OUTCOMES)
            if found is None or found.ready == 0:
                return
            await asyncio.sleep(0.02)

    async def _work(self) -> None:
        from services.cli.local_keychain import LocalKeychain
        from services.worker.__main__ import work
        from services.worker.credentials import HttpKeychain
        from services.worker.values import HttpValues
        from shared.runtime.clock import SystemClock

        settings = self._settings
        url, clock = settings.worker.ingest_url, SystemClock()
        values, others = HttpValues(url, settings.secret), HttpKeychain(url, settings.secret, clock=clock)
        keychain = LocalKeychain(settings.credentials, others)
        try:
            await work(settings.worker, self._broker, values, clock, self._stop_worker, keychain)
        finally:
            await keychain.close()
            await values.close()


async def _first_to_end(tasks: list[asyncio.Task[None]]) -> None:
    done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    for task in done:
        task.result()
        raise UnavailableError(f"the service {task.get_name()} ended by itself")


def _settings(wanted: Wanted, folder: DataFolder, database_url: str, amqp_url: str, port: int) -> Settings:
    """Return what the services are told: the caller's environment, where the embedded system has no say of its own."""
    from services.cli.local_keychain import credential_of
    from services.ingest.auth import SCOPES, Key, hashed
    from services.ingest.settings import read_settings as read_ingest
    from services.orchestrator.settings import settings_from
    from services.worker.settings import read_settings as read_worker

    secret = secrets.token_urlsafe(32)
    own = {
        "REDRIVE_DEV": "1",
        "REDRIVE_DATA_DIR": str(folder.path),
        "REDRIVE_DATABASE_URL": database_url,
        "REDRIVE_AMQP_URL": amqp_url or MEMORY,
        "REDRIVE_HOST": HOST,
        "REDRIVE_PORT": str(port),
        "REDRIVE_HEALTH_HOST": HOST,
        "REDRIVE_HEALTH_PORT": "0",
        "REDRIVE_INGEST_URL": f"http://{HOST}:{port}",
        "REDRIVE_WORKER_TOKEN": secret,
        **({"REDRIVE_POOLS": ",".join(wanted.pools)} if wanted.pools else {}),
    }
    hidden = {f"{name}_FILE" for name in own}
    values = {**QUICK, **{name: text for name, text in wanted.environ.items() if name not in hidden}, **own}
    if not wanted.is_open:
        values.pop("REDRIVE_API_KEYS", None)
        values.pop("REDRIVE_API_KEYS_FILE", None)
    ingest = read_ingest(values)
    is_open = wanted.is_open and not ingest.keys
    mine = () if is_open else (Key("embedded", frozenset(SCOPES), hashed(secret)),)
    return Settings(
        ingest=replace(ingest, keys=(*ingest.keys, *mine), poll_s=0.05),
        orchestrator=settings_from(values),
        worker=read_worker(values),
        secret=secret,
        is_open=is_open,
        credentials={name: credential_of(name, text) for name, text in wanted.credentials.items()},
    )


@contextmanager
def _listening(port: int) -> Iterator[socket.socket]:
    """Give a socket that takes connections from now on; they are answered when ingest is up."""
    with socket.socket() as door:
        door.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            door.bind((HOST, port))
            door.listen()
        except OSError as problem:
            raise ConflictError(f"port {port} of {HOST} cannot be used: {problem.strerror}") from None
        yield door


async def _loaded() -> None:
    """Load the services while the database starts; the collector rests, for loading leaves no garbage."""
    await asyncio.sleep(0)
    gc.disable()
    try:
        import services.ingest.__main__
        import services.orchestrator.__main__
        import services.worker.__main__  # noqa: F401
    finally:
        gc.freeze()
        gc.enable()


@asynccontextmanager
async def _broker(amqp_url: str) -> AsyncIterator[Broker]:
    broker: Broker
    if amqp_url:
        from shared.broker.rabbit import RabbitBroker
        from shared.broker.rabbit_link import RabbitSettings

        broker = await RabbitBroker.connect(RabbitSettings(amqp_url, name="redrive"))
    else:
        from shared.broker.memory import MemoryBroker

        broker = MemoryBroker()
    try:
        yield broker
    finally:
        await broker.close()


@asynccontextmanager
async def _store(url: str) -> AsyncIterator[Store]:
    from shared.store.postgres.store import PostgresStore

    store = PostgresStore.connect(url, application="redrive")
    try:
        yield store
    finally:
        await store.close()
