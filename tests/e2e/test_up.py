"""`redrive up` and `redrive down` as a shell sees them: each service a process, and none left behind."""

from __future__ import annotations

import json
import os
import signal
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.support.command import Place, command_place
from tests.support.eventually import eventually
from tests.support.system import OVER, free_port

pytestmark = pytest.mark.timeout(280)

PLAYBOOK = """\
apiVersion: redrive.io/v1
workflow:
  - step: each
    loop: { in: "{{ range(6) | list }}", iterator: n, mode: parallel }
    tool: { kind: python, input: { n: "{{ n }}" }, code: "def main(n):\\n    return n * n" }
result: "{{ each.stats.succeeded }}"
"""


class UpSystem:
    """A system in the background that a test starts and ends by its commands."""

    def __init__(self, place: Place) -> None:
        self.place = place
        self.port = free_port()
        self.folder = place.folder / "up"
        self.client = httpx.Client(base_url=f"http://127.0.0.1:{self.port}/api/v1", timeout=30.0)

    def up(self, workers: int = 1) -> str:
        """Start it and return what it said."""
        options = ["--data", str(self.folder), "--port", str(self.port), "--workers", str(workers)]
        done = self.place.redrive("up", *options)
        assert done.code == 0, done.err
        return done.out

    def down(self) -> str:
        """Stop it and return what that said."""
        done = self.place.redrive("down", "--data", str(self.folder))
        assert done.code == 0, done.err
        return done.out

    @property
    def pids(self) -> dict[str, int]:
        """Return the processes by name, the one that looks after them included."""
        state = json.loads((self.folder / "up.json").read_text())
        return {"up": state["pid"], **state["pids"]}

    def submit(self) -> str:
        answer = self.client.post("/executions", json={"playbook": PLAYBOOK})
        assert answer.status_code == 202, answer.text
        return str(answer.json()["execution_id"])

    async def ended(self, execution_id: str) -> dict[str, Any]:
        async def over() -> dict[str, Any]:
            found: dict[str, Any] = self.client.get(f"/executions/{execution_id}").json()
            return found if found["status"] in OVER else {}

        return await eventually(over, within_s=60)


@pytest.fixture
def system() -> Iterator[UpSystem]:
    with command_place() as place:
        found = UpSystem(place)
        try:
            yield found
        finally:
            found.client.close()
            place.redrive("down", "--data", str(found.folder))


def is_alive(pid: int) -> bool:
    """Say whether a process runs; one that ended and that nobody has buried yet does not."""
    try:
        os.kill(pid, 0)
        stat = Path(f"/proc/{pid}/stat")
        return not Path("/proc/self").exists() or stat.read_text().rpartition(")")[2].split()[0] != "Z"
    except (ProcessLookupError, FileNotFoundError):
        return False


async def all_gone(pids: dict[str, int]) -> bool:
    return not any(is_alive(pid) for pid in pids.values())


async def test_the_system_is_up_as_processes_does_its_work_and_goes_down_without_a_trace(system: UpSystem) -> None:
    said = system.up(workers=2)

    assert f"Redrive is up at http://127.0.0.1:{system.port}" in said
    assert "2 workers" in said
    pids = system.pids
    assert pids.keys() == {"up", "ingest", "orchestrator", "worker-1", "worker-2", "rabbitmq", "epmd"}
    assert all(is_alive(pid) for pid in pids.values())
    first = await system.ended(system.submit())
    assert (first["status"], first["result"]) == ("completed", 6)

    again = system.place.redrive("up", "--data", str(system.folder), "--port", str(free_port()))
    assert again.code == 6
    assert "redrive down" in again.err

    assert "stopped" in system.down()
    # Its own process lets go of the folder a moment before it ends.
    await eventually(lambda: all_gone(pids))
    assert system.place.leftovers() == []
    assert list(system.folder.glob("**/*.pid")) == []
    assert "nothing is up" in system.down()


async def test_what_ends_is_started_again_and_data_survives_even_a_kill(system: UpSystem) -> None:
    system.up()
    worker = system.pids["worker-1"]
    os.kill(worker, signal.SIGKILL)

    async def is_another() -> bool:
        try:
            return int((system.folder / "worker-1.pid").read_text()) != worker
        except (OSError, ValueError):
            return False

    await eventually(is_another, within_s=30)
    kept = system.submit()
    assert (await system.ended(kept))["status"] == "completed"

    pids = {**system.pids, "worker-1": int((system.folder / "worker-1.pid").read_text())}
    os.kill(pids["up"], signal.SIGKILL)
    await eventually(lambda: all_gone(pids), within_s=100)

    system.up()
    assert (await system.ended(kept))["status"] == "completed"
    assert (await system.ended(system.submit()))["status"] == "completed"


def test_a_folder_of_other_things_is_left_alone(system: UpSystem) -> None:
    system.folder.mkdir()
    (system.folder / "mine.txt").write_text("mine")

    done = system.place.redrive("up", "--data", str(system.folder), "--port", str(system.port))

    assert done.code == 2
    assert "holds other things" in done.err
    assert [path.name for path in system.folder.iterdir()] == ["mine.txt"]


def test_a_port_that_is_taken_is_said_at_once(system: UpSystem) -> None:
    with socket.create_server(("127.0.0.1", system.port)):
        done = system.place.redrive("up", "--data", str(system.folder), "--port", str(system.port))

    assert done.code == 6
    assert f"port {system.port} of 127.0.0.1 cannot be had" in done.err


@pytest.mark.parametrize("workers", ["0", "many", "65"])
def test_a_number_of_workers_that_is_none_is_refused(system: UpSystem, workers: str) -> None:
    done = system.place.redrive("up", "--data", str(system.folder), "--workers", workers)

    assert done.code == 2
    assert "is no number from 1 to 64" in done.err
