"""`redrive dev` as a shell sees it: durable in its folder, whoever ends it and when."""

from __future__ import annotations

import asyncio
import re
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx
import pytest

from tests.support.command import Place, command_place
from tests.support.eventually import eventually
from tests.support.system import OVER, free_port, without_gaps

pytestmark = pytest.mark.timeout(240)

# It takes one or two seconds; a server that waits for its clients would take twenty.
WITHOUT_WAITING_S = 12.0
DELAYED = """\
apiVersion: redrive.io/v1
metadata: { name: delayed }
workflow:
  - step: before
    tool: { kind: python, code: "result = 1" }
    next: pause
  - step: pause
    tool: { kind: wait, for: 4 }
    next: each
  - step: each
    loop: { in: "{{ range(20) | list }}", iterator: n, mode: parallel }
    tool: { kind: noop, input: { n: "{{ n }}" } }
result: "{{ each.stats.succeeded }}"
"""
LONG = "apiVersion: redrive.io/v1\nworkflow: [{ step: long, tool: { kind: wait, for: 1h } }]\n"


class DevSystem:
    """A `redrive dev` that a test starts, ends and starts again on the same folder."""

    def __init__(self, place: Place) -> None:
        self.place = place
        self.port = free_port()
        self.data = place.folder / f"data-{self.port}"
        self.log = place.folder / f"dev-{self.port}.log"
        self.url = f"http://127.0.0.1:{self.port}"
        self.client = httpx.Client(base_url=f"{self.url}/api/v1", timeout=30.0)
        self.process: subprocess.Popen[bytes] | None = None

    async def start(self) -> None:
        """Start it and wait until it serves."""
        with self.log.open("ab") as output:
            self.process = self.place.begin("dev", "--data", str(self.data), "--port", str(self.port), output=output)
        await eventually(self._is_ready, within_s=90)

    async def _is_ready(self) -> bool:
        assert self.process is not None
        assert self.process.poll() is None, self.log.read_text()
        try:
            async with httpx.AsyncClient() as client:
                return (await client.get(f"{self.url}/readyz")).status_code == 200
        except httpx.HTTPError:
            return False

    def end(self, number: signal.Signals) -> tuple[int, float]:
        """End it by a signal; return its exit code and the seconds it took."""
        assert self.process is not None
        began = time.monotonic()
        self.process.send_signal(number)
        return self.process.wait(60), time.monotonic() - began

    def submit(self, playbook: str) -> str:
        """Start an execution and return its id."""
        answer = self.client.post("/executions", json={"playbook": playbook}).raise_for_status()
        return str(answer.json()["execution_id"])

    def execution(self, execution_id: str) -> dict[str, Any]:
        """Return an execution as it stands."""
        found: dict[str, Any] = self.client.get(f"/executions/{execution_id}").raise_for_status().json()
        return found

    def events(self, execution_id: str) -> list[dict[str, Any]]:
        """Return the whole log of an execution."""
        found: list[dict[str, Any]] = self.client.get(f"/executions/{execution_id}/events").json()["items"]
        return found

    def close(self) -> None:
        """End it, however it stands."""
        self.client.close()
        if self.process is not None and self.process.poll() is None:
            self.process.kill()
            self.process.wait(30)


@pytest.fixture(scope="module")
def place() -> Iterator[Place]:
    with command_place() as found:
        yield found


@contextmanager
def dev_system(place: Place) -> Iterator[DevSystem]:
    system = DevSystem(place)
    try:
        yield system
    finally:
        system.close()


@pytest.fixture
def dev(place: Place) -> Iterator[DevSystem]:
    with dev_system(place) as found:
        yield found


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
async def test_executions_go_on_when_it_is_started_again(dev: DevSystem, number: signal.Signals) -> None:
    await dev.start()
    execution = dev.submit(DELAYED)
    await eventually(lambda: has_begun(dev, execution, "pause"), within_s=60)

    dev.end(number)
    await dev.start()

    ended = await eventually(lambda: is_over(dev, execution), within_s=60)
    assert ended is not None
    assert (ended["status"], ended["result"]) == ("completed", 20)
    log = dev.events(execution)
    assert without_gaps(log)
    before = [event for event in log if event["type"] == "task.processed" and event["step"] == "before"]
    assert len(before) == 1
    assert dev.end(signal.SIGINT)[0] == 0


