"""What a credential holds is used in every way, also in calls that fail, and is nowhere to be seen."""

from __future__ import annotations

import base64
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import parse_qs, quote, quote_plus
from uuid import uuid4

import aio_pika
import pytest

from shared.broker.topology import EVENTS, JOBS, OUTCOMES
from shared.runtime.sealing import new_key
from shared.store.connecting import driver_url
from tests.support.postgres import fetch, finished
from tests.support.system import System, running_system

pytestmark = pytest.mark.timeout(300)

CORE = f"canary{uuid4().hex}"
# Characters that are written differently in JSON, in URLs, in HTML and in Python.
ODD = """/+"'&<%\\ """
MARKER = f"seen{uuid4().hex}"
PADDING = 100_000
TAP = "tap"
PASSED = "{{ keychain.vault.key }}"


def canary(number: int) -> str:
    return f"{CORE}{number}{ODD}{CORE}"


TOKEN, PASSWORD, HEADER, KEY, SECRET, ISSUED, BODY, UNKNOWN, DATABASE, BROKER = (canary(n) for n in range(10))
CREDENTIALS: dict[str, tuple[str, dict[str, str]]] = {
    "api": ("bearer", {"token": TOKEN}),
    "account": ("basic", {"user": "ada", "password": PASSWORD}),
    "machine": ("header", {"name": "X-Machine-Key", "value": HEADER}),
    "vault": ("generic", {"key": KEY, "body": BODY}),
    "client": ("oauth2", {"token_url": "", "client_id": "redrive", "client_secret": SECRET, "auth_style": "basic"}),
    "stranger": ("oauth2", {"token_url": "", "client_id": "redrive", "client_secret": UNKNOWN}),
    "broker": ("rabbitmq", {"url": f"amqp://ada:{quote(BROKER, safe='')}@127.0.0.1:1/"}),
    "far": ("postgres", {"dsn": f"postgresql://ada:{quote(DATABASE, safe='')}@127.0.0.1:1/x"}),
}


class Echo(BaseHTTPRequestHandler):
    """Repeats everything it was sent, as chatty services do in their errors; gives tokens to the client it knows."""

    protocol_version = "HTTP/1.1"
    heard: ClassVar[list[str]] = []

    def do_GET(self) -> None:
        """Answer with the status of the path."""
        self._repeat()

    def do_POST(self) -> None:
        """Answer with the status of the path, or with a token."""
        self._repeat()

    def _repeat(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0)).decode()
        headers = dict(self.headers.items())
        self.heard.append(f"{self.path}\n{json.dumps(headers)}\n{body}")
        if self.path == "/token":
            self._token(body, headers)
            return
        status = int(self.path.split("?")[0].split("/")[-1])
        said = {"path": self.path, "headers": headers, "body": body, "html": f"<b>{headers.get('Authorization')}</b>"}
        if "padded" in self.path:
            said["padding"] = "x" * PADDING
        self._answer(status, said)

    def _token(self, body: str, headers: dict[str, str]) -> None:
        pair = f"{quote_plus('redrive')}:{quote_plus(SECRET)}"
        expected = f"Basic {base64.b64encode(pair.encode()).decode()}"
        if headers.get("Authorization") == expected and parse_qs(body)["grant_type"] == ["client_credentials"]:
            self._answer(200, {"access_token": ISSUED, "token_type": "Bearer", "expires_in": 3600})
        else:
            self._answer(400, {"error": "invalid_client", "error_description": body, "sent": headers})

    def _answer(self, status: int, body: dict[str, Any]) -> None:
        raw = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(raw)))
        self.send_header("X-Repeated", quote(self.headers.get("Authorization") or "nothing"))
        self.end_headers()
        self.wfile.write(raw)

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


@contextmanager
def echoing() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Echo)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        thread.join(5)
        server.server_close()


@pytest.fixture(scope="module")
def echo() -> Iterator[str]:
    with echoing() as url:
        yield url


