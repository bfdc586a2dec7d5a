"""The `http` tool against a real server on the loopback."""

from __future__ import annotations

import asyncio
import base64
import gzip
import json
import socket
from collections.abc import AsyncIterator
from typing import Any

import pytest

from services.worker.keychain import Credential, CredentialError, Keychain
from services.worker.runner import Runner
from services.worker.tools.http import HttpTool
from services.worker.tools.http_exchange import MAX_REDIRECTS, Exchange
from services.worker.tools.http_guard import Guard
from services.worker.tools.registry import Registry
from services.worker.values import MemoryValues
from shared.contracts.jobs import Job
from shared.contracts.outcomes import Outcome
from shared.runtime.clock import SystemClock
from tests.support.eventually import eventually
from tests.support.http_server import Answer, HttpServer, Request, answer_json
from tests.unit.worker.given import a_call, a_job


@pytest.fixture
async def tool() -> AsyncIterator[HttpTool]:
    tool = HttpTool()
    yield tool
    await tool.close()


async def called(tool: HttpTool, **config: Any) -> Outcome:
    return await tool.run(a_call(config))


def error_of(outcome: Outcome) -> dict[str, Any]:
    assert outcome.status == "error"
    assert outcome.error is not None
    return outcome.error


async def test_an_answer_of_json_is_data(tool: HttpTool) -> None:
    async with HttpServer(answer_json({"rows": [1, 2]}, X_Page="3")) as server:
        outcome = await called(tool, url=f"{server.url}/users")

    assert outcome.status == "success"
    result = outcome.result
    assert result["status_code"] == 200
    assert result["body"] == result["data"] == {"rows": [1, 2]}
    assert result["headers"]["x-page"] == "3"
    assert result["url"] == f"{server.url}/users"
    assert result["elapsed"] > 0
    assert outcome.extras["http"]["status"] == 200
    assert server.requests[0].method == "GET"


@pytest.mark.parametrize(
    ("status", "kind", "retryable"),
    [
        (429, "rate_limit", True),
        (500, "server_error", True),
        (503, "server_error", True),
        (401, "auth", False),
        (403, "auth", False),
        (404, "client_error", False),
        (418, "client_error", False),
    ],
)
async def test_a_status_that_is_not_expected_is_a_failure_of_its_kind(
    tool: HttpTool, status: int, kind: str, retryable: bool
) -> None:
    async with HttpServer(answer_json({"why": "so"}, status, Retry_After="7")) as server:
        outcome = await called(tool, url=f"{server.url}/x?token=s3cret")

    error = error_of(outcome)
    assert (error["kind"], error["retryable"], error["status"]) == (kind, retryable, status)
    assert outcome.extras["http"] == {"status": status, "headers": outcome.result["headers"]}
    assert outcome.extras["http"]["headers"]["retry-after"] == "7"
    assert outcome.result["body"] == {"why": "so"}
    assert "s3cret" not in error["message"]
    assert error["message"].startswith(f"HTTP {status} ")


@pytest.mark.parametrize("expect", [404, "404", "4xx", [200, "4xx"]])
async def test_a_status_that_is_expected_is_a_success(tool: HttpTool, expect: Any) -> None:
    async with HttpServer(answer_json({}, 404)) as server:
        outcome = await called(tool, url=server.url, expect=expect)

    assert outcome.status == "success"
    assert outcome.result["status_code"] == 404


async def test_parameters_are_merged_into_the_query(tool: HttpTool) -> None:
    params = {"page": 2, "tag": ["a", "b"], "none": None, "deep": {"x": 1}, "yes": True}
    async with HttpServer(answer_json({})) as server:
        await called(tool, url=f"{server.url}/x?page=1&keep=me", params=params)

    assert server.requests[0].query == {
        "page": ["2"], "keep": ["me"], "tag": ["a", "b"], "deep": ['{"x": 1}'], "yes": ["true"],
    }  # fmt: skip


@pytest.mark.parametrize(
    ("config", "content_type", "body"),
    [
        ({"json": {"a": [1]}}, "application/json", b'{"a":[1]}'),
        ({"body": {"a": "ü"}}, "application/json", '{"a":"ü"}'.encode()),
        ({"body": "plain"}, "text/plain; charset=utf-8", b"plain"),
        ({"data": "<a/>", "headers": {"content-type": "text/xml"}}, "text/xml", b"<a/>"),
        ({"data": {"a": "1 2"}}, "application/x-www-form-urlencoded", b"a=1+2"),
        ({"form": {"a": [1, 2]}}, "application/x-www-form-urlencoded", b"a=1&a=2"),
    ],
)
async def test_a_body_is_sent_as_it_is_named(
    tool: HttpTool, config: dict[str, Any], content_type: str, body: bytes
) -> None:
    async with HttpServer(answer_json({})) as server:
        outcome = await called(tool, method="post", url=server.url, **config)

    assert outcome.status == "success"
    assert server.requests[0].method == "POST"
    assert server.requests[0].headers["content-type"] == content_type
    assert server.requests[0].body == body


