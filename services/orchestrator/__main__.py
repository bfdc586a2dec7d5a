"""The orchestrator as a process: settings from the environment, adapters, a clean end."""

from __future__ import annotations

import asyncio
import os
import sys

import uvloop

from services.orchestrator.app import Orchestrator
from services.orchestrator.metrics import OrchestratorMetrics
from services.orchestrator.settings import Settings, settings_from
from shared.broker.port import Broker
from shared.broker.reaching import reach
from shared.errors import UnavailableError
from shared.runtime.clock import Clock, SystemClock
from shared.runtime.collecting import collect_rarely
from shared.runtime.config import SettingsError
from shared.runtime.health import HealthServer
from shared.runtime.lifecycle import stop_on_signals
from shared.runtime.logs import Log, write_json_logs
from shared.runtime.telemetry import new_registry
from shared.store.port import Store
from shared.store.postgres.store import PostgresStore

_log = Log("redrive.orchestrator")


def main() -> int:
    """Run an orchestrator until it is asked to stop; return the exit code."""
    try:
        settings = settings_from(os.environ)
    except SettingsError as problem:
        sys.stderr.write("".join(f"redrive orchestrator: {line}\n" for line in problem.problems))
        return 2
    write_json_logs("orchestrator", settings.log_level)
    collect_rarely()
    try:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(serve(settings))
    except Exception as problem:
        _log.error("orchestrator_failed", problem)
        return 1
    return 0


async def serve(settings: Settings) -> None:
    """Connect, decide until SIGTERM or SIGINT, and leave nothing behind."""
    clock = SystemClock()
    async with stop_on_signals() as stop:
        store = PostgresStore.connect(settings.database_url, application=settings.name)
        broker = await reach(settings.amqp_url, f"orchestrator {settings.name}", stop)
        if broker is None:
            return
        try:
            await orchestrate(settings, store, broker, clock, stop)
        finally:
            await broker.close()
            await store.close()


async def orchestrate(settings: Settings, store: Store, broker: Broker, clock: Clock, stop: asyncio.Event) -> None:
    """Run an orchestrator with its health server; also what one process of all services calls."""
    registry = new_registry()
    orchestrator = Orchestrator(store, broker, settings, clock, OrchestratorMetrics(registry))

    async def database() -> str | None:
        try:
            await store.ping()
        except UnavailableError as problem:
            return str(problem)
        return None

    async def queues() -> str | None:
        return "blocked" if broker.is_blocked else None

    health = HealthServer(registry, {"database": database, "broker": queues})
    await health.start(settings.health_host, settings.health_port)
    try:
        await orchestrator.run(stop)
    finally:
        await health.close()


if __name__ == "__main__":
    sys.exit(main())
