"""The whole system for a benchmark: durable Postgres, RabbitMQ, every service a process; what it used, in figures."""

from __future__ import annotations

import argparse
import asyncio
import os
import shutil
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx

from shared.runtime.embedded import PrivatePostgres
from shared.store.migrate import upgrade
from tests.support.postgres import connect, fetch
from tests.support.rabbit import new_node
from tests.support.system import KEY, OVER, OwnServers, System, free_port

TICKS = os.sysconf("SC_CLK_TCK")
LOOK_EVERY_S = 0.025
WORKERS_IN_S = 30.0

OVER_COUNT = "SELECT count(*) FROM redrive.execution WHERE path = $1 AND status = ANY($2::text[])"


def arguments(what: str) -> argparse.ArgumentParser:
    """Return a parser that knows how the services can be set."""
    parser = argparse.ArgumentParser(description=what)
    add = parser.add_argument
    add("--ingests", type=int, default=1)
    add("--orchestrators", type=int, default=1)
    add("--workers", type=int, default=1)
    add("--ingest-lanes", type=int, help="batches that ingest stores at once")
    add("--ingest-batch", type=int, help="most messages in one of them")
    add("--lanes", type=int, help="batches that the orchestrator decides at once")
    add("--batch", type=int, help="most wake-ups in one of them")
    add("--concurrency", type=int, default=100, help="jobs that a worker runs at once")
    add("--set", action="append", default=[], metavar="SERVICE:NAME=VALUE", help="any other setting of a service")
    return parser


class Bench:
    """A running system, and what a benchmark asks of it."""

    def __init__(self, system: OwnServers, options: argparse.Namespace) -> None:
        self.system = system
        self.options = options
        self.client = httpx.Client(
            base_url=f"http://127.0.0.1:{system.port}/api/v1", headers={"Authorization": f"Bearer {KEY}"}, timeout=120.0
        )
        self._health: dict[str, int] = {}

    def start(self) -> None:
        """Start every service and return when all of them are at work."""
        options = self.options
        own = {
            "ingest": {"REDRIVE_LANES": options.ingest_lanes, "REDRIVE_BATCH": options.ingest_batch},
            "orchestrator": {"REDRIVE_LANES": options.lanes, "REDRIVE_BATCH": options.batch},
            "worker": {"REDRIVE_CONCURRENCY": options.concurrency},
        }
        # The test settings sweep often and miss workers soon; here the services run as they would in production.
        own["orchestrator"] |= {"REDRIVE_SWEEP_EVERY": "2s", "REDRIVE_WORKER_SILENT": "30s"}
        for item in options.set:
            service, _, assignment = item.partition(":")
            name, _, value = assignment.partition("=")
            own[service][name] = value
        for service, count in (
            ("ingest", options.ingests), ("orchestrator", options.orchestrators), ("worker", options.workers),
        ):  # fmt: skip
            for index in range(count):
                more = {name: str(value) for name, value in own[service].items() if value is not None}
                more["REDRIVE_NAME" if service != "worker" else "REDRIVE_WORKER_NAME"] = f"{service}-{index}"
                if service == "ingest" and index > 0:
                    more["REDRIVE_PORT"] = str(free_port())
                if service != "ingest":
                    self._health[f"{service}-{index}"] = port = free_port()
                    more["REDRIVE_HEALTH_PORT"] = str(port)
                self.system.start(service, **more)
        self.system.await_ready()
        deadline = time.monotonic() + WORKERS_IN_S
        for name, port in self._health.items():
            while not _is_ready(port):
                if time.monotonic() > deadline:
                    raise RuntimeError(f"{name} is not ready:\n{self.system.logs()}")
                time.sleep(0.1)

    def register(self, playbook: str) -> None:
        """Put a playbook into the catalogue."""
        self.system.register(playbook)

    def submit(self, path: str, count: int, size: int = 100) -> None:
        """Ask for many executions of a playbook."""
        for start in range(0, count, size):
            wanted = [{"path": path}] * min(size, count - start)
            answer = self.client.post("/executions:batch", json={"executions": wanted})
            if answer.status_code != 202:
                raise RuntimeError(answer.text)

    def await_over(self, path: str, count: int, within_s: float, look_every_s: float = LOOK_EVERY_S) -> float:
        """Return how long it took until so many executions of a playbook were over."""
        return asyncio.run(_await_over(self.system, path, count, within_s, look_every_s))

    def rows(self, query: str, *values: Any) -> list[Any]:
        """Return what the database has to say."""
        return asyncio.run(fetch(self.system.database_url, query, *values))

    def metric(self, service: str, name: str) -> float:
        """Return a counter, summed over its labels and the replicas of a service."""
        total = 0.0
        for replica, port in self._health.items():
            if replica.startswith(service):
                for line in httpx.get(f"http://127.0.0.1:{port}/metrics").text.splitlines():
                    if line.startswith((f"{name} ", f"{name}{{")):
                        total += float(line.rpartition(" ")[2])
        return total

    def memory_mb(self) -> dict[str, float]:
        """Return what each service holds in memory now."""
        return {name: round(sum(map(_rss_mb, pids)), 1) for name, pids in self._pids().items()}

    def cpu_s(self) -> dict[str, float]:
        """Return the processor time that each service, Postgres and RabbitMQ used so far."""
        found = {name: sum(map(_cpu_s, pids)) for name, pids in self._pids().items()}
        postgres = self.system.postgres._process
        pids = {"postgres": None if postgres is None else postgres.pid, "rabbitmq": self.system.node.pid}
        for name, pid in pids.items():
            found[name] = sum(map(_cpu_s, _tree(pid))) if pid is not None else 0.0
        return found

    def _pids(self) -> dict[str, list[int]]:
        out: dict[str, list[int]] = {}
        for process in self.system.processes:
            out.setdefault(process.service, []).append(process._process.pid)
        return out

    def close(self) -> None:
        """Let go of the connection."""
        self.client.close()