async def test_files_are_parts_of_an_upload(tool: HttpTool) -> None:
    files = {"a": {"base64": base64.b64encode(b"\xff\x00").decode(), "filename": "a.bin"}, "b": "text"}
    async with HttpServer(answer_json({})) as server:
        await called(tool, method="POST", url=server.url, files=files, form={"x": 1})

    request = server.requests[0]
    assert request.headers["content-type"].startswith("multipart/form-data")
    assert b'filename="a.bin"' in request.body
    assert b"\xff\x00" in request.body


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE"])
async def test_an_unsafe_call_carries_the_key_of_the_attempt(tool: HttpTool, method: str) -> None:
    async with HttpServer(answer_json({})) as server:
        await called(tool, method=method, url=server.url)
        await called(tool, method=method, url=server.url)

    assert [request.headers["idempotency-key"] for request in server.requests] == ["job-1", "job-1"]


async def test_a_key_that_is_given_is_kept_and_a_safe_call_needs_none(tool: HttpTool) -> None:
    async with HttpServer(answer_json({})) as server:
        await called(tool, method="POST", url=server.url, headers={"idempotency-key": "mine"})
        await called(tool, method="POST", url=server.url, idempotency_key="ours")
        await called(tool, url=server.url)

    keys = [request.headers.get("idempotency-key") for request in server.requests]
    assert keys == ["mine", "ours", None]


async def test_connections_are_used_again(tool: HttpTool) -> None:
    async with HttpServer(answer_json({})) as server:
        for _ in range(5):
            await called(tool, url=server.url)

    assert server.connections == 1


async def test_a_redirect_is_followed_or_is_the_answer(tool: HttpTool) -> None:
    def script(request: Request) -> Answer:
        return answer_json({}, 302, Location="/there") if request.path == "/here" else answer_json({"at": request.path})

    async with HttpServer(script) as server:
        followed = await called(tool, url=f"{server.url}/here")
        refused = await called(tool, url=f"{server.url}/here", follow_redirects=False)

    assert followed.result["body"] == {"at": "/there"}
    assert followed.result["url"] == f"{server.url}/there"
    assert error_of(refused)["status"] == 302


async def test_redirects_come_to_an_end(tool: HttpTool) -> None:
    async with HttpServer(answer_json({}, 302, Location="/again")) as server:
        outcome = await called(tool, url=server.url)

    assert error_of(outcome)["kind"] == "client_error"
    assert "redirected" in error_of(outcome)["message"]
    assert len(server.requests) == MAX_REDIRECTS + 1


async def test_an_answer_larger_than_allowed_is_refused_before_it_is_read(tool: HttpTool) -> None:
    async with HttpServer(Answer(headers={"Content-Length": "5000000"}, fault="stalled")) as server:
        outcome = await called(tool, url=server.url, max_body="1MB")

    assert error_of(outcome)["kind"] == "limit"
    assert "max_body, 1000000 bytes" in error_of(outcome)["message"]


async def test_an_endless_answer_is_cut_at_its_limit(tool: HttpTool) -> None:
    sent = 0

    def endless() -> Any:
        nonlocal sent
        while True:
            sent += 65536
            yield b"x" * 65536

    async with HttpServer(Answer(pieces=endless())) as server:
        outcome = await called(tool, url=server.url, max_body="1MiB")

    assert error_of(outcome)["kind"] == "limit"
    assert sent < 64 * 1024**2


async def test_a_bomb_is_measured_by_what_it_unpacks_to(tool: HttpTool) -> None:
    bomb = gzip.compress(b"0" * 20_000_000)
    async with HttpServer(Answer(body=bomb, headers={"Content-Encoding": "gzip"})) as server:
        outcome = await called(tool, url=server.url, max_body="1MB")

    assert error_of(outcome)["kind"] == "limit"