@pytest.fixture(scope="module")
def system(tmp_path_factory: pytest.TempPathFactory, echo: str) -> Iterator[System]:
    """Give a system that knows the credentials, its services as talkative as they can be."""
    folder: Path = tmp_path_factory.mktemp("system")
    with running_system(folder) as found:
        found.rabbit.control("trace_on")
        finished(_tapped(found.rabbit.url))
        found.start("ingest", REDRIVE_CREDENTIAL_KEYS=new_key(), REDRIVE_LOG_LEVEL="DEBUG")
        found.start("orchestrator", REDRIVE_LOG_LEVEL="DEBUG")
        found.start("worker", REDRIVE_LOG_LEVEL="DEBUG")
        found.await_ready()
        for name, (kind, fields) in CREDENTIALS.items():
            told = {**fields, **({"token_url": f"{echo}/token"} if "token_url" in fields else {})}
            answer = found.client.put(f"/api/v1/credentials/{name}", json={"kind": kind, "fields": told})
            assert answer.status_code == 201, answer.text
        assert found.client.put("/api/v1/credentials/near", json=database_of(found)).status_code == 201
        yield found


def database_of(system: System) -> dict[str, Any]:
    """Return the tests' own database as a credential; it lets everybody in, so that any password will do."""
    found = driver_url(system.database_url)
    where = {"host": found.query["host"], "port": found.port, "database": found.database, "user": found.username}
    return {"kind": "postgres", "fields": {**where, "password": DATABASE}}


def http(name: str, url: str, **fields: Any) -> dict[str, Any]:
    return {"name": name, "kind": "http", "url": url, "params": {"marker": MARKER}, **fields}


def python(name: str, code: str) -> dict[str, Any]:
    return {"name": name, "kind": "python", "input": {"key": "{{ keychain.vault.key }}"}, "code": code}


def succeeding(echo: str) -> dict[str, Any]:
    """Return a playbook that uses every credential in every way, each time against a server that repeats it."""
    ok = f"{echo}/200"
    body = {"key": "{{ keychain.vault.body }}", "nested": ["{{ keychain.vault.key }}"]}
    select = "CREATE TABLE IF NOT EXISTS public.kept (key text); SELECT $1::text AS key"
    table = {"kind": "postgres", "auth": "near", "table": "public.kept"}
    returned = "import base64\nprint(key)\nresult = [key, {key: repr(key)}, base64.b64encode(key.encode()).decode()]"
    sink = {"kind": "http", "url": ok, "auth": "machine", "headers": {"X-Key": "{{ keychain.vault.key }}"}}
    tasks = [
        http("bearer", ok, auth="api"),
        http("basic", ok, auth="account"),
        http("header", ok, credential="machine"),
        http("client", ok, auth="client"),
        http("again", ok, auth={"type": "oauth2", "credential": "client"}),
        http("chosen", ok, auth="{{ workload.chosen }}"),
        http("by_hand", ok, headers={"Authorization": "Bearer {{ keychain.client.token }}"}),
        http("in_header", ok, headers={"X-Key": "{{ keychain.vault.key }}", "X-Marker": MARKER}),
        http("in_params", ok, params={"key": "{{ keychain.vault.key }}", "marker": MARKER}),
        http("in_body", ok, method="POST", body=body),
        http("padded", f"{echo}/padded/200", auth="api", headers={"X-Key": "{{ keychain.vault.key }}"}),
        http("stored", ok, auth="api", sink=sink),
        python("returned", returned),
        {"name": "selected", "kind": "postgres", "auth": "near", "command": select, "params": [PASSED], "sink": table},
        {"name": "printed", "kind": "shell", "cmd": 'echo "$KEY"; echo "$KEY" >&2', "env": {"KEY": PASSED}},
        {"name": "counted", "kind": "duckdb", "command": "SELECT ? AS key", "params": [PASSED]},
    ]
    return playbook("canary/succeeding", tasks)