@contextmanager
def running(options: argparse.Namespace) -> Iterator[Bench]:
    """Give a system at work on servers of its own, its data on the disk; everything is ended afterwards."""
    folder = Path(tempfile.mkdtemp(prefix="redrive-bench-"))
    folder.chmod(0o755)
    postgres = PrivatePostgres(folder / "postgres", durable=True)
    try:
        postgres.start()
        asyncio.run(upgrade(postgres.url()))
        node = new_node()
        system = OwnServers(postgres, postgres.url(), node, folder)
        bench = Bench(system, options)
        try:
            bench.start()
            yield bench
        finally:
            bench.close()
            system.close()
            node.remove()
    finally:
        postgres.stop()
        shutil.rmtree(folder, ignore_errors=True)


def load_average() -> float:
    """Return how much else the machine has to do."""
    return round(os.getloadavg()[0], 2)


def percentile(values: Sequence[float], share: float) -> float:
    """Return the value that a share of all values does not exceed."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))]


def chain(path: str, steps: int) -> str:
    """Return a playbook of steps that do nothing, one after the other."""
    lines = ["apiVersion: redrive.io/v1", f"metadata: {{ name: bench, path: {path} }}", "workflow:"]
    for index in range(steps):
        lines += [f"  - step: s{index}", "    tool: noop"]
        if index < steps - 1:
            lines.append(f"    next: s{index + 1}")
    return "\n".join(lines)


async def _await_over(system: System, path: str, count: int, within_s: float, look_every_s: float) -> float:
    began = time.monotonic()
    connection = await connect(system.database_url)
    try:
        while True:
            over = await connection.fetchval(OVER_COUNT, path, list(OVER))
            waited = time.monotonic() - began
            if over >= count:
                return waited
            if waited > within_s:
                raise RuntimeError(f"{over} of {count} executions ended within {within_s:g} s:\n{system.logs()}")
            await asyncio.sleep(look_every_s)
    finally:
        await connection.close()


def _is_ready(port: int) -> bool:
    try:
        return httpx.get(f"http://127.0.0.1:{port}/readyz").status_code == 200
    except httpx.HTTPError:
        return False


def _rss_mb(pid: int) -> float:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    return 0.0


def _cpu_s(pid: int) -> float:
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return sum(int(field) for field in fields[11:15]) / TICKS


def _tree(pid: int) -> list[int]:
    """Return a process and all its descendants."""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            except OSError:
                continue
            children.setdefault(parent, []).append(int(entry.name))
    found = [pid]
    for each in found:
        found.extend(children.get(each, ()))
    return found
