"""Ingest as a process of its own, on real servers: started, asked, stopped, killed where it hurts."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from shared.runtime.crashpoints import EXIT_CODE, VARIABLE
from tests.support.postgres import fetch, finished
from tests.support.system import System, free_port, pause, running_system, without_gaps

pytestmark = [
    pytest.mark.timeout(300),
]

CRASH_POINTS = [f"ingest.{place}" for place in ("after_receive", "after_append", "after_publish", "before_ack")]
NOOP = "workflow:\n  - step: greet\n    tool: {kind: noop, input: {a: '{{ workload.a }}'}}\n"
LARGE = """\
workflow:
  - step: make
    tool: {kind: python, code: "def main(): return {'rows': ['x' * 1000] * 2000}"}
    next: [{step: count}]
  - step: count
    tool: {kind: noop, input: {n: "{{ make.rows | length }}"}}
"""


@pytest.fixture(scope="module")
def system(tmp_path_factory: pytest.TempPathFactory) -> Iterator[System]:
    with running_system(tmp_path_factory.mktemp("ingest")) as system:
        yield system


@pytest.fixture(autouse=True)
def _end_services(system: System) -> Iterator[None]:
    yield
    system.end_services()


@pytest.fixture
def everything(system: System) -> System:
    """Return the system with one of each service."""
    system.start_all()
    return system


def facts_of(system: System, executions: list[str]) -> int:
    """Return how many facts of workers are stored about executions."""
    query = "SELECT count(*) FROM redrive.event WHERE execution_id = ANY($1::uuid[]) AND source LIKE 'worker:%'"
    rows = finished(fetch(system.database_url, query, executions))
    return int(rows[0][0])


def test_an_execution_goes_through_and_whoever_waits_hears_of_it(everything: System) -> None:
    answer = everything.client.post("/api/v1/executions?wait=30", json={"playbook": NOOP, "workload": {"a": 1}})

    assert answer.status_code == 200, answer.text
    body = answer.json()
    assert body["status"] == "completed"
    assert without_gaps(everything.events(body["execution_id"]))
    stream = everything.client.get(f"/api/v1/executions/{body['execution_id']}/events/stream")
    assert "event: execution.completed" in stream.text
    assert "event: end" in stream.text


def test_a_large_result_travels_by_reference(everything: System) -> None:
    execution_id = everything.submit(LARGE)

    assert everything.ended(execution_id)["status"] == "completed"
    (event, *_) = everything.events(execution_id, type="action_completed", step="make")
    reference = event["payload"]["outcome"]["result"]
    assert reference["_size"] > 2_000_000
    assert len(str(event)) < 10_000
    answer = everything.client.get(f"/api/v1/results/{reference['_ref']}")
    assert len(answer.json()["rows"]) == 2000


def test_the_worker_is_heard_of(everything: System) -> None:
    assert everything.client.post("/api/v1/executions?wait=30", json={"playbook": NOOP}).status_code == 200

    workers = everything.client.get("/api/v1/workers?silent=60").json()["items"]
    queues = {item["pool"]: item for item in everything.client.get("/api/v1/queues").json()["items"]}

    assert [worker["worker_id"] for worker in workers] == ["worker-0"]
    assert queues["default"]["consumers"] == 1


@pytest.mark.parametrize("place", CRASH_POINTS)
def test_killed_anywhere_on_the_way_of_a_fact_nothing_is_lost(system: System, place: str) -> None:
    doomed = system.start("ingest", **{VARIABLE: place, "REDRIVE_LANES": "1"})
    system.start("orchestrator")
    system.await_ready()
    executions = [system.submit(NOOP, {"a": number}) for number in range(5)]

    system.start("worker", REDRIVE_WORKER_NAME="worker-0")
    assert doomed.wait(60) == EXIT_CODE
    # It died with facts in its hands, not over the heartbeat that a worker sends first.
    assert (facts_of(system, executions) > 0) == (place != "ingest.after_receive")
    system.start("ingest")
    system.await_ready()

    for execution_id in executions:
        assert system.ended(execution_id)["status"] == "completed"
        events = system.events(execution_id)
        assert without_gaps(events)
        assert [event["type"] for event in events].count("task.processed") == 1


def test_asked_to_stop_it_ends_well_and_lets_those_who_wait_go(system: System) -> None:
    ingest = system.start("ingest")
    system.await_ready()
    execution_id = system.submit(NOOP)
    heard: list[str] = []

    def listen() -> None:
        with system.client.stream("GET", f"/api/v1/executions/{execution_id}/events/stream") as stream:
            for text in stream.iter_text():
                heard.append(text)

    listening = threading.Thread(target=listen)
    listening.start()
    while not heard:
        pause()

    assert ingest.stop(within_s=15) == 0
    listening.join(5)
    assert not listening.is_alive()
    assert "Traceback" not in ingest.log.read_text()


def test_it_says_what_is_missing_and_does_not_start(tmp_path: Path) -> None:
    environment = {"PATH": os.environ["PATH"], "PYTHONPATH": os.getcwd(), "REDRIVE_PORT": "x"}

    done = subprocess.run([sys.executable, "-m", "services.ingest"], env=environment, capture_output=True, text=True)

    assert done.returncode == 2
    assert "REDRIVE_DATABASE_URL" in done.stderr
    assert "REDRIVE_API_KEYS" in done.stderr
    assert "REDRIVE_PORT is no whole number" in done.stderr


def test_a_port_that_is_taken_ends_it_with_an_error(system: System) -> None:
    first = system.start("ingest")
    system.await_ready()

    second = system.start("ingest")

    assert second.wait(30) == 1
    assert first.exit_code is None


def test_it_waits_for_servers_that_come_later(system: System) -> None:
    port = free_port()
    ingest = system.start("ingest", REDRIVE_AMQP_URL=f"amqp://guest:guest@127.0.0.1:{port}/")

    def is_waiting() -> bool:
        return "broker_not_reached" in ingest.log.read_text()

    while not is_waiting():
        assert ingest.exit_code is None
        pause()
    with pytest.raises(httpx.ConnectError):
        system.client.get("/healthz")

    assert ingest.stop(within_s=15) == 0
