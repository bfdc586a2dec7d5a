"""What every service leans on: logs, health, a clean end, crash points."""

from __future__ import annotations

import asyncio
import io
import json
import logging
import os
import signal
import subprocess
import sys
from collections.abc import Iterator

import httpx
import pytest
from prometheus_client import Counter

from shared.runtime.health import HealthServer
from shared.runtime.lifecycle import stop_on_signals
from shared.runtime.logs import Log, write_json_logs
from shared.runtime.telemetry import new_registry
from tests.support.repository import ROOT


@pytest.fixture
def root_logger() -> Iterator[logging.Logger]:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield root
    root.handlers[:] = handlers
    root.setLevel(level)


@pytest.mark.usefixtures("root_logger")
def test_every_log_is_a_line_of_json_with_its_ids() -> None:
    stream = io.StringIO()
    write_json_logs("worker", "info", stream)
    log = Log("redrive.test", worker="w1").bound(pool="gpu")
    log.debug("not_shown")
    log.info("job_done", job_id="j1")
    try:
        raise ValueError("oops")
    except ValueError as problem:
        log.error("job_broke", problem, job_id="j2")
    logging.getLogger("other").warning("from %s", "elsewhere", extra={"queue": "q"})

    first, second, third = [json.loads(line) for line in stream.getvalue().splitlines()]
    assert (first["event"], first["level"], first["service"]) == ("job_done", "info", "worker")
    assert (first["job_id"], first["worker"], first["pool"]) == ("j1", "w1", "gpu")
    assert "ValueError: oops" in second["traceback"]
    assert (third["event"], third["queue"]) == ("from elsewhere", "q")


async def test_health_readiness_and_figures_are_served() -> None:
    registry = new_registry()
    Counter("jobs", "Jobs.", registry=registry).inc(3)
    said: str | None = None

    async def broker() -> str | None:
        return said

    async def store() -> str | None:
        if said:
            raise OSError("gone")
        return None

    server = HealthServer(registry, {"broker": broker, "store": store})
    port = await server.start("127.0.0.1", 0)
    async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", trust_env=False) as client:
        well = await client.get("/readyz")
        said = "not connected"
        ill = await client.get("/readyz?verbose")
        answers = [await client.get(path) for path in ("/healthz", "/metrics", "/nothing")]
        head = await client.head("/healthz")
        posted = await client.post("/healthz")
    await server.close()

    assert (well.status_code, well.json()["status"]) == (200, "ready")
    assert ill.status_code == 503
    assert ill.json()["checks"] == {"broker": "not connected", "store": "OSError: gone"}
    assert [answer.status_code for answer in answers] == [200, 200, 404]
    assert "jobs_total 3.0" in answers[1].text
    assert (head.status_code, head.content) == (200, b"")
    assert posted.status_code == 405


async def test_a_client_that_talks_nonsense_does_no_harm() -> None:
    server = HealthServer(new_registry(), {})
    port = await server.start("127.0.0.1", 0)
    for nonsense in (b"\x00" * 20_000, b"\r\n\r\n", b""):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(nonsense)
        writer.write_eof()
        await reader.read()
        writer.close()
    answer = await server.answer("/healthz")
    await server.close()

    assert answer.status == 200


async def test_the_first_signal_asks_and_the_handlers_are_gone_then() -> None:
    before = signal.getsignal(signal.SIGTERM)
    async with stop_on_signals() as stop:
        os.kill(os.getpid(), signal.SIGTERM)
        await asyncio.wait_for(stop.wait(), 5)

        assert signal.getsignal(signal.SIGTERM) == before


@pytest.mark.parametrize(
    ("at", "code", "printed"),
    [("", 0, "12done"), ("here", 137, "1"), ("here:2", 137, "12"), ("here:9", 0, "12done"), ("there", 0, "12done")],
)
def test_a_crash_point_ends_the_process_only_where_it_is_asked_to(at: str, code: int, printed: str) -> None:
    program = (
        "from shared.runtime.crashpoints import crash_point\n"
        "for n in (1, 2):\n"
        "    print(n, end='', flush=True)\n"
        "    crash_point('here')\n"
        "print('done')\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], env={**os.environ, "REDRIVE_CRASH_AT": at}, cwd=ROOT, capture_output=True
    )

    assert (done.returncode, done.stdout.decode().strip()) == (code, printed)
