"""Playbooks on the real thing: three kinds of processes, RabbitMQ, Postgres, several of each service at once."""

from __future__ import annotations

import json
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, ClassVar
from urllib.parse import parse_qs, urlparse

import pytest

from tests.support.system import System, without_gaps

pytestmark = pytest.mark.timeout(240)

RETRY_VOCABULARY = {
    "action_started", "action_completed", "action_error", "step_retry", "step_retry_exhausted", "step_completed",
    "step_failed_terminal", "execution_failed",
}  # fmt: skip


class Api(BaseHTTPRequestHandler):
    """A service that fails as often as it was told to, and has pages."""

    failures: ClassVar[Counter[str]] = Counter()
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        """Answer with the next failure of the path, or with a page."""
        url = urlparse(self.path)
        query = parse_qs(url.query)
        if self.failures[url.path] > 0:
            self.failures[url.path] -= 1
            self._answer(503, {"error": "not now"})
            return
        page = int(query.get("page", ["1"])[0])
        items = [{"id": (page - 1) * 10 + number} for number in range(10)]
        self._answer(200, {"data": items, "paging": {"hasMore": page < 4, "page": page}})

    def _answer(self, status: int, body: dict[str, Any]) -> None:
        raw = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(raw)))
        self.end_headers()
        self.wfile.write(raw)

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


@pytest.fixture(scope="module")
def api() -> Iterator[str]:
    with serving() as url:
        yield url


@contextmanager
def serving() -> Iterator[str]:
    """Give the address of the service."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Api)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        thread.join(5)
        server.server_close()


def retried(url: str) -> str:
    return f"""
apiVersion: redrive.io/v1
workflow:
  - step: fetch
    tool: http
    url: "{url}"
    retry: {{ max_attempts: 3, initial_delay: 1.0, backoff_multiplier: 2.0, jitter: false }}
"""


def timeline(events: list[dict[str, Any]]) -> list[tuple[str, int | None]]:
    out = []
    for event in events:
        if event["alias"] in RETRY_VOCABULARY:
            node = event.get("node") or ""
            attempt = int(node.rpartition("#")[2]) if "#" in node else None
            out.append((event["alias"], event["payload"].get("failed_attempt", attempt)))
    return out


def seconds_between(first: dict[str, Any], second: dict[str, Any]) -> float:
    times = [datetime.fromisoformat(event["occurred_at"]) for event in (first, second)]
    return (times[1] - times[0]).total_seconds()


def test_two_failures_are_waited_out_and_the_third_attempt_succeeds(system: System, api: str) -> None:
    Api.failures["/flaky"] = 2
    execution = system.submit(retried(f"{api}/flaky"))

    assert system.ended(execution)["status"] == "completed"

    events = system.events(execution)
    assert without_gaps(events)
    assert timeline(events) == [
        ("action_started", 1),
        ("action_error", 1),
        ("step_retry", 1),
        ("action_started", 2),
        ("action_error", 2),
        ("step_retry", 2),
        ("action_started", 3),
        ("action_completed", 3),
        ("step_completed", None),
    ]
    retries = [event for event in events if event["alias"] == "step_retry"]
    starts = [event for event in events if event["alias"] == "action_started"]
    assert [event["payload"]["delay_s"] for event in retries] == [1.0, 2.0]
    for retry, start, delay in zip(retries, starts[1:], (1.0, 2.0), strict=True):
        assert seconds_between(retry, start) >= delay


def test_an_execution_fails_when_all_attempts_do(system: System, api: str) -> None:
    Api.failures["/down"] = 3
    execution = system.submit(retried(f"{api}/down"))

    found = system.ended(execution)

    assert found["status"] == "failed"
    assert found["failure"]["error"]["kind"] == "server_error"
    assert timeline(system.events(execution))[-4:] == [
        ("action_error", 3),
        ("step_retry_exhausted", 3),
        ("step_failed_terminal", None),
        ("execution_failed", None),
    ]


def test_four_pages_become_forty_items(system: System, api: str) -> None:
    playbook = f"""
apiVersion: redrive.io/v1
workflow:
  - step: fetch_users
    tool: http
    url: "{api}/users"
    params: {{ page: 1 }}
    retry:
      on_success:
        while: "{{{{ response.paging.hasMore }}}}"
        max_attempts: 100
        next_call: {{ params: {{ page: "{{{{ response.paging.page + 1 }}}}" }} }}
        collect: append
        merge_path: data
"""
    execution = system.submit(playbook)

    found = system.ended(execution)

    assert [item["id"] for item in found["result"]] == list(range(40))
    done = system.events(execution, type="retry_sequence_completed")
    assert [(event["payload"]["total_attempts"], event["payload"]["pages"]) for event in done] == [(4, 4)]


def test_a_loop_tolerates_two_failures_in_a_hundred(system: System) -> None:
    playbook = """
