"""A flaky service on the loopback, for trying the examples: it fails as services do, and always in the same way."""

from __future__ import annotations

import json
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

from services.cli.output import called_as

PEOPLE = ("ann", "bob", "eve", "ida", "leo", "mia", "sam", "zoe")
PAGES = {"": ("p2", ["pen", "ink"]), "p2": ("p3", ["cup", "map"]), "p3": (None, ["key"])}


@dataclass(frozen=True, slots=True)
class Answer:
    """What a request is answered with."""

    status: int
    body: Any
    headers: dict[str, str] = field(default_factory=dict)


class Flaky:
    """Answers requests; how often each was made before decides whether it fails."""

    def __init__(self) -> None:
        self._seen: Counter[str] = Counter()
        self._lock = threading.Lock()

    def answer(self, method: str, target: str) -> Answer:
        """Return the answer to a request."""
        url = urlsplit(target)
        query = {name: values[0] for name, values in parse_qs(url.query, keep_blank_values=True).items()}
        with self._lock:
            times = self._seen[f"{method} {target}"]
            self._seen[f"{method} {target}"] += 1
        what, _, rest = url.path.strip("/").partition("/")
        match method, what:
            case "GET", "users":
                return _busy() if times < 2 else Answer(200, {"users": list(PEOPLE)})
            case "GET", "quota":
                return Answer(429, {"error": "slow down"}, {"Retry-After": "1"}) if times < 2 else Answer(200, {})
            case "GET", "items":
                return _page(query.get("cursor", ""), times)
            case "POST", "notify":
                return _notified(rest, times)
            case "POST", "reports":
                return Answer(201, {"id": "r1"})
            case "GET", "reports":
                done = {"state": "done", "url": f"/files/{rest}.csv"}
                return Answer(200, {"state": "running"} if times < 2 else done)
            case "PUT", "payments":
                return _busy()
            case "PUT" | "DELETE", "stock":
                return Answer(200, {"id": rest})
        return Answer(404, {"error": "there is nothing here"})


@contextmanager
def demo_service() -> Iterator[str]:
    """Give the address of a running service; it is gone afterwards."""
    flaky = Flaky()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do(self) -> None:
            """Read the request to its end and answer it."""
            self.rfile.read(int(self.headers.get("Content-Length") or 0))
            answer = flaky.answer(self.command, self.path)
            body = json.dumps(answer.body).encode()
            self.send_response(answer.status)
            for name, text in {"Content-Type": "application/json", **answer.headers}.items():
                self.send_header(name, text)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        do_GET = do_POST = do_PUT = do_DELETE = do  # noqa: N815

        def log_message(self, format: str, *args: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()


def what_next() -> str:
    """Return what to try after the demonstration."""
    redrive = called_as()
    ideas = {
        f"{redrive} run examples/tour.yaml --demo -o json": "the same for programs",
        f"{redrive} run examples/compensation.yaml --demo": "a step that fails for good, and what undoes it",
        f"{redrive} validate examples/*.yaml": "every mistake with its place",
        f"{redrive} test examples/tests/": "playbook tests on simulated time",
        "make dev": "the system stays up, with its API and documentation",
    }
    width = max(map(len, ideas))
    return "\n".join(["", "What to try next:", *(f"  {idea:<{width}}  {what}" for idea, what in ideas.items())])


def _busy() -> Answer:
    return Answer(503, {"error": "not now"})


def _page(cursor: str, times: int) -> Answer:
    """Return a page; the gateway before the second one breaks once."""
    if cursor not in PAGES:
        return Answer(404, {"error": "there is no such page"})
    if cursor == "p2" and times == 0:
        return Answer(502, {"error": "bad gateway"})
    following, items = PAGES[cursor]
    return Answer(200, {"items": items, "next": following})


def _notified(who: str, times: int) -> Answer:
    """Take a message; for some the first try fails, and for one every try."""
    if who == "eve" or (who in ("bob", "mia") and times == 0):
        return _busy()
    return Answer(202, {"to": who})