def failing(echo: str) -> list[dict[str, Any]]:
    """Return playbooks whose calls fail, each repeating what it was given."""
    retry = {"max_attempts": 2, "initial_delay": 0.1, "jitter": False}
    raised = "import sys\nprint(key, file=sys.stderr)\nraise ValueError(f'cannot use {key!r} nor {key}')"
    wrong = {"in": "{{ keychain.vault.key }}"}
    sink = {"kind": "http", "url": f"{echo}/500", "auth": "account", "data": "{{ keychain.vault.key }}"}
    tasks = [
        http("error", f"{echo}/500", auth="api", retry=retry),
        http("denied", f"{echo}/401", auth="account"),
        http("refused", f"{echo}/422", method="POST", body={"key": "{{ keychain.vault.key }}"}),
        http("unreachable", "http://ada:{{ keychain.vault.key }}@127.0.0.1:1/", auth="machine"),
        http("unreadable", "not a url {{ keychain.vault.key }}", auth="machine"),
        http("no_token", f"{echo}/200", auth="stranger"),
        http("bad_header", f"{echo}/200", headers={"X-Key": "{{ keychain.vault.key }}\nX-Other: 1"}),
        http("no_such_field", f"{echo}/200", headers={"X": "{{ keychain.vault.key / 2 }}"}),
        http("no_sink", f"{echo}/200", auth="api", sink=sink),
        python("raised", raised),
        python("no_json", "result = {key, 1}"),
        {
            "name": "no_number",
            "kind": "postgres",
            "auth": "near",
            "command": "SELECT $1::text::int",
            "params": [PASSED],
        },
        {"name": "no_syntax", "kind": "postgres", "auth": "near", "command": f"SELECT {PASSED}"},
        {"name": "no_database", "kind": "postgres", "auth": "far", "command": "SELECT 1"},
        {"name": "no_broker", "kind": "rabbitmq", "auth": "broker", "routing_key": "q", "body": PASSED},
        {"name": "no_success", "kind": "shell", "cmd": 'echo "$KEY" >&2; exit 3', "env": {"KEY": PASSED}},
        {"name": "no_cast", "kind": "duckdb", "command": "SELECT CAST(? AS INTEGER)", "params": [PASSED]},
        {"name": "no_config", "kind": "python", "code": "1", "timeout": 10, "libs": wrong, "input": {}},
    ]
    return [playbook(f"canary/failing/{task['name']}", [task]) for task in tasks]


def playbook(path: str, tasks: list[dict[str, Any]]) -> dict[str, Any]:
    step = {"step": "use", "tool": tasks}
    return {"apiVersion": "redrive.io/v1", "metadata": {"name": "canary", "path": path}, "workflow": [step]}


def ended(system: System, made: dict[str, Any]) -> dict[str, Any]:
    return system.ended(system.submit(json.dumps(made), {"marker": MARKER, "chosen": "api"}))


