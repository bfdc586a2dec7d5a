"""The worker as a process: settings from the environment, adapters, a clean end."""

from __future__ import annotations

import asyncio
import ctypes
import os
import sys

import uvloop

from services.worker.app import Worker
from services.worker.built_in import built_in_sinks, built_in_tools
from services.worker.credentials import HttpKeychain
from services.worker.hiding import Veil
from services.worker.keychain import Keychain
from services.worker.metrics import WorkerMetrics
from services.worker.runner import Runner
from services.worker.settings import Settings, read_settings
from services.worker.sinks.registry import Sinks
from services.worker.tools.registry import Registry, plugged_in
from services.worker.values import HttpValues, Values
from shared.broker.port import Broker
from shared.broker.reaching import reach
from shared.runtime.clock import Clock, SystemClock
from shared.runtime.collecting import collect_rarely
from shared.runtime.config import SettingsError
from shared.runtime.health import HealthServer
from shared.runtime.lifecycle import stop_on_signals
from shared.runtime.logs import Log, hide_in_logs, write_json_logs
from shared.runtime.telemetry import new_registry

_NOT_DUMPABLE = 4

_log = Log("redrive.worker")


def main() -> int:
    """Run a worker until it is asked to stop; return the exit code."""
    try:
        settings = read_settings(os.environ)
    except SettingsError as problem:
        sys.stderr.write("".join(f"redrive worker: {line}\n" for line in problem.problems))
        return 2
    write_json_logs("worker", settings.log_level)
    collect_rarely()
    _keep_environment_private()
    try:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(serve(settings))
    except Exception as problem:
        _log.error("worker_failed", problem)
        return 1
    return 0


async def serve(settings: Settings) -> None:
    """Connect, work until SIGTERM or SIGINT, and leave nothing behind."""
    clock = SystemClock()
    async with stop_on_signals() as stop:
        broker = await reach(settings.amqp_url, f"worker {settings.name}", stop)
        if broker is None:
            return
        values = HttpValues(settings.ingest_url, settings.token)
        keychain = HttpKeychain(
            settings.ingest_url, settings.token, remember_s=settings.remember_credentials_s, clock=clock
        )
        try:
            await work(settings, broker, values, clock, stop, keychain)
        finally:
            await broker.close()
            await values.close()
            await keychain.close()


async def work(
    settings: Settings,
    broker: Broker,
    values: Values,
    clock: Clock,
    stop: asyncio.Event,
    keychain: Keychain | None = None,
) -> None:
    """Run a worker on a broker, with its tools and its health server; also what one process of all services calls."""
    registry, veil = new_registry(), Veil()
    hide_in_logs(veil)
    tools = Registry([*built_in_tools(settings, values), *plugged_in()], settings.disabled_tools)
    sinks = Sinks(built_in_sinks(settings))
    await tools.open()
    runner = Runner(
        tools,
        values,
        worker=settings.name,
        clock=clock,
        sinks=sinks,
        keychain=keychain,
        veil=veil,
        default_timeout_s=settings.default_timeout_s,
    )
    worker = Worker(settings, broker, runner, clock, WorkerMetrics(registry))

    async def broker_check() -> str | None:
        return worker.problem or ("blocked" if broker.is_blocked else None)

    health = HealthServer(registry, {"broker": broker_check})
    await health.start(settings.health_host, settings.health_port)
    try:
        await worker.run(stop)
    finally:
        await health.close()
        await tools.close()
        await sinks.close()


def _keep_environment_private() -> None:
    """Keep code that runs under the same user from reading our environment and memory; only Linux can."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_NOT_DUMPABLE, 0)


if __name__ == "__main__":
    sys.exit(main())
