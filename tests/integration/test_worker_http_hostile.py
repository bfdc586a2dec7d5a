"""The `http` tool against servers that mean no good, or know no better: whatever they say is an outcome."""

from __future__ import annotations

import asyncio
import base64
import io
import json
import socket
import tracemalloc
import zipfile
import zlib
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import pytest

from services.worker.keychain import Credential, Keychain
from services.worker.runner import Runner
from services.worker.tools.http import HttpTool
from services.worker.tools.http_bodies import MAX_DEPTH
from services.worker.tools.http_exchange import MAX_REDIRECTS, Exchange
from services.worker.tools.http_guard import Guard
from services.worker.tools.http_network import HEAD_START_S
from services.worker.tools.registry import Registry
from services.worker.values import MemoryValues
from shared.contracts import payloads as p
from shared.contracts.jobs import Job
from shared.contracts.outcomes import Outcome
from shared.runtime.clock import SystemClock
from shared.store.postgres.store import PostgresStore
from shared.templates.expressions import Helpers, compile_template
from tests.support.http_server import Answer, HttpServer, Request, answer_json
from tests.support.raw_server import RawServer
from tests.support.storing import created, new_job, processed
from tests.unit.worker.given import DUE, a_call, a_job

pytest_plugins = ("tests.support.stores",)

MIB = 1024**2


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


def kind_of(outcome: Outcome) -> tuple[str, bool]:
    error = error_of(outcome)
    return error["kind"], error["retryable"]


# --- what unpacks to more than it is --------------------------------------------------------------------------------