def spellings(text: str) -> list[str]:
    """Return what any spelling of a text contains: letters and digits stay as they are in all but base64."""
    raw = text.encode()
    found = [text, raw.hex()]
    for skipped in range(3):
        inner = raw[(3 - skipped) % 3 :]
        found.append(base64.b64encode(inner[: len(inner) // 3 * 3]).decode())
    return found


def holds(texts: list[str], wanted: str) -> list[str]:
    """Return the places, with what stands around them, where a text is said."""
    out = []
    for text in texts:
        for spelling in spellings(wanted):
            at = text.find(spelling)
            if at >= 0:
                out.append(text[max(0, at - 200) : at + 120])
    return out


def rows_of(system: System) -> list[str]:
    """Return every row of every table as text, bytes as the text they are."""
    tables = "SELECT table_name FROM information_schema.tables WHERE table_schema = 'redrive'"
    names = [row[0] for row in finished(fetch(system.database_url, tables))]
    assert {"event", "job", "result", "credential", "audit", "execution"} <= set(names)
    out = []
    for name in names:
        for row in finished(fetch(system.database_url, f'SELECT * FROM redrive."{name}"')):
            values = [value.decode("latin-1") if isinstance(value, bytes) else str(value) for value in row.values()]
            out.append(f"{name}: {values}")
            out.extend(values)
    return out


async def _tapped(url: str) -> None:
    connection = await aio_pika.connect(url)
    async with connection:
        queue = await (await connection.channel()).declare_queue(TAP, durable=True)
        await queue.bind("amq.rabbitmq.trace", "publish.#")


async def _drained(url: str, queues: list[str]) -> list[str]:
    out = []
    connection = await aio_pika.connect(url)
    async with connection:
        channel = await connection.channel()
        for name in queues:
            queue = await channel.get_queue(name)
            while (message := await queue.get(fail=False, no_ack=True)) is not None:
                out.append(f"{message.routing_key}: {message.body.decode()} {message.headers}")
    return out


def messages_of(system: System) -> list[str]:
    """Return every message that was ever published, and what is ready in any queue, dead letters among them."""
    names = [line.strip() for line in system.rabbit.control("list_queues", "name").splitlines()]
    return finished(_drained(system.rabbit.url, [name for name in names if name == TAP or name.startswith("redrive.")]))


def pages_of(system: System, executions: list[str]) -> dict[str, str]:
    """Return what every GET endpoint says about everything there is."""
    document = system.client.get("/api/v1/openapi.json").json()
    jobs = finished(fetch(system.database_url, "SELECT job_id::text, execution_id::text FROM redrive.job"))
    refs = [row[0] for row in finished(fetch(system.database_url, "SELECT ref FROM redrive.result"))]
    known: dict[str, list[str]] = {
        "execution_id": executions,
        "job_id": [row[0] for row in jobs],
        "ref": refs,
        "name": list(CREDENTIALS),
        "path": [row[0] for row in finished(fetch(system.database_url, "SELECT path FROM redrive.playbook"))],
        "version": ["1"],
    }
    addresses = [path for path, operations in document["paths"].items() if "get" in operations]
    assert len(addresses) > 10
    out = {}
    for address in addresses:
        for filled in _filled(address, known):
            # This gives values, but never for a job that is over.
            query = {"job_id": next(job for job, owner in jobs if owner == executions[0])} if "/value" in filled else {}
            out[filled] = system.client.get(filled, params=query).text
    return out


def _filled(address: str, known: dict[str, list[str]]) -> list[str]:
    for name, values in known.items():
        mark = f"{{{name}}}"
        if mark in address:
            return [done for value in values for done in _filled(address.replace(mark, value), known)]
    assert "{" not in address, f"nothing is known to ask {address} about"
    return [address]


def test_what_a_credential_holds_is_nowhere_to_be_seen(system: System, echo: str) -> None:
    used = ended(system, succeeding(echo))
    assert used["status"] == "completed", used["failure"]
    failures = failing(echo)
    failed = [ended(system, made) for made in failures]
    tasks = [made["workflow"][0]["tool"][0]["name"] for made in failures]
    assert [name for name, each in zip(tasks, failed, strict=True) if each["status"] != "failed"] == []
    executions = [used["execution_id"], *(each["execution_id"] for each in failed)]

    heard = "\n".join(Echo.heard)
    for sent in (TOKEN, HEADER, f"Bearer {ISSUED}"):
        assert json.dumps(sent)[1:-1] in heard, "the server was not sent what it should have been"
    assert base64.b64encode(f"ada:{PASSWORD}".encode()).decode() in heard
    assert any(spelled(KEY, safe="") in heard for spelled in (quote, quote_plus))
    assert sum(text.startswith("/token") for text in Echo.heard) >= 2

    pages = pages_of(system, executions)
    rows = rows_of(system)
    for process in system.processes:
        process.stop()
    messages = messages_of(system)
    logs = [process.log.read_text(errors="replace") for process in system.processes]

    # The same look finds what is no secret, so it would have found what is one.
    for texts in (rows, messages, list(pages.values())):
        assert holds(texts, MARKER)
    assert all(any(text.startswith(f"publish.{name}") for text in messages) for name in (EVENTS, JOBS, OUTCOMES))
    assert all(logs)
    assert holds(rows, CORE) == []
    assert holds(messages, CORE) == []
    assert {address: found for address, text in pages.items() if (found := holds([text], CORE))} == {}
    assert holds([*logs, system.rabbit.log()], CORE) == []