apiVersion: redrive.io/v1
workflow:
  - step: each
    loop: { in: 100, iterator: n, mode: parallel, max_in_flight: 16, tolerate: 2 }
    tool:
      kind: python
      code: |
        def main(n):
            if n in (13, 77):
                raise ValueError("an unlucky number")
            return n * 2
      args: { n: "{{ n }}" }
"""
    execution = system.submit(playbook)

    found = system.ended(execution, within_s=180)

    assert found["status"] == "completed"
    assert found["result"] == [None if n in (13, 77) else n * 2 for n in range(100)]
    events = system.events(execution)
    assert without_gaps(events)
    completed = next(event["payload"] for event in events if event["alias"] == "iterator_completed")
    assert (completed["total_iterations"], completed["successful"], completed["failed"]) == (100, 98, 2)
    workers = {event["payload"]["worker"] for event in events if event["type"] == "task.started"}
    assert len(workers) > 1


def test_pages_of_one_endpoint_come_between_those_of_another(system: System, api: str) -> None:
    playbook = f"""
apiVersion: redrive.io/v1
workflow:
  - step: fetch_all
    loop: {{ in: [a, b, c], iterator: endpoint, mode: parallel }}
    tool: http
    url: "{api}/{{{{ endpoint }}}}"
    params: {{ page: 1 }}
    retry:
      on_success:
        while: "{{{{ response.paging.hasMore }}}}"
        next_call: {{ params: {{ page: "{{{{ response.paging.page + 1 }}}}" }} }}
        collect: append
        merge_path: data
"""
    execution = system.submit(playbook)

    found = system.ended(execution)

    assert [len(items) for items in found["result"]] == [40, 40, 40]
    starts = [event["node"].partition(".")[0] for event in system.events(execution, type="task.started")]
    assert len(starts) == 12
    assert starts != sorted(starts)


def test_a_child_execution_hands_its_result_to_its_parent(system: System) -> None:
    system.register("""
apiVersion: redrive.io/v1
metadata: { name: child, path: tests/child }
workload: { n: 0 }
workflow:
  - step: double
    tool: { kind: python, code: "result = n * 2", args: { n: "{{ workload.n }}" } }
""")
    parent = """
apiVersion: redrive.io/v1
workflow:
  - step: each
    loop: { in: [1, 2, 3], iterator: n, mode: parallel }
    tool: { kind: playbook, path: tests/child, args: { n: "{{ n }}" } }
"""
    execution = system.submit(parent)

    found = system.ended(execution)

    assert (found["status"], found["result"]) == ("completed", [2, 4, 6])
    children = system.client.get("/api/v1/executions", params={"path": "tests/child"}).json()["items"]
    assert {child["parent_execution_id"] for child in children} == {execution}


def test_a_result_of_twenty_megabytes_passes_by_reference(system: System) -> None:
    playbook = """
apiVersion: redrive.io/v1
result: "{{ count }}"
workflow:
  - step: make
    tool: { kind: python, code: "result = {'text': 'x' * (20 * 1024 * 1024), 'n': 3}" }
    next: count
  - step: count
    tool: { kind: python, code: "result = [len(text), n]", args: { text: "{{ make.text }}", n: "{{ make.n }}" } }
"""
    execution = system.submit(playbook)

    found = system.ended(execution, within_s=120)

    assert (found["status"], found["result"]) == ("completed", [20 * 1024 * 1024, 3])
    events = system.events(execution)
    assert max(len(json.dumps(event)) for event in events) < 64 * 1024
    made = next(event for event in events if event["type"] == "task.processed")
    assert made["payload"]["outcome"]["result"]["_size"] > 20 * 1024 * 1024


def test_a_cancelled_execution_stops_and_says_so(system: System) -> None:
    playbook = """
apiVersion: redrive.io/v1
workflow:
  - step: wait
    tool: { kind: wait, for: 1h }
"""
    execution = system.submit(playbook)
    answer = system.client.post(f"/api/v1/executions/{execution}:cancel", json={"reason": "enough"})
    assert answer.status_code in (200, 202), answer.text

    assert system.ended(execution)["status"] == "cancelled"


def test_an_idempotency_key_gives_the_first_execution_again(system: System) -> None:
    playbook = "apiVersion: redrive.io/v1\nworkflow:\n  - step: a\n    tool: noop\n"
    first = system.submit(playbook, idempotency_key="nightly-1")
    second = system.client.post(
        "/api/v1/executions", json={"playbook": playbook, "workload": {}, "idempotency_key": "nightly-1"}
    )
    assert second.json()["execution_id"] == first
    assert system.ended(first)["status"] == "completed"
