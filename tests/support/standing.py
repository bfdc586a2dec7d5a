"""A `redrive dev` that stays up for many runs, `redrive run` on it as a shell sees it, and servers beside it."""

from __future__ import annotations

import asyncio
import io
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import httpx

from services.cli.__main__ import main
from tests.support.command import Ended, Place, command_place
from tests.support.http_server import HttpServer, Script
from tests.support.postgres import private_database, private_server
from tests.support.system import free_port, pause

READY_TRIES = 2000
END_TRIES = 1200
OVER = ("completed", "failed", "cancelled")


@dataclass(frozen=True)
class Standing:
    """A whole system that serves its API, and what a test asks of it."""

    place: Place
    url: str
    client: httpx.Client
    log: Path

    def redrive(self, *words: str) -> Ended:
        """Run a command of this process's code; `run` goes to the system, which is lent the credentials it names."""
        given = self._on_the_server(words) if words[0] == "run" else list(words)
        out, err = io.StringIO(), io.StringIO()
        with redirect_stdout(out), redirect_stderr(err):
            code = main(given)
        return Ended(code, out.getvalue(), err.getvalue())

    def run(self, *words: str) -> dict[str, Any]:
        """Run a playbook to its end and return all that is said about it."""
        ended = self.redrive("run", *words, "-q", "-o", "json")
        assert ended.out, f"{ended.err}\n{self.log.read_text()[-3000:]}"
        found: dict[str, Any] = ended.document
        return {**found, "code": ended.code}

    def keep(self, name: str, kind: str, **fields: str) -> None:
        """Keep a credential."""
        body = {"kind": kind, "fields": fields}
        self.client.put(f"/credentials/{name}", json=body).raise_for_status()

    def submit(self, playbook: str, workload: dict[str, Any] | None = None) -> str:
        """Start an execution and return its id."""
        answer = self.client.post("/executions", json={"playbook": playbook, "workload": workload or {}})
        assert answer.status_code == 202, answer.text
        return str(answer.json()["execution_id"])

    def register(self, playbook: str) -> None:
        """Put a playbook into the catalogue."""
        answer = self.client.post("/playbooks", content=playbook, headers={"Content-Type": "application/yaml"})
        assert answer.status_code in (200, 201), answer.text

    def ended(self, execution_id: str, after: str = "playbook_execution_requested") -> dict[str, Any]:
        """Return an execution once it is over, and that after an event which is named by its older name."""
        for _ in range(END_TRIES):
            if after in self.aliases(execution_id):
                found: dict[str, Any] = self.client.get(f"/executions/{execution_id}").raise_for_status().json()
                if found["status"] in OVER:
                    return found
            pause()
        raise AssertionError(f"{execution_id} did not end:\n{self.log.read_text()[-3000:]}")

    def events(self, execution_id: str, kind: str | None = None) -> list[dict[str, Any]]:
        """Return the log of an execution, or the events of one type."""
        asked: dict[str, str | int] = {"limit": 1000, **({"type": kind} if kind else {})}
        answer = self.client.get(f"/executions/{execution_id}/events", params=asked).raise_for_status()
        found: list[dict[str, Any]] = answer.json()["items"]
        return found

    def aliases(self, execution_id: str) -> list[str]:
        """Return the older names of all events of an execution, in order."""
        return [str(event["alias"]) for event in self.events(execution_id)]

    def _on_the_server(self, words: Sequence[str]) -> list[str]:
        """Return a command line for the server; a credential, which only the embedded system takes, is kept there."""
        left, given = list(words), list[str]()
        while left:
            word = left.pop(0)
            if word == "--credential":
                name, _, address = left.pop(0).partition("=")
                dsn = Path(address[1:]).read_text(encoding="utf-8") if address.startswith("@") else address
                self.keep(name, "postgres", dsn=dsn)
            else:
                given.append(word)
        return [*given, "--server", self.url]


@contextmanager
def standing_system(**more: str) -> Iterator[Standing]:
    """Give a system that is up, with more settings if wanted; it is ended afterwards."""
    with command_place() as found:
        place = replace(found, more=more)
        port, log = free_port(), place.folder / "dev.log"
        url = f"http://127.0.0.1:{port}"
        with log.open("wb") as output:
            process = place.begin("dev", "--data", str(place.folder / "data"), "--port", str(port), output=output)
        try:
            with httpx.Client(base_url=f"{url}/api/v1", timeout=90.0) as client:
                for _ in range(READY_TRIES):
                    assert process.poll() is None, log.read_text()
                    if _is_ready(url):
                        break
                    pause()
                yield Standing(place, url, client, log)
        finally:
            process.terminate()
            try:
                process.wait(30)
            finally:
                process.kill()


@contextmanager
def served(script: Script) -> Iterator[HttpServer]:
    """Give a server that answers by a script, on a loop of its own, so that the test itself may block."""
    server, loop = HttpServer(script), asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    asyncio.run_coroutine_threadsafe(server.__aenter__(), loop).result(10)
    try:
        yield server
    finally:
        asyncio.run_coroutine_threadsafe(server.__aexit__(None, None, None), loop).result(10)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(10)
        loop.close()


@contextmanager
def shop_database() -> Iterator[str]:
    """Give the address of an empty database, as a playbook's credential names it."""
    with private_server() as server, private_database(server) as url:
        yield url.replace("+asyncpg", "")


def _is_ready(url: str) -> bool:
    try:
        return httpx.get(f"{url}/readyz", trust_env=False).status_code == 200
    except httpx.HTTPError:
        return False
