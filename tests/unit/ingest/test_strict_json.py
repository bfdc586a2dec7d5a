"""JSON that is taken, and JSON that is not."""

import json

import pytest

from services.ingest.problems import Problem
from services.ingest.strict_json import MAX_DEPTH, parse
from tests.unit.ingest.service import Service


@pytest.mark.parametrize(
    "value",
    [None, 0, -1.5, 2**63 - 1, -(2**63) + 1, "", "ü😀", "\\u0000 as text", [], {"a": [{"b": None}]}, "\U0001f600"],
)
def test_what_can_be_stored_is_read_as_it_is(value: object) -> None:
    assert parse(json.dumps(value).encode()) == value
    assert parse(json.dumps(value, ensure_ascii=False).encode()) == value


def test_a_list_as_deep_as_allowed_is_read_and_a_deeper_one_is_not() -> None:
    assert parse(b"[" * MAX_DEPTH + b"]" * MAX_DEPTH)
    with pytest.raises(Problem, match="nested deeper"):
        parse(b"[" * (MAX_DEPTH + 1) + b"]" * (MAX_DEPTH + 1))


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b"", "no JSON"),
        (b"{", "line 1, column 2"),
        (b"{'a': 1}", "no JSON"),
        (b"[1,]", "no JSON"),
        (b"NaN", "NaN is no JSON"),
        (b'{"a": [Infinity]}', "Infinity is no JSON"),
        (b"-Infinity", "-Infinity is no JSON"),
        (b"1e999", "too large"),
        (b"9223372036854775808", "64 bits"),
        (b"-" + b"9" * 5000, "64 bits"),
        (b'"\\u0000"', "NUL"),
        (b'{"a\\u0000": 1}', "NUL"),
        (b'"\x00"', "no JSON"),
        (b'"\\ud800"', "surrogate"),
        (b'["\\udc00\\ud800"]', "surrogate"),
        (b'"\xff"', "not UTF-8"),
        (b'"\xed\xa0\x80"', "not UTF-8"),
        (b"[" * 100_000, "nested deeper"),
        (b'{"a":' * 100_000, "nested deeper"),
    ],
)
def test_what_cannot_be_stored_is_refused_with_the_reason(body: bytes, said: str) -> None:
    with pytest.raises(Problem) as caught:
        parse(body)

    assert caught.value.status_code == 422
    assert said in caught.value.detail
    assert len(caught.value.detail) < 200


@pytest.mark.parametrize("body", [b'{"workload": {"a": NaN}}', b'{"workload": {"a": "\\u0000"}}'])
@pytest.mark.parametrize("path", ["/api/v1/executions", "/api/v1/events", "/api/v1/results", "/api/v1/playbooks"])
async def test_every_endpoint_reads_json_strictly(service: Service, path: str, body: bytes) -> None:
    async with service.client() as client:
        answer = await client.post(path, content=body, headers={"Content-Type": "application/json"})

    assert answer.status_code == 422
    assert answer.json()["errors"][0]["code"] == "json"
