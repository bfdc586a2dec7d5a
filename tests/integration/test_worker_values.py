"""Stored values over HTTP, against a real server on the loopback."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator

import pytest

from services.worker.values import HttpValues, MissingValueError
from shared.engine.world import canonical_json, reference_to
from shared.errors import RejectedError, UnavailableError
from tests.support.http_server import Answer, HttpServer, Request, answer_json

REF = "sha256:" + "a" * 64


class Kept:
    """What ingest does with values, as far as a worker sees it."""

    def __init__(self) -> None:
        self.texts: dict[str, bytes] = {}

    def __call__(self, request: Request) -> Answer:
        if request.headers.get("authorization") != "Bearer t0ken":
            return answer_json({}, 401)
        if request.method == "POST":
            reference = reference_to(request.body.decode())
            self.texts[reference["_ref"]] = request.body
            return answer_json(reference, 201)
        found = self.texts.get(request.path.rpartition("/")[2])
        return answer_json({}, 404) if found is None else Answer(body=found)


@pytest.fixture
async def server() -> AsyncIterator[HttpServer]:
    async with HttpServer(Kept()) as server:
        yield server


async def test_a_value_that_was_stored_can_be_loaded(server: HttpServer) -> None:
    values = HttpValues(server.url, "t0ken")
    value = {"rows": ["ü"] * 50_000}
    reference = await values.store(canonical_json(value))

    assert await values.load(reference["_ref"]) == value
    assert reference == reference_to(canonical_json(value))
    await values.close()


async def test_a_value_is_loaded_once_and_remembered(server: HttpServer) -> None:
    values = HttpValues(server.url, "t0ken")
    reference = await values.store("[1]")
    for _ in range(3):
        assert await values.load(reference["_ref"]) == [1]

    assert [request.method for request in server.requests] == ["POST", "GET"]
    await values.close()


async def test_the_results_of_a_loop_may_change_and_are_loaded_each_time() -> None:
    async with HttpServer([answer_json([1]), answer_json([1, 2])]) as server:
        values = HttpValues(server.url, "t0ken")

        assert await values.load("loop:e1:fetch~1") == [1]
        assert await values.load("loop:e1:fetch~1") == [1, 2]
        assert server.requests[0].path == "/api/v1/results/loop:e1:fetch~1"
        await values.close()


async def test_a_value_that_is_not_there_is_missing(server: HttpServer) -> None:
    values = HttpValues(server.url, "t0ken")

    with pytest.raises(MissingValueError):
        await values.load(REF)
    await values.close()


async def test_a_worker_that_is_not_let_in_does_not_try_again(server: HttpServer) -> None:
    values = HttpValues(server.url, "wrong")

    with pytest.raises(RejectedError):
        await values.store("1")
    assert len(server.requests) == 1
    await values.close()


async def test_a_server_that_comes_back_is_waited_for() -> None:
    answers = [answer_json({}, 503), Answer(fault="cut"), Answer(body=json.dumps({"a": 1}).encode())]
    async with HttpServer(answers) as server:
        values = HttpValues(server.url, "t0ken")

        assert await values.load(REF) == {"a": 1}
        assert len(server.requests) == 3
        await values.close()


async def test_patience_comes_to_an_end() -> None:
    async with HttpServer(answer_json({}, 503)) as server:
        values = HttpValues(server.url, "t0ken", patience_s=0.05)

        with pytest.raises(UnavailableError):
            await values.load(REF)
        await values.close()
