"""Ingest as a process: settings from the environment, adapters, a clean end."""

from __future__ import annotations

import asyncio
import os
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import uvicorn
import uvloop
from typing_extensions import override

from services.ingest.app import create_app
from services.ingest.settings import Settings, read_settings
from shared.broker.port import Broker
from shared.broker.reaching import reach
from shared.runtime.clock import SystemClock
from shared.runtime.collecting import collect_rarely
from shared.runtime.config import SettingsError
from shared.runtime.lifecycle import stop_on_signals
from shared.runtime.logs import Log, write_json_logs
from shared.store.port import Store
from shared.store.postgres.store import PostgresStore

_log = Log("redrive.ingest")


class Server(uvicorn.Server):
    """A server that leaves signals to us."""

    @override
    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


def main() -> int:
    """Run ingest until it is asked to stop; return the exit code."""
    try:
        settings = read_settings(os.environ)
    except SettingsError as problem:
        sys.stderr.write("".join(f"redrive ingest: {line}\n" for line in problem.problems))
        return 2
    write_json_logs("ingest", settings.log_level)
    collect_rarely()
    try:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(serve(settings))
    except SystemExit:
        # The server's way of saying that it cannot listen; it has logged why.
        return 1
    except Exception as problem:
        _log.error("ingest_failed", problem)
        return 1
    return 0


async def serve(settings: Settings) -> None:
    """Connect, serve until SIGTERM or SIGINT, and leave nothing behind."""
    async with stop_on_signals() as stop:
        broker = await reach(settings.amqp_url, f"ingest {settings.name}", stop)
        if broker is None:
            return
        store = PostgresStore.connect(settings.database_url, application=f"redrive {settings.name}")
        try:
            await listen(settings, store, broker, stop)
        finally:
            await broker.close()
            await store.close()


async def listen(
    settings: Settings, store: Store, broker: Broker, stop: asyncio.Event, sockets: list[socket.socket] | None = None
) -> None:
    """Serve on a store and a broker until asked to stop; also what one process of all services calls.

    With sockets that are bound already, host and port of the settings do not count.
    """
    app = create_app(store, broker, settings, SystemClock())
    config = uvicorn.Config(
        app,
        host=settings.host,
        port=settings.port,
        log_config=None,
        access_log=False,
        server_header=False,
        lifespan="on",
        timeout_graceful_shutdown=int(settings.stop_within_s),
    )
    server = Server(config)

    async def end() -> None:
        await stop.wait()
        _log.info("ingest_stopping")
        app.state.parts.stopping.set()
        server.should_exit = True

    ending = asyncio.create_task(end())
    try:
        await server.serve(sockets=sockets)
    finally:
        ending.cancel()


if __name__ == "__main__":
    sys.exit(main())