@pytest.mark.parametrize("text", ["{not json", '{"a": NaN}', "[1e999]", "[" * 100_000, "[" + "9" * 5000 + "]"])
async def test_json_that_is_none_is_text_with_a_note(tool: HttpTool, text: str) -> None:
    answer = Answer(body=text.encode(), headers={"Content-Type": "application/json; charset=utf-8"})
    async with HttpServer(answer) as server:
        outcome = await called(tool, url=server.url)

    assert outcome.status == "success"
    assert outcome.result["body"] == text
    assert "said to be JSON" in outcome.meta["notes"][0]


@pytest.mark.parametrize(
    ("content_type", "body", "value"),
    [
        ("application/vnd.api+json", b"[1]", [1]),
        ("text/html; charset=latin-1", b"\xfc", "ü"),
        ("text/plain; charset=nonsense", "ü".encode(), "ü"),
        ("application/json", b"", None),
        ("", b"plain", "plain"),
        ("application/octet-stream", b"plain", "plain"),
    ],
)
async def test_a_body_is_read_as_its_type_says(tool: HttpTool, content_type: str, body: bytes, value: Any) -> None:
    async with HttpServer(Answer(body=body, headers={"Content-Type": content_type})) as server:
        outcome = await called(tool, url=server.url)

    assert outcome.result["body"] == value


async def test_a_binary_body_is_base64_with_a_note(tool: HttpTool) -> None:
    raw = bytes(range(256))
    async with HttpServer(Answer(body=raw, headers={"Content-Type": "image/png"})) as server:
        outcome = await called(tool, url=server.url)

    assert base64.b64decode(outcome.result["body"]) == raw
    assert outcome.result["encoding"] == "base64"
    assert "image/png" in outcome.meta["notes"][0]


async def test_a_cookie_is_the_results_and_not_the_logs(tool: HttpTool) -> None:
    async with HttpServer(answer_json({}, Set_Cookie="session=s3cret")) as server:
        outcome = await called(tool, url=server.url)

    assert outcome.result["headers"]["set-cookie"] == "session=s3cret"
    assert "s3cret" not in json.dumps(outcome.extras)


@pytest.mark.parametrize(("fault", "part"), [("silent", "read"), ("stalled", "read"), ("silent", "total")])
async def test_a_server_that_keeps_silent_is_a_timeout(tool: HttpTool, fault: str, part: str) -> None:
    async with HttpServer(Answer(headers={"Content-Length": "9"}, fault=fault)) as server:
        outcome = await called(tool, url=server.url, timeout={part: "50ms"})

    error = error_of(outcome)
    assert (error["kind"], error["retryable"]) == ("timeout", True)
    assert "0.05 s" in error["message"]


async def test_the_timeout_of_the_task_holds_for_the_call(tool: HttpTool) -> None:
    async with HttpServer(Answer(fault="silent")) as server:
        outcome = await tool.run(a_call({"url": server.url}, timeout_s=0.05))

    assert error_of(outcome)["kind"] == "timeout"


async def test_nobody_listening_is_a_failed_connection(tool: HttpTool) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        outcome = await called(tool, url=f"http://user:s3cret@127.0.0.1:{taken.getsockname()[1]}/x?key=s3cret")

    error = error_of(outcome)
    assert (error["kind"], error["retryable"]) == ("connection", True)
    assert "s3cret" not in json.dumps(error)


async def test_a_connection_that_is_cut_is_a_failed_connection(tool: HttpTool) -> None:
    async with HttpServer(Answer(fault="cut")) as server:
        outcome = await called(tool, url=server.url)

    assert error_of(outcome)["kind"] == "connection"


@pytest.mark.parametrize(
    ("config", "complaint"),
    [
        ({}, "url"),
        ({"url": None}, "url"),
        ({"url": "ftp://example.invalid/s3cret"}, "url"),
        ({"url": "no url s3cret"}, "url"),
        ({"url": "http://127.0.0.1:1", "methd": "GET"}, "methd"),
        ({"url": "http://127.0.0.1:1", "method": "GET s3cret"}, "method"),
        ({"url": "http://127.0.0.1:1", "expect": "s3cret"}, "expect"),
        ({"url": "http://127.0.0.1:1", "timeout": "s3cret!"}, "timeout"),
        ({"url": "http://127.0.0.1:1", "max_body": "s3cret"}, "max_body"),
        ({"url": "http://127.0.0.1:1", "headers": {"A": "s3cret\r\nB: c"}}, "header"),
        ({"url": "http://127.0.0.1:1", "headers": {"A": "s3cret ü"}}, "headers"),
        ({"url": "http://127.0.0.1:1", "method": "POST", "json": float("nan")}, "JSON"),
        ({"url": "http://127.0.0.1:1", "method": "POST", "body": "s3cret\ud800"}, "surrogate"),
    ],
)
async def test_a_call_that_cannot_be_made_says_why_and_shows_no_value(
    tool: HttpTool, config: dict[str, Any], complaint: str
) -> None:
    error = error_of(await called(tool, **config))

    assert (error["kind"], error["retryable"]) == ("expression", False)
    assert complaint in error["message"]
    assert "s3cret" not in json.dumps(error)


