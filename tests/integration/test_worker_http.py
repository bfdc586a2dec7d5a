"""The `http` tool against a real server on the loopback."""

from __future__ import annotations

import base64
import gzip
import json
import socket
from collections.abc import AsyncIterator
from typing import Any

import pytest

from services.worker.tools.http import MAX_REDIRECTS, HttpTool
from shared.contracts.outcomes import Outcome
from tests.support.http_server import Answer, HttpServer, Request, answer_json
from tests.unit.worker.given import a_call


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


async def test_a_credential_is_not_looked_up_yet_and_nothing_is_sent(tool: HttpTool) -> None:
    async with HttpServer(answer_json({})) as server:
        outcome = await called(tool, url=server.url, auth="api")

    assert error_of(outcome)["kind"] == "auth"
    assert server.requests == []
