"""The `http` sink against a real server on the loopback."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from services.worker.keychain import Credential, CredentialError
from services.worker.runner import Runner
from services.worker.sinks.http import HttpSink
from services.worker.sinks.port import SinkError, Write, Written
from services.worker.sinks.registry import Sinks
from services.worker.tools.http_exchange import Exchange
from services.worker.tools.http_guard import guard_of
from services.worker.tools.registry import Registry
from services.worker.values import MemoryValues
from shared.contracts.outcomes import Outcome, success
from shared.runtime.clock import SystemClock
from tests.support.http_server import Answer, HttpServer, answer_json
from tests.unit.worker.given import ToldTool, a_job

ROWS = [{"id": 1, "name": "Ä"}, {"id": 2, "name": None}]


@pytest.fixture
async def sink() -> AsyncIterator[HttpSink]:
    sink = HttpSink()
    yield sink
    await sink.close()


async def written(sink: HttpSink, data: Any = ROWS, *, job_id: str = "job-1", **config: Any) -> Written:
    more = {name: config.pop(name) for name in ("timeout_s", "lend") if name in config}
    return await sink.write(Write(job_id, "e1", "fetch~1.get#1", config, data, **more))


async def refused(sink: HttpSink, data: Any = ROWS, **config: Any) -> SinkError:
    with pytest.raises(SinkError) as caught:
        await written(sink, data, **config)
    assert "s3cret" not in caught.value.message
    return caught.value


@pytest.mark.parametrize("data", [ROWS, {"id": 1}, [], "text", 3, None, [1, "a"]])
async def test_the_data_is_sent_as_json_with_the_identity_of_the_write(sink: HttpSink, data: Any) -> None:
    async with HttpServer(answer_json({}, 201)) as server:
        await written(sink, data, url=server.url)

    (request,) = server.requests
    assert request.method == "POST"
    assert request.headers["content-type"] == "application/json"
    assert request.headers["idempotency-key"] == "job-1"
    assert request.json == data


async def test_it_says_how_many_rows_went_and_what_was_answered(sink: HttpSink) -> None:
    async with HttpServer(answer_json({}, 202)) as server:
        found = await written(sink, url=server.url)

    assert found == Written(2, details={"status": 202})


@pytest.mark.parametrize(
    ("config", "body"),
    [
        ({"json": {"rows": [1]}}, b'{"rows":[1]}'),
        ({"body": "plain"}, b"plain"),
        ({"form": {"a": 1}}, b"a=1"),
    ],
)
async def test_what_the_sink_says_itself_is_sent_instead(sink: HttpSink, config: dict[str, Any], body: bytes) -> None:
    async with HttpServer(answer_json({})) as server:
        await written(sink, url=server.url, method="put", **config)

    assert (server.requests[0].method, server.requests[0].body) == ("PUT", body)


async def test_a_write_that_comes_again_has_the_same_key_and_another_has_another(sink: HttpSink) -> None:
    async with HttpServer(answer_json({})) as server:
        for job_id in ("job-1", "job-1", "job-2"):
            await written(sink, url=server.url, job_id=job_id)

    assert [request.headers["idempotency-key"] for request in server.requests] == ["job-1", "job-1", "job-2"]
    assert server.connections == 1


@pytest.mark.parametrize(
    ("status", "cause", "retryable"),
    [
        (429, "rate_limit", True), (503, "server_error", True), (401, "auth", False), (409, "client_error", False),
        (302, "client_error", False),
    ],
)  # fmt: skip
async def test_a_status_that_is_not_expected_is_an_error_of_the_sink(
    sink: HttpSink, status: int, cause: str, retryable: bool
) -> None:
    async with HttpServer(answer_json({"why": "so"}, status)) as server:
        error = await refused(sink, url=f"{server.url}/x?key=s3cret")

    assert (error.code, error.cause, error.retryable) == (status, cause, retryable)


async def test_a_status_that_is_expected_is_none(sink: HttpSink) -> None:
    async with HttpServer(answer_json({}, 409)) as server:
        found = await written(sink, url=server.url, expect=["2xx", 409])

    assert found.details == {"status": 409}


async def test_a_credential_is_sent(sink: HttpSink) -> None:
    async def lend(auth: Any) -> Credential:
        return Credential(str(auth), "bearer", {"token": "s3cret"})

    async with HttpServer(answer_json({})) as server:
        await written(sink, url=server.url, auth="api", lend=lend)
        with pytest.raises(CredentialError):
            await written(sink, url=server.url, auth="unknown")

    assert [request.headers["authorization"] for request in server.requests] == ["Bearer s3cret"]


async def test_the_time_of_the_write_holds(sink: HttpSink) -> None:
    async with HttpServer(Answer(fault="silent")) as server:
        error = await refused(sink, url=server.url, timeout_s=0.05)

    assert (error.cause, error.retryable) == ("timeout", True)


async def test_a_denied_host_is_not_written_to() -> None:
    sink = HttpSink(Exchange(guard_of(["127.0.0.0/8"], [])))
    async with HttpServer(answer_json({})) as server:
        error = await refused(sink, url=server.url)
    await sink.close()

    assert (error.cause, error.code, error.retryable) == ("client_error", "denied", False)
    assert server.requests == []


@pytest.mark.parametrize(
    ("config", "data", "complaint"),
    [
        ({}, ROWS, "url"),
        ({"url": "ftp://x/"}, ROWS, "url"),
        ({"url": "http://127.0.0.1:1/", "mode": "upsert"}, ROWS, "mode"),
        ({"url": "http://127.0.0.1:1/", "key": ["id"]}, ROWS, "key"),
        ({"url": "http://127.0.0.1:1/", "tabel": "x"}, ROWS, "tabel"),
        ({"url": "http://127.0.0.1:1/"}, {"s3cret": float("nan")}, "JSON"),
    ],
)
async def test_what_cannot_be_sent_is_an_error_that_says_why(
    sink: HttpSink, config: dict[str, Any], data: Any, complaint: str
) -> None:
    error = await refused(sink, data, **config)

    assert complaint in error.message
    assert (error.cause, error.retryable) == ("expression", False)


async def test_a_task_with_a_sink_succeeds_with_it_and_fails_with_it(sink: HttpSink) -> None:
    async def does(call: Any) -> Outcome:
        return success({"data": ROWS})

    runner = Runner(Registry([ToldTool(does)]), MemoryValues(), worker="w1", clock=SystemClock(), sinks=Sinks([sink]))
    async with HttpServer([answer_json({}, 201), answer_json({}, 500)]) as server:
        job = a_job("told", sink={"kind": "http", "config": {"url": server.url}})
        stored, failed = await runner.run(job), await runner.run(job)

    assert stored.meta["sink"] == {"kind": "http", "rows": 2, "repeated": False, "status": 201}
    assert json.loads(server.requests[0].body) == ROWS
    assert {request.headers["idempotency-key"] for request in server.requests} == {job.job_id}
    assert failed.error is not None
    assert (failed.error["kind"], failed.error["code"], failed.error["retryable"]) == ("sink", 500, True)
