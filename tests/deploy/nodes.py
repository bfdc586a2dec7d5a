"""A private RabbitMQ with the very files of deploy/rabbitmq, and its users."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from shared.runtime.embedded_rabbit import NodeFiles, PrivateRabbit, free_ports
from tests.support.compose import here, mounted, project
from tests.support.postgres import make_folder

VHOST = "redrive"
PROMETHEUS_PORT = "15692"
BIN = Path(sys.executable).parent


@dataclass(frozen=True)
class Node:
    """A node, the port of its figures, and the folder that stands for the volumes of Compose."""

    rabbit: PrivateRabbit
    figures_port: int
    volumes: Path


def container_environment(given: Mapping[str, str]) -> dict[str, str]:
    """Return what a process is told: exactly what its container is, and what the image says itself."""
    return {"PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}", "PYTHONUNBUFFERED": "1", **given}


def make_users(volumes: Path, **more: str) -> subprocess.CompletedProcess[str]:
    """Run the command of `broker-users` with its environment, its volume in a folder here."""
    found = project()
    about, places = found["services"]["broker-users"], mounted(found, "broker-users", volumes)
    (volumes / "rabbitmq-definitions").mkdir(exist_ok=True)
    return subprocess.run(
        [here(word, places) for word in about["command"]],
        env=container_environment(about["environment"] | more), cwd=volumes, capture_output=True, text=True, timeout=60,
        check=False,
    )  # fmt: skip


@contextmanager
def deployed_node(**more: str) -> Iterator[Node]:
    """Give a node that loaded the definitions and has the settings of Compose, on ports of its own."""
    found, folder = project(), make_folder()
    try:
        done = make_users(folder, **more)
        assert done.returncode == 0, done.stderr
        places = mounted(found, "rabbitmq", folder)
        (figures_port,) = free_ports(1)
        conf = here(places["/etc/rabbitmq/rabbitmq.conf"].read_text(encoding="utf-8"), places)
        files = NodeFiles(
            conf=conf.replace(PROMETHEUS_PORT, f"{figures_port}\nprometheus.tcp.ip = 127.0.0.1"),
            advanced=places["/etc/rabbitmq/advanced.config"].read_text(encoding="utf-8"),
            plugins=places["/etc/rabbitmq/enabled_plugins"].read_text(encoding="utf-8"),
        )
        rabbit = PrivateRabbit(folder / "node", files=files)
        rabbit.start()
        try:
            yield Node(rabbit, figures_port, folder)
        finally:
            rabbit.stop()
    finally:
        shutil.rmtree(folder, ignore_errors=True)
