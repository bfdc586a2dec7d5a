"""The whole system as it runs in production: private Postgres and RabbitMQ, and each service a process."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from threading import Event
from typing import IO, Any

import httpx

from shared.runtime.embedded import PrivatePostgres
from tests.support.postgres import migrated_template, private_database, private_server, shared_server
from tests.support.rabbit import RabbitNode, Room, new_node

KEY = "a-key-for-tests-only"
READY_WITHIN_S = 60.0
END_WITHIN_S = 60.0
OVER = ("completed", "failed", "cancelled")


class Process:
    """One service under a number, its log in a file."""

    def __init__(self, service: str, environment: dict[str, str], log: Path) -> None:
        self.service = service
        self.environment = environment
        self.log = log
        self._file: IO[bytes] = log.open("ab")
        self._process = subprocess.Popen(
            [sys.executable, "-m", "services.cli", service],
            env=environment,
            stdout=self._file,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )

    @property
    def exit_code(self) -> int | None:
        """Return how the process ended, if it did."""
        return self._process.poll()

    def kill(self) -> None:
        """End it as a power cut would."""
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGKILL)
        self._process.wait(10)
        self._file.close()

    def stop(self, within_s: float = 30.0) -> int:
        """Ask it to end and return its exit code."""
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)
        try:
            code = self._process.wait(within_s)
        except subprocess.TimeoutExpired:
            self.kill()
            raise
        self._file.close()
        return code

    def wait(self, within_s: float) -> int:
        """Return the exit code once it has ended by itself."""
        return self._process.wait(within_s)


class System:
    """Services that a test starts, kills, restarts and asks, on a database and a broker."""

    def __init__(self, database_url: str, rabbit: Room | RabbitNode, folder: Path) -> None:
        self.database_url = database_url
        self.rabbit = rabbit
        self.folder = folder
        self.port = free_port()
        self.processes: list[Process] = []
        self.client = httpx.Client(
            base_url=f"http://127.0.0.1:{self.port}", headers={"Authorization": f"Bearer {KEY}"}, timeout=60.0
        )

    def environment(self, service: str, **more: str) -> dict[str, str]:
        """Return what a service is told."""
        own = {
            "ingest": {"REDRIVE_PORT": str(self.port), "REDRIVE_HOST": "127.0.0.1"},
            "orchestrator": {"REDRIVE_SWEEP_EVERY": "500ms", "REDRIVE_WORKER_SILENT": "5s"},
            "worker": {"REDRIVE_INGEST_URL": f"http://127.0.0.1:{self.port}", "REDRIVE_WORKER_TOKEN": KEY},
        }[service]
        return {
            "PATH": os.environ["PATH"],
            "PYTHONPATH": os.getcwd(),
            "PYTHONUNBUFFERED": "1",
            "REDRIVE_DATABASE_URL": self.database_url,
            "REDRIVE_AMQP_URL": self.rabbit.url,
            "REDRIVE_API_KEYS": f"tests:read+run+admin+worker:{KEY}",
            "REDRIVE_HEALTH_PORT": "0",
            "REDRIVE_HEALTH_HOST": "127.0.0.1",
            **own,
            **more,
        }

    def start(self, service: str, **more: str) -> Process:
        """Start a service; it connects when its servers are there."""
        log = self.folder / f"{service}-{len(self.processes)}.log"
        process = Process(service, self.environment(service, **more), log)
        self.processes.append(process)
        return process

    def start_all(self, ingests: int = 1, orchestrators: int = 1, workers: int = 1) -> None:
        """Start services and wait until the first ingest answers; further ones listen on ports of their own."""
        for index in range(ingests):
            self.start("ingest", **({} if index == 0 else {"REDRIVE_PORT": str(free_port())}))
        for index in range(orchestrators):
            self.start("orchestrator", REDRIVE_NAME=f"orchestrator-{index}")
        for index in range(workers):
            self.start("worker", REDRIVE_WORKER_NAME=f"worker-{index}")
        self.await_ready()

    def await_ready(self) -> None:
        """Return when ingest is ready for work."""
        deadline = time.monotonic() + READY_WITHIN_S
        while True:
            try:
                if self.client.get("/readyz").status_code == 200:
                    return
            except httpx.HTTPError:
                pass
            assert time.monotonic() < deadline, f"ingest is not ready:\n{self.logs()}"
            pause()

    def submit(self, playbook: str, workload: dict[str, Any] | None = None, **more: Any) -> str:
        """Ask for an execution of a playbook given as text, and return its id."""
        answer = self.client.post("/api/v1/executions", json={"playbook": playbook, "workload": workload or {}, **more})
        assert answer.status_code == 202, answer.text
        return str(answer.json()["execution_id"])

    def register(self, playbook: str) -> dict[str, Any]:
        """Put a playbook into the catalogue."""
        answer = self.client.post("/api/v1/playbooks", content=playbook, headers={"Content-Type": "application/yaml"})
        assert answer.status_code in (200, 201), answer.text
        found: dict[str, Any] = answer.json()
        return found

    def execution(self, execution_id: str) -> dict[str, Any]:
        """Return an execution as the API shows it."""
        answer = self.client.get(f"/api/v1/executions/{execution_id}")
        assert answer.status_code == 200, answer.text
        found: dict[str, Any] = answer.json()
        return found

    def ended(self, execution_id: str, within_s: float = END_WITHIN_S) -> dict[str, Any]:
        """Return an execution once it is over."""
        deadline = time.monotonic() + within_s
        while True:
            try:
                found = self.execution(execution_id)
                if found["status"] in OVER:
                    return found
                problem = f"it is {found['status']}"
            except (httpx.HTTPError, AssertionError) as error:
                problem = repr(error)
            assert time.monotonic() < deadline, f"{execution_id} did not end: {problem}\n{self.logs()}"
            pause()

    def events(self, execution_id: str, **filters: Any) -> list[dict[str, Any]]:
        """Return the whole log of an execution."""
        out: list[dict[str, Any]] = []
        after = 0
        while True:
            asked = {"after": after, "limit": 1000, **filters}
            answer = self.client.get(f"/api/v1/executions/{execution_id}/events", params=asked)
            assert answer.status_code == 200, answer.text
            items = answer.json()["items"]
            out.extend(items)
            if len(items) < 1000:
                return out
            after = items[-1]["seq"]

    def logs(self, lines: int = 15) -> str:
        """Return the last lines every service wrote."""
        parts = []
        for process in self.processes:
            tail = process.log.read_text(errors="replace").splitlines()[-lines:]
            parts.append(f"--- {process.log.name} (exit {process.exit_code})\n" + "\n".join(tail))
        return "\n".join(parts)

    def end_services(self) -> None:
        """End every service that still runs."""
        for process in self.processes:
            process.kill()
        self.processes.clear()

    def close(self) -> None:
        """End every service and let go of the connection to them."""
        self.client.close()
        self.end_services()


class OwnServers(System):
    """A system whose servers are its own, to kill and to wipe."""

    def __init__(self, postgres: PrivatePostgres, database_url: str, node: RabbitNode, folder: Path) -> None:
        super().__init__(database_url, node, folder)
        self.postgres = postgres
        self.node = node


def free_port() -> int:
    """Return a port that nobody listens on."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port: int = found.getsockname()[1]
        return port


def pause() -> None:
    """Wait a moment between two looks."""
    Event().wait(0.05)


@contextmanager
def running_system(folder: Path) -> Iterator[System]:
    """Give a system without services, with a part of its own of the servers of this process."""
    postgres = shared_server()
    with private_database(postgres, migrated_template(postgres)) as url, closing(System(url, Room(), folder)) as system:
        yield system


@contextmanager
def system_on_own_servers(folder: Path) -> Iterator[OwnServers]:
    """Give a system without services on servers that it may kill and wipe; everything is ended afterwards."""
    with private_server() as postgres, private_database(postgres, migrated_template(postgres)) as url:
        node = new_node()
        try:
            with closing(OwnServers(postgres, url, node, folder)) as system:
                yield system
        finally:
            node.remove()


def without_gaps(events: list[dict[str, Any]]) -> bool:
    """Say whether a log counts 1, 2, 3 …"""
    return [event["seq"] for event in events] == list(range(1, len(events) + 1))
