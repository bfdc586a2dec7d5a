"""The services of docker-compose.yml as plain processes: their commands, their environment, on private servers."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx

from shared.runtime.embedded import PrivatePostgres
from shared.runtime.embedded_rabbit import HOST, free_ports
from shared.runtime.guarded import Guarded
from tests.deploy.nodes import Node, container_environment, deployed_node
from tests.support.compose import ONCE, OURS, in_order, project, variables
from tests.support.postgres import SETTINGS, execute, finished, make_folder
from tests.support.system import END_WITHIN_S, OVER, READY_WITHIN_S, pause

ONLY_BY_PASSWORD = "local all all trust\nhost all all 127.0.0.1/32 scram-sha-256\n"


class Stack:
    """What Compose would run, started in its order."""

    def __init__(self, node: Node, postgres_port: int, folder: Path) -> None:
        self.found = project()
        self.node = node
        self.folder = folder
        self.ports = dict(zip(("ingest", "orchestrator", "worker", "worker-2"), free_ports(4), strict=True))
        self._places = {
            "@postgres:5432/": f"@{HOST}:{postgres_port}/",
            "@rabbitmq:5672/": f"@{HOST}:{node.rabbit.port}/",
            "http://ingest:8080": f"http://{HOST}:{self.ports['ingest']}",
        }
        self._processes: dict[str, Guarded] = {}
        key = variables()["REDRIVE_API_KEYS"].rpartition(":")[2]
        self.client = httpx.Client(
            base_url=f"http://{HOST}:{self.ports['ingest']}", headers={"Authorization": f"Bearer {key}"}, timeout=30.0
        )

    def environment(self, service: str, name: str) -> dict[str, str]:
        """Return what Compose tells a service, where only the places of servers and ports are ours."""
        given: dict[str, str] = dict(self.found["services"][service]["environment"])
        for key, text in given.items():
            for theirs, ours in self._places.items():
                given[key] = text = text.replace(theirs, ours)
            if key in ("REDRIVE_PORT", "REDRIVE_HEALTH_PORT"):
                given[key] = str(self.ports[name])
            if key in ("REDRIVE_HOST", "REDRIVE_HEALTH_HOST"):
                given[key] = HOST
        return container_environment(given)

    def start(self, service: str, name: str | None = None) -> None:
        """Start a service and return when it is over, if it runs once, or healthy."""
        name = name or service
        command = self.found["services"][service]["command"]
        process = Guarded(
            command, environment=self.environment(service, name), cwd=self.folder,
            log=self.folder / f"{name}.log", pid_file=self.folder / f"{name}.pid",
        )  # fmt: skip
        self._processes[name] = process
        for _ in range(int(READY_WITHIN_S / 0.05)):
            if service in ONCE:
                if process.exit_code is not None:
                    assert process.exit_code == 0, process.said()
                    return
            elif self.is_healthy(service, name):
                return
            else:
                assert process.exit_code is None, process.said()
            pause()
        raise AssertionError(f"{name} is not ready: {process.said()}")

    def is_healthy(self, service: str, name: str) -> bool:
        """Run the health check of a service."""
        _, *command = self.found["services"][service]["healthcheck"]["test"]
        done = subprocess.run(
            command, env=self.environment(service, name), cwd=self.folder, capture_output=True, timeout=20, check=False
        )
        return done.returncode == 0

    def ended(self, playbook: str) -> dict[str, Any]:
        """Run a playbook and return the execution once it is over."""
        answer = self.client.post("/api/v1/executions", json={"playbook": playbook})
        assert answer.status_code == 202, answer.text
        found: dict[str, Any] = {}
        for _ in range(int(END_WITHIN_S / 0.05)):
            found = self.client.get(f"/api/v1/executions/{answer.json()['execution_id']}").json()
            if found.get("status") in OVER:
                return found
            pause()
        raise AssertionError(f"{json.dumps(found)}\n{self.logs()}")

    def figures(self, name: str) -> str:
        """Return what a service counted."""
        return httpx.get(f"http://{HOST}:{self.ports[name]}/metrics", timeout=10).text

    def logs(self) -> str:
        """Return the last that everything said."""
        return "\n".join(f"--- {name}\n{process.said(1500)}" for name, process in self._processes.items())

    def stop(self) -> dict[str, int]:
        """End everything and return the exit codes."""
        self.client.close()
        return {name: process.stop(within_s=40) for name, process in reversed(self._processes.items())}


@contextmanager
def database(folder: Path) -> Iterator[int]:
    """Give the port of a Postgres with the owner, database and password of Compose, which asks for the password."""
    told = project()["services"]["postgres"]["environment"]
    first = PrivatePostgres(folder, durable=False, settings=SETTINGS)
    first.start()
    finished(execute(first.url(), f"ALTER USER {told['POSTGRES_USER']} PASSWORD '{told['POSTGRES_PASSWORD']}'"))
    (first.data / "pg_hba.conf").write_text(ONLY_BY_PASSWORD)
    first.stop()
    (port,) = free_ports(1)
    server = PrivatePostgres(folder, durable=False, settings={**SETTINGS, "listen_addresses": HOST, "port": str(port)})
    server.start()
    try:
        yield port
    finally:
        server.stop()


@contextmanager
def running_stack() -> Iterator[Stack]:
    """Give the system of Compose, with two workers; everything is ended afterwards."""
    folder = make_folder()
    try:
        with deployed_node() as node, database(folder / "postgres") as port:
            stack = Stack(node, port, folder)
            try:
                for service in in_order(stack.found, OURS):
                    if service in OURS and service != "broker-users":
                        stack.start(service)
                stack.start("worker", "worker-2")
                yield stack
            finally:
                stack.stop()
    finally:
        shutil.rmtree(folder, ignore_errors=True)