# --- credentials ---------------------------------------------------------------------------------------------------


def lending(kind: str, **fields: Any) -> Any:
    async def lend(auth: Any) -> Credential:
        return Credential(str(auth), kind, fields)

    return lend


async def called_with(tool: HttpTool, lend: Any, **config: Any) -> Outcome:
    return await tool.run(a_call({"auth": "api", **config}, lend=lend))


@pytest.mark.parametrize(
    ("lend", "name", "value"),
    [
        (lending("bearer", token="s3cret"), "authorization", "Bearer s3cret"),
        (lending("basic", user="me", password="s3cret:ü"), "authorization", "Basic bWU6czNjcmV0OsO8"),
        (lending("basic", username="me", password="s3cret:ü"), "authorization", "Basic bWU6czNjcmV0OsO8"),
        (lending("header", name="X-Api-Key", value="s3cret"), "x-api-key", "s3cret"),
        (lending("header", headers={"X-A": "s3cret", "X-B": "other"}), "x-b", "other"),
    ],
)
async def test_a_credential_is_sent_as_its_kind_has_it(tool: HttpTool, lend: Any, name: str, value: str) -> None:
    async with HttpServer(answer_json({})) as server:
        outcome = await called_with(tool, lend, url=server.url)

    assert outcome.status == "success"
    assert server.requests[0].headers[name] == value


async def test_a_header_that_the_author_wrote_stays(tool: HttpTool) -> None:
    async with HttpServer(answer_json({})) as server:
        lend = lending("bearer", token="s3cret")
        await called_with(tool, lend, url=server.url, headers={"authorization": "Custom mine"})

    assert server.requests[0].headers["authorization"] == "Custom mine"


async def test_user_and_password_of_the_url_are_sent_and_not_shown(tool: HttpTool) -> None:
    async with HttpServer(answer_json({})) as server:
        outcome = await called(tool, url=server.url.replace("//", "//me:s3cret@"))

    assert server.requests[0].headers["authorization"] == "Basic bWU6czNjcmV0"
    assert outcome.result["url"] == server.url


@pytest.mark.parametrize(
    ("lend", "complaint"),
    [
        (lending("postgres", dsn="s3cret"), "kind postgres"),
        (lending("bearer", value="s3cret"), "no token"),
        (lending("basic", user="me"), "no password"),
        (lending("header", name="X-Key"), "no value"),
        (lending("header", headers={}), "does not allow"),
        (lending("bearer", token="s3cret\r\nX-Evil: 1"), "does not allow"),
        (lending("header", name="X Key", value="s3cret"), "does not allow"),
    ],
)
async def test_a_credential_of_no_use_is_an_error_that_shows_nothing(tool: HttpTool, lend: Any, complaint: str) -> None:
    async with HttpServer(answer_json({})) as server:
        with pytest.raises(CredentialError) as caught:
            await called_with(tool, lend, url=server.url)

    error = error_of(caught.value.outcome)
    assert (error["kind"], error["retryable"]) == ("auth", False)
    assert complaint in error["message"]
    assert "s3cret" not in json.dumps(error)
    assert server.requests == []


async def test_an_encoded_password_that_a_server_repeats_is_hidden(tool: HttpTool) -> None:
    async with HttpServer(lambda request: answer_json({"you said": request.headers["authorization"]})) as server:
        outcome = await called_with(tool, lending("basic", user="me", password="s3cret"), url=server.url)

    assert "bWU6czNjcmV0" not in json.dumps(outcome.as_json())


async def test_the_credential_of_a_job_is_nowhere_in_its_outcome(tool: HttpTool) -> None:
    class OneCredential(Keychain):
        async def credential(self, name: str, job: Job) -> Credential | None:
            return Credential(name, "bearer", {"token": "s3cret-token"})

    runner = Runner(Registry([tool]), MemoryValues(), worker="w1", clock=SystemClock(), keychain=OneCredential())
    async with HttpServer(lambda request: answer_json(dict(request.headers), 500)) as server:
        outcome = await runner.run(a_job("http", {"url": server.url, "auth": "api"}))

    assert server.requests[0].headers["authorization"] == "Bearer s3cret-token"
    assert "s3cret-token" not in json.dumps(outcome.as_json())