async def test_it_stops_soon_although_clients_listen_and_tasks_wait(dev: DevSystem) -> None:
    await dev.start()
    execution = dev.submit(LONG)
    heard = asyncio.Event()

    async def listen() -> None:
        url = f"{dev.url}/api/v1/executions/{execution}/events/stream"
        async with httpx.AsyncClient(timeout=60) as client, client.stream("GET", url) as answer:
            async for line in answer.aiter_lines():
                if line.startswith("id:"):
                    heard.set()

    listening = [asyncio.create_task(listen()) for _ in range(3)]
    await asyncio.wait_for(heard.wait(), 30)

    code, took_s = await asyncio.to_thread(dev.end, signal.SIGINT)

    await asyncio.gather(*listening, return_exceptions=True)
    assert code == 0
    assert took_s < WITHOUT_WAITING_S
    assert "Traceback" not in dev.log.read_text()
    assert dev.place.leftovers() == []


async def test_a_second_one_on_the_same_folder_is_told_who_has_it(dev: DevSystem) -> None:
    await dev.start()
    assert dev.process is not None

    second = await asyncio.to_thread(dev.place.redrive, "dev", "--data", str(dev.data), "--port", "0")
    other = await asyncio.to_thread(dev.place.redrive, "dev", "--data", f"{dev.data}-2", "--port", str(dev.port))

    assert second.code == 6
    told = rf"is in use by 'redrive dev', process {dev.process.pid}, since \d{{4}}-\S+, at port {dev.port}\n"
    assert re.search(told, second.err)
    assert other.code == 6
    assert f"port {dev.port} of 127.0.0.1 cannot be used" in other.err
    assert dev.process.poll() is None


async def test_it_says_what_to_try_and_a_run_on_it_shows_the_same_as_without_it(dev: DevSystem) -> None:
    await dev.start()
    playbook = dev.place.folder / "short.yaml"
    playbook.write_text(LONG.replace("1h", "0.1"))

    ended = await asyncio.to_thread(dev.place.redrive, "run", str(playbook), "--server", dev.url, "-o", "json")

    assert ended.code == 0
    assert ended.document["stats"] == {"attempts": 1, "retries": 0, "steps": {"long": {"runs": 1}}}
    assert "execution completed" in ended.err
    said = dev.log.read_text()
    assert f"Redrive is up at {dev.url}" in said
    assert f"redrive run examples/tour.yaml --demo --server {dev.url}" in said
    assert str(dev.data) in said
    assert "worker_started" in said
    assert '{"at"' not in said


async def test_the_documentation_is_served_whole_with_nothing_from_elsewhere(dev: DevSystem) -> None:
    await dev.start()
    async with httpx.AsyncClient(base_url=dev.url) as client:
        page = await client.get("/docs")
        parts = re.findall(r'(?:src|href)="([^"]+)"', page.text)
        texts = [page.text, *[(await client.get(part)).raise_for_status().text for part in parts]]

    assert page.headers["Content-Type"].startswith("text/html")
    assert "default-src 'none'" in page.headers["Content-Security-Policy"]
    assert {"/docs/page.js", "/docs/page.css", "/api/v1/openapi.json"} <= set(parts)
    assert all(part.startswith("/") and not part.startswith("//") for part in parts)
    for text in texts:
        assert not re.search(r"https?://(?!127\.0\.0\.1)[a-z]", text), text[:200]


async def test_it_asks_for_keys_where_keys_are_set(place: Place) -> None:
    key = "a-key-of-sixteen-or-more"
    guarded = Place(place.folder, {"REDRIVE_API_KEYS": f"me:run+read:{key}"})
    with dev_system(guarded) as dev:
        await dev.start()
        playbook = dev.place.folder / "guarded.yaml"
        playbook.write_text(LONG.replace("1h", "0.1"))
        words = ("run", str(playbook), "--server", dev.url, "-q")
        without = await asyncio.to_thread(place.redrive, *words)
        with_key = await asyncio.to_thread(place.redrive, *words, "--key", key)

    assert without.code == 4
    assert "key" in without.err
    assert (with_key.code, with_key.out) == (0, "null\n")


async def has_begun(dev: DevSystem, execution_id: str, step: str) -> bool:
    return any(event["type"] == "task.scheduled" and event["step"] == step for event in dev.events(execution_id))


async def is_over(dev: DevSystem, execution_id: str) -> dict[str, Any] | None:
    found = dev.execution(execution_id)
    return found if found["status"] in OVER else None