def packed(wbits: int, size: int) -> bytes:
    """Return zeros, packed in pieces so that they are never there as a whole."""
    packing = zlib.compressobj(9, zlib.DEFLATED, wbits)
    out = [packing.compress(bytes(MIB)) for _ in range(size // MIB)]
    return b"".join([*out, packing.flush()])


def again(data: bytes, wbits: int) -> bytes:
    packing = zlib.compressobj(9, zlib.DEFLATED, wbits)
    return packing.compress(data) + packing.flush()


GZIP, ZLIB, RAW = 31, 15, -15


@pytest.mark.parametrize(
    ("coding", "body"),
    [
        ("gzip", lambda: packed(GZIP, 100 * MIB)),
        ("x-gzip", lambda: packed(GZIP, 100 * MIB)),
        ("deflate", lambda: packed(ZLIB, 100 * MIB)),
        ("deflate", lambda: packed(RAW, 100 * MIB)),
        ("gzip, gzip", lambda: again(packed(GZIP, 200 * MIB), GZIP)),
        ("deflate, gzip", lambda: again(packed(ZLIB, 200 * MIB), GZIP)),
    ],
)
async def test_a_bomb_is_stopped_at_the_limit_and_never_held(
    tool: HttpTool, coding: str, body: Callable[[], bytes]
) -> None:
    async with HttpServer(Answer(body=body(), headers={"Content-Encoding": coding})) as server:
        tracemalloc.start()
        try:
            outcome = await called(tool, url=server.url, max_body="1MiB")
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()

    assert kind_of(outcome) == ("limit", False)
    assert peak < 16 * MIB


@pytest.mark.parametrize("wbits", [GZIP, ZLIB, RAW])
async def test_what_is_packed_within_the_limit_is_unpacked(tool: HttpTool, wbits: int) -> None:
    body = again(b'{"a": [1, 2]}', wbits)
    coding = "gzip" if wbits == GZIP else "deflate"
    headers = {"Content-Encoding": coding, "Content-Type": "application/json"}
    async with HttpServer(Answer(pieces=[body[:1], body[1:7], body[7:]], headers=headers)) as server:
        outcome = await called(tool, url=server.url)

    assert outcome.result["body"] == {"a": [1, 2]}
    assert server.requests[0].headers["accept-encoding"] == "gzip, deflate"


async def test_several_members_of_gzip_are_one_body_and_what_follows_is_ignored(tool: HttpTool) -> None:
    first, second = again(b"one ", GZIP), again(b"two", GZIP)
    pieces = [first + second[:1], second[1:], b"\0" * 100]
    async with HttpServer(Answer(pieces=pieces, headers={"Content-Encoding": "gzip"})) as server:
        outcome = await called(tool, url=server.url)

    assert outcome.result["body"] == "one two"


@pytest.mark.parametrize(
    ("coding", "body"),
    [
        ("gzip", b"no gzip at all"),
        ("deflate", b"\xff\xff no deflate"),
        ("gzip", again(b"x" * 1000, GZIP)[:-9]),
        ("gzip", again(b"", GZIP) * 1001),
        ("gzip, gzip, gzip, gzip", b"x"),
    ],
)
async def test_what_is_not_packed_as_it_says_is_an_error(tool: HttpTool, coding: str, body: bytes) -> None:
    async with HttpServer(Answer(body=body, headers={"Content-Encoding": coding})) as server:
        outcome = await called(tool, url=server.url)

    assert kind_of(outcome) == ("client_error", False)
    assert "not encoded as it says" in error_of(outcome)["message"]


@pytest.mark.parametrize("coding", ["br", "zstd", "compress", "br, gzip"])
async def test_a_packing_that_nobody_asked_for_is_left_as_it_is(tool: HttpTool, coding: str) -> None:
    raw = b"\x28\xb5\x2f\xfd" + bytes(100)
    body = again(raw, GZIP) if "gzip" in coding else raw
    headers = {"Content-Encoding": coding, "Content-Type": "application/json"}
    async with HttpServer(Answer(body=body, headers=headers)) as server:
        outcome = await called(tool, url=server.url)

    assert base64.b64decode(outcome.result["body"]) == raw
    assert outcome.result["encoding"] == "base64"
    assert coding.split(",")[0] in outcome.meta["notes"][0]


async def test_an_archive_is_a_binary_body_and_is_not_opened(tool: HttpTool) -> None:
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr("zeros", bytes(10 * MIB))
    raw = archive.getvalue()
    async with HttpServer(Answer(body=raw, headers={"Content-Type": "application/zip"})) as server:
        outcome = await called(tool, url=server.url, max_body="1MiB")

    assert base64.b64decode(outcome.result["body"]) == raw


# --- what does not end ----------------------------------------------------------------------------------------------


def endless(first: bytes, more: bytes) -> Callable[[asyncio.StreamWriter], Awaitable[None]]:
    async def say(writer: asyncio.StreamWriter) -> None:
        writer.write(first)
        while True:
            writer.write(more)
            await writer.drain()

    return say


@pytest.mark.parametrize(
    ("first", "more", "kind"),
    [
        (b"HTTP/1.1 200 OK\r\n", b"X-More: " + b"y" * 500 + b"\r\n", "connection"),
        (b"HTTP/1.1 200 OK\r\nX-Long: ", b"y" * 5000, "connection"),
        (b"", b"HTTP/1.1 100 Continue\r\n\r\n" * 100, "limit"),
        (b"", b"HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n" * 100, "limit"),
        (b"HTTP/1.1 200 OK\r\n\r\n", b"x" * 65536, "limit"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", b"1\r\nx\r\n" * 1000, "limit"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", b"1;" + b"e" * 9000 + b"\r\nx\r\n", "limit"),
        (
            b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\n\r\n\x1f\x8b\x08\x08" + bytes(6),
            b"endless name of a file" * 1000,
            "limit",
        ),
    ],
    ids=["headers", "a header", "100", "103", "a body", "pieces", "framing", "a packed file's name"],
)
async def test_what_does_not_end_is_ended(tool: HttpTool, first: bytes, more: bytes, kind: str) -> None:
    async with RawServer(endless(first, more)) as server:
        outcome = await called(tool, url=server.url, max_body="1MiB", timeout={"total": "30s"})

    assert error_of(outcome)["kind"] == kind


async def test_a_hint_before_the_answer_is_no_answer(tool: HttpTool) -> None:
    said = b"HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
    async with RawServer(said) as server:
        outcome = await called(tool, url=server.url)

    assert outcome.result["body"] == "ok"


async def test_thousands_of_headers_are_kept_only_up_to_a_size(tool: HttpTool) -> None:
    lines = b"".join(b"h%d: %b\r\n" % (number, b"v" * 10) for number in range(5000))
    async with RawServer(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n" + lines + b"\r\nok") as server:
        outcome = await called(tool, url=server.url)

    assert outcome.result["body"] == "ok"
    assert len(json.dumps(outcome.result["headers"])) < 64 * 1024


def dripping(first: bytes) -> Callable[[asyncio.StreamWriter], Awaitable[None]]:
    async def say(writer: asyncio.StreamWriter) -> None:
        writer.write(first)
        while True:
            writer.write(b"x")
            await writer.drain()
            await asyncio.sleep(0.02)

    return say


async def test_a_body_that_drips_outlives_the_read_timeout_and_ends_with_the_total(tool: HttpTool) -> None:
    async with RawServer(dripping(b"HTTP/1.1 200 OK\r\n\r\n")) as server:
        outcome = await called(tool, url=server.url, timeout={"read": "200ms", "total": "600ms"})

    assert kind_of(outcome) == ("timeout", True)
    assert "took longer than 0.6 s" in error_of(outcome)["message"]


async def test_a_head_that_drips_ends_with_the_read_timeout(tool: HttpTool) -> None:
    async with RawServer(dripping(b"HTTP/1.1 200 OK\r\nX-Slow: ")) as server:
        outcome = await called(tool, url=server.url, timeout={"read": "200ms", "total": "30s"})

    assert kind_of(outcome) == ("timeout", True)
    assert "was silent for 0.2 s" in error_of(outcome)["message"]


async def test_a_server_that_does_not_accept_is_a_timeout_of_the_connection(tool: HttpTool) -> None:
    with socket.socket() as busy, socket.socket() as first, socket.socket() as second:
        busy.bind(("127.0.0.1", 0))
        busy.listen(0)
        for waiting in (first, second):
            waiting.setblocking(False)
            waiting.connect_ex(busy.getsockname())
        port = busy.getsockname()[1]
        outcome = await called(tool, url=f"http://127.0.0.1:{port}/", timeout={"connect": "200ms", "total": "30s"})

    assert kind_of(outcome) == ("timeout", True)
    assert "no connection" in error_of(outcome)["message"]
    assert "0.2 s" in error_of(outcome)["message"]


# --- what is no HTTP ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "said",
    [
        b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nonly this",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhel",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\nhello\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello world\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello!",
        b"HTTP/1.1 200 OK\r\nContent-Length: -5\r\n\r\nhello",
        b"HTTP/1.1 200 OK\r\nContent-Length: five\r\n\r\nhello",
        b"HTTP/1.1 200 OK\r\nBad Header: x\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nNul: a\0b\r\n\r\n",
        b"HTTP/1.1 abc OK\r\n\r\n",
        b"HTTP/1.1 9999 OK\r\n\r\n",
        b"<html>hello from 1991</html>",
        b"\x15\x03\x01\x00\x02\x02\x16",
        b"SSH-2.0-OpenSSH_9.6\r\n",
        b"\r\n\r\n\r\n",
        b"",
    ],
)
async def test_what_is_no_answer_is_a_failed_connection(tool: HttpTool, said: bytes) -> None:
    async with RawServer(said) as server:
        outcome = await called(tool, url=server.url)

    assert kind_of(outcome) == ("connection", True)
    assert server.url in error_of(outcome)["message"]


async def test_a_length_beyond_any_number_is_an_error(tool: HttpTool) -> None:
    async with RawServer(b"HTTP/1.1 200 OK\r\nContent-Length: " + b"9" * 5000 + b"\r\n\r\nx") as server:
        outcome = await called(tool, url=server.url)

    assert error_of(outcome)["kind"] in ("limit", "connection")


async def test_more_than_was_announced_is_not_part_of_the_answer(tool: HttpTool) -> None:
    async with RawServer(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok and more") as server:
        outcome = await called(tool, url=server.url)

    assert outcome.result["body"] == "ok"


@pytest.mark.parametrize("status", [101, 199, 304, 599])
async def test_a_status_that_nobody_asked_for_is_a_failure_like_any_other(tool: HttpTool, status: int) -> None:
    said = f"HTTP/1.1 {status} Odd\r\nUpgrade: x\r\nConnection: upgrade\r\nContent-Length: 0\r\n\r\n"
    async with RawServer(said.encode()) as server:
        outcome = await called(tool, url=server.url)

    assert error_of(outcome)["kind"] in ("client_error", "server_error", "connection")


async def test_tls_to_a_port_that_speaks_none_is_a_failed_connection(tool: HttpTool) -> None:
    async with RawServer(b"HTTP/1.1 400 Bad Request\r\n\r\n", listens=False) as server:
        outcome = await called(tool, url=f"https://127.0.0.1:{server.port}/")

    assert kind_of(outcome) == ("connection", True)


async def test_tls_to_a_port_that_keeps_silent_is_a_timeout_of_the_connection(tool: HttpTool) -> None:
    async with HttpServer(answer_json({})) as server:
        outcome = await called(tool, url=server.url.replace("http:", "https:"), timeout={"connect": "200ms"})

    assert kind_of(outcome) == ("timeout", True)
    assert server.requests == []


@pytest.mark.parametrize("name", ["no-such-host.invalid", "a" * 64 + ".invalid", "a..b"])
async def test_a_name_that_nobody_knows_is_an_error_that_names_it(tool: HttpTool, name: str) -> None:
    outcome = await called(tool, url=f"http://{name}/?key=s3cret", timeout={"connect": "5s"})

    assert error_of(outcome)["kind"] in ("connection", "timeout", "expression")
    assert "s3cret" not in json.dumps(error_of(outcome))


def resolving(*addresses: str) -> Any:
    async def resolve(host: str, port: int) -> Sequence[str]:
        return addresses

    return resolve


@pytest.mark.parametrize("dead", ["::1", "192.0.2.1"])
async def test_an_address_that_is_down_does_not_hide_one_that_is_up(dead: str) -> None:
    tool = HttpTool(Exchange(Guard(), resolve=resolving(dead, "127.0.0.1")))
    async with HttpServer(answer_json({"up": True})) as server:
        port = server.url.rpartition(":")[2]
        outcome = await called(tool, url=f"http://both.test:{port}/", timeout={"connect": 20 * HEAD_START_S})
    await tool.close()

    assert outcome.status == "success", outcome.error
    assert server.requests[0].headers["host"] == f"both.test:{port}"


# --- where a call is sent on ----------------------------------------------------------------------------------------


async def test_three_hundred_redirects_are_not_followed_to_the_end(tool: HttpTool) -> None:
    def script(request: Request) -> Answer:
        number = int(request.path[1:] or 0)
        return answer_json({}, 302, Location=f"/{number + 1}") if number < 300 else answer_json({})

    async with HttpServer(script) as server:
        outcome = await called(tool, url=server.url)

    assert kind_of(outcome) == ("client_error", False)
    assert len(server.requests) == MAX_REDIRECTS + 1


async def test_two_pages_that_point_at_one_another_come_to_an_end(tool: HttpTool) -> None:
    def script(request: Request) -> Answer:
        return answer_json({}, 307, Location="/b" if request.path == "/a" else "/a")

    async with HttpServer(script) as server:
        outcome = await called(tool, url=f"{server.url}/a", method="POST", json={"a": 1})

    assert kind_of(outcome) == ("client_error", False)


@pytest.mark.parametrize(
    "location",
    [
        "file:///etc/passwd", "ftp://127.0.0.1/x", "gopher://127.0.0.1/", "javascript:alert(1)", "data:,x",
        "ws://127.0.0.1/", "http://", "http:///etc", "http://[::1", "http://a:b:c/", "//", "http://\u00e4 b/",
    ],
)  # fmt: skip
async def test_a_redirect_to_what_is_no_http_is_not_followed(tool: HttpTool, location: str) -> None:
    head = f"HTTP/1.1 302 Found\r\nLocation: {location}\r\nContent-Length: 0\r\n\r\n"
    async with RawServer(head.encode()) as server:
        outcome = await called(tool, url=server.url)

    assert kind_of(outcome) == ("client_error", False)
    assert "redirected to" in error_of(outcome)["message"]
    assert len(server.heads) == 1


async def test_the_endless_body_of_a_redirect_is_not_waited_for(tool: HttpTool) -> None:
    async with HttpServer(answer_json({"at": "the end"})) as target:
        head = f"HTTP/1.1 302 Found\r\nLocation: {target.url}/\r\n\r\n"
        async with RawServer(endless(head.encode(), b"x" * 65536)) as server:
            outcome = await called(tool, url=server.url, timeout={"total": "30s"})

    assert outcome.status == "success", outcome.error
    assert outcome.result["body"] == {"at": "the end"}


# --- what a body says -----------------------------------------------------------------------------------------------

DEEP = "[" * 10_000 + "]" * 10_000


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("{not json", "Expecting property name"),
        ('{"a": 1} and more', "Extra data"),
        (str("1" + "0" * 5000), "integer string conversion"),
        ('{"a": NaN}', "NaN"),
        ("[Infinity]", "Infinity"),
        ("[-Infinity]", "-Infinity"),
        ("[1e999]", "too large"),
        (DEEP, ""),
        ("[" * (MAX_DEPTH + 2) + "]" * (MAX_DEPTH + 2), "nests deeper"),
    ],
    ids=["broken", "more", "digits", "nan", "inf", "-inf", "float", "10000 levels", "202 levels"],
)
async def test_json_that_cannot_be_taken_is_kept_as_text_with_a_note(tool: HttpTool, text: str, reason: str) -> None:
    async with HttpServer(Answer(body=text.encode(), headers={"Content-Type": "application/json"})) as server:
        outcome = await called(tool, url=server.url)

    assert outcome.status == "success"
    assert outcome.result["body"] == text
    assert "said to be JSON and is not" in outcome.meta["notes"][0]
    assert reason in outcome.meta["notes"][0]


async def test_of_a_key_that_is_said_twice_the_last_counts(tool: HttpTool) -> None:
    async with HttpServer(Answer(body=b'{"a": 1, "a": 2}', headers={"Content-Type": "application/json"})) as server:
        outcome = await called(tool, url=server.url)

    assert outcome.result["body"] == {"a": 2}


@pytest.mark.parametrize(
    ("content_type", "raw", "value"),
    [
        ("text/plain", b"a\xff\xfeb", "a\ufffd\ufffdb"),
        ("text/plain; charset=utf-16", b"\x00", "\ufffd"),
        ("text/plain; charset=base64", b"plain", "plain"),
        ("text/plain; charset=idna", b"plain", "plain"),
        ("application/json", b'{"a": "\xff"}', '{"a": "\ufffd"}'),
        ("application/json", b'\xef\xbb\xbf{"a": 1}', {"a": 1}),
        ("application/json; charset=utf-16", '{"a": 1}'.encode("utf-16"), {"a": 1}),
    ],
)
async def test_bytes_that_are_no_text_of_their_kind_are_read_as_well_as_can_be(
    tool: HttpTool, content_type: str, raw: bytes, value: Any
) -> None:
    async with HttpServer(Answer(body=raw, headers={"Content-Type": content_type})) as server:
        outcome = await called(tool, url=server.url)

    assert outcome.status == "success"
    assert outcome.result["body"] == value


@pytest.mark.parametrize(("raw", "text"), [(b"\xe4\xf6", "äö"), ("äö".encode(), "äö"), (b"\xff\xfe\x80", "ÿþ\x80")])
async def test_a_header_of_other_bytes_is_read_as_text(tool: HttpTool, raw: bytes, text: str) -> None:
    async with RawServer(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nX-Name: " + raw + b"\r\n\r\n") as server:
        outcome = await called(tool, url=server.url)

    assert outcome.result["headers"]["x-name"] == text


@pytest.mark.parametrize(
    "said",
    ["Fri, 31 Dec 10000 23:59:59 GMT", "9" * 400, "-1", "1e999", "soon", "Fri, 99 Foo 2024 99:99:99 GMT", "\u0665"],
)
async def test_a_pause_that_is_no_time_is_a_header_like_any_other(tool: HttpTool, said: str) -> None:
    head = f"HTTP/1.1 503 Busy\r\nRetry-After: {said}\r\nContent-Length: 0\r\n\r\n"
    async with RawServer(head.encode()) as server:
        outcome = await called(tool, url=server.url)

    assert kind_of(outcome) == ("server_error", True)
    assert outcome.extras["http"]["headers"]["retry-after"] == said
    template = compile_template("{{ outcome.http.headers['retry-after'] | retry_after | default(2) }}")
    found = template.evaluate({"outcome": outcome.as_json()}, Helpers(DUE, lambda: 0.5)).value
    assert found == 2 or (isinstance(found, int | float) and 0 <= found < float("inf"))


# --- how it travels on ----------------------------------------------------------------------------------------------


class OneCredential(Keychain):
    async def credential(self, name: str, job: Job) -> Credential | None:
        return Credential(name, "bearer", {"token": "s3cret-token"})


def texts() -> Iterator[tuple[str, str]]:
    yield "application/json", '{"nul": "a\\u0000b", "key\\u0000": 1, "half": "\\ud800", "pair": "\\ud83d\\ude00"}'
    yield "application/json", '{"nan": NaN, "inf": Infinity}'
    yield "application/json", '{"digits": ' + "9" * 5000 + "}"
    yield "application/json", '{"digits": ' + "9" * 4000 + ', "small": 1e-400, "large": 1.7e308}'
    yield "application/json", "[" * MAX_DEPTH + "1" + "]" * MAX_DEPTH
    yield "application/json", DEEP
    yield "text/plain", "a\0b \\u0000 NaN Infinity"
    yield "application/json", json.dumps({"large": "\0" + "ä" * 100_000})


@pytest.mark.parametrize(("content_type", "text"), list(texts()))
async def test_whatever_a_server_says_can_be_stored_and_read_again(
    database: str, tool: HttpTool, content_type: str, text: str
) -> None:
    values = MemoryValues()
    runner = Runner(Registry([tool]), values, worker="w1", clock=SystemClock(), keychain=OneCredential())
    store = PostgresStore.connect(database)
    try:
        async with HttpServer(Answer(body=text.encode(), headers={"Content-Type": content_type})) as server:
            outcome = await runner.run(a_job("http", {"url": server.url, "auth": "api"}))
        job = new_job(await created(store))
        fact = replace(processed(job), payload=p.TaskProcessed(job.job_id, outcome.as_json()))
        for stored in values.texts.values():
            await store.put_result(json.loads(stored))
        await store.append_facts([fact])
        async with store.deciding([job.execution_id]) as batch:
            found = batch.unapplied[job.execution_id][-1]
        whole = outcome.result if "_ref" not in outcome.result else await store.result(outcome.result["_ref"])
    finally:
        await store.close()

    assert outcome.status == "success", outcome.error
    assert isinstance(found.payload, p.TaskProcessed)
    assert found.payload.outcome["result"] == outcome.result
    shown = json.dumps(whole, allow_nan=False)
    assert "\\u0000" not in shown.replace("\\\\u0000", "")
    assert "\\ud800" not in shown