SECRET_HEADERS = {"Cookie": "a=b", "X-Api-Key": "k", "X-Auth-Token": "t", "X-Plain": "p", "Proxy-Authorization": "x"}


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
@pytest.mark.parametrize(
    "lend", [lending("bearer", token="s3cret"), lending("header", name="X-Custom", value="s3cret")]
)
async def test_nothing_secret_goes_to_another_origin(tool: HttpTool, lend: Any, status: int) -> None:
    async with (
        HttpServer(answer_json({"at": "the other"})) as other,
        HttpServer(answer_json({}, status, Location=f"{other.url}/there")) as server,
    ):
        config = {"method": "POST", "json": {"a": 1}, "headers": SECRET_HEADERS}
        outcome = await called_with(tool, lend, url=f"{server.url}/here", **config)

    assert outcome.result["body"] == {"at": "the other"}
    (request,) = other.requests
    assert not {"authorization", "cookie", "x-api-key", "x-auth-token", "proxy-authorization", "x-custom"} & set(
        request.headers
    )
    assert request.headers["x-plain"] == "p"
    assert request.headers["idempotency-key"] == "job-1"
    assert request.headers["host"] == other.url.removeprefix("http://")
    kept = status in (307, 308)
    assert (request.method, request.body) == (("POST", b'{"a":1}') if kept else ("GET", b""))


async def test_a_credential_stays_with_its_origin_through_redirects(tool: HttpTool) -> None:
    def script(request: Request) -> Answer:
        return answer_json({}, 307, Location="/there") if request.path == "/here" else answer_json({})

    async with HttpServer(script) as server:
        await called_with(tool, lending("bearer", token="s3cret"), url=f"{server.url}/here", method="PUT", json=[1])

    assert [request.headers["authorization"] for request in server.requests] == ["Bearer s3cret"] * 2
    assert [request.body for request in server.requests] == [b"[1]"] * 2
    assert server.connections == 1


async def test_a_cookie_of_one_call_is_not_sent_with_the_next(tool: HttpTool) -> None:
    async with HttpServer(answer_json({}, Set_Cookie="session=s3cret; Path=/")) as server:
        await called(tool, url=server.url)
        await called(tool, url=server.url)

    assert all("cookie" not in request.headers for request in server.requests)


async def test_the_key_is_that_of_the_attempt_however_often_it_is_delivered(tool: HttpTool) -> None:
    runner = Runner(Registry([tool]), MemoryValues(), worker="w1", clock=SystemClock())
    async with HttpServer(answer_json({})) as server:
        for attempt in (1, 1, 2):
            await runner.run(a_job("http", {"method": "POST", "url": server.url}, attempt=attempt))

    first, again, second = [request.headers["idempotency-key"] for request in server.requests]
    assert first == again
    assert first != second


async def test_fields_and_files_are_parts_of_one_upload(tool: HttpTool) -> None:
    files = {"doc": {"content": {"a": 1}, "filename": 'ä ".json', "content_type": "application/json"}}
    async with HttpServer(answer_json({})) as server:
        outcome = await called(tool, method="POST", url=server.url, files=files, form={"tag": ["a", "b"], "yes": True})

    assert outcome.status == "success"
    body = server.requests[0].body
    assert b'Content-Disposition: form-data; name="tag"\r\n\r\na\r\n' in body
    assert b'name="tag"\r\n\r\nb\r\n' in body
    assert b'name="yes"\r\n\r\ntrue\r\n' in body
    assert b'Content-Type: application/json\r\n\r\n{"a": 1}' in body
    assert b'name="doc"; filename="\xc3\xa4 %22.json"' in body


async def test_a_call_waits_for_a_free_connection_no_longer_than_to_connect() -> None:
    tool = HttpTool(Exchange(Guard(), max_connections=1))
    async with HttpServer(Answer(fault="silent")) as server:
        first = asyncio.create_task(called(tool, url=server.url))
        await eventually(lambda: _truth(server.requests))
        outcome = await called(tool, url=server.url, timeout={"connect": "50ms"})
        first.cancel()
        await asyncio.gather(first, return_exceptions=True)
    await tool.close()

    assert error_of(outcome)["kind"] == "timeout"
    assert "no connection" in error_of(outcome)["message"]


async def _truth(value: object) -> bool:
    return bool(value)
