"""Stored values, loaded and put."""

import json

import pytest

from services.ingest.routes import results
from shared.engine.world import canonical_json, reference_to
from tests.unit.ingest.service import Service, serving

LOOP = """\
workflow:
  - step: each
    loop: {in: [1, 2, 3], iterator: number, mode: parallel, tolerate: 3}
    tool: {kind: noop, name: each}
"""


async def test_a_value_is_stored_under_the_hash_of_its_contents(service: Service) -> None:
    value = {"b": [1, 2.5, None], "a": "ü"}

    async with service.client("worker") as client:
        stored = await client.post("/api/v1/results", json=value)
        again = await client.post("/api/v1/results", json=value)
        loaded = await client.get(f"/api/v1/results/{stored.json()['_ref']}")

    assert stored.status_code == 201
    assert stored.json() == again.json() == reference_to(canonical_json(value))
    assert loaded.json() == value
    assert loaded.headers["ETag"] == f'"{stored.json()["_ref"]}"'
    assert "immutable" in loaded.headers["Cache-Control"]


async def test_a_large_value_goes_through(service: Service) -> None:
    text = canonical_json(["x" * 1000] * 20_000)
    headers = {"Content-Type": "application/json"}

    async with service.client("worker") as client:
        stored = await client.post("/api/v1/results", content=text, headers=headers)
        loaded = await client.get(f"/api/v1/results/{stored.json()['_ref']}")

    assert len(text) > 20_000_000
    assert loaded.text == text
    assert len(stored.text) < 1000


@pytest.mark.parametrize(
    ("wanted", "start", "end"),
    [("bytes=0-9", 0, 10), ("bytes=10-", 10, None), ("bytes=-5", -5, None), ("bytes=3-99999", 3, None)],
)
async def test_a_part_of_a_value_is_loaded(service: Service, wanted: str, start: int, end: int | None) -> None:
    text = canonical_json(list(range(100)))

    async with service.client("worker") as client:
        ref = (await client.post("/api/v1/results", json=list(range(100)))).json()["_ref"]
        answer = await client.get(f"/api/v1/results/{ref}", headers={"Range": wanted})

    assert answer.status_code == 206
    assert answer.text == text[start:end]
    first = start if start >= 0 else len(text) + start
    assert answer.headers["Content-Range"] == f"bytes {first}-{first + len(answer.text) - 1}/{len(text)}"


@pytest.mark.parametrize(("wanted", "expected"), [("bytes=5000-", 416), ("lines=1-2", 200), ("bytes=9-3", 416)])
async def test_a_range_that_is_not_there(service: Service, wanted: str, expected: int) -> None:
    async with service.client("worker") as client:
        ref = (await client.post("/api/v1/results", json=[1, 2, 3])).json()["_ref"]
        answer = await client.get(f"/api/v1/results/{ref}", headers={"Range": wanted})

    assert answer.status_code == expected


@pytest.mark.parametrize("ref", [f"sha256:{'0' * 64}", "sha256:x", "loop:x", "other", "loop:a/b"])
async def test_a_reference_to_nothing_is_not_found(service: Service, ref: str) -> None:
    async with service.client("worker") as client:
        whole = await client.get(f"/api/v1/results/{ref}")
        part = await client.get(f"/api/v1/results/{ref}", headers={"Range": "bytes=0-1"})

    assert whole.status_code == part.status_code == 404, whole.text


async def test_a_value_has_a_limit_of_its_own() -> None:
    async with serving(body_limit=1024, result_limit=2048) as service, service.client("worker") as client:
        small = await client.post("/api/v1/results", json="x" * 2000)
        large = await client.post("/api/v1/results", json="x" * 2050)

    assert (small.status_code, large.status_code) == (201, 413)


@pytest.mark.parametrize(("kind", "expected"), [("text/plain", 415), ("application/json", 422)])
async def test_what_is_no_json_is_refused(service: Service, kind: str, expected: int) -> None:
    async with service.client("worker") as client:
        answer = await client.post("/api/v1/results", content=b"{", headers={"Content-Type": kind})

    assert answer.status_code == expected


@pytest.mark.parametrize("page", [1, 2, 1000])
@pytest.mark.parametrize(
    ("statuses", "expected"),
    [
        (["success", "error", "success"], [0, None, 20]),
        (["error", "success", "error"], [None, 10, None]),
        (["error", "error", "error"], [None, None, None]),
    ],
)
async def test_the_results_of_a_loop_are_one_list(
    service: Service, monkeypatch: pytest.MonkeyPatch, statuses: list[str], expected: list[int | None], page: int
) -> None:
    monkeypatch.setattr(results, "PAGE", page)
    execution_id = await service.started(LOOP)
    await service.decide(execution_id)
    for index, status in enumerate(statuses):
        await service.report(execution_id, f"each~1[{index}].each#1", status=status, result=index * 10)
    ref = f"loop:{execution_id}/each~1"

    async with service.client("worker") as client:
        answer = await client.get(f"/api/v1/results/{ref}")

    assert json.loads(answer.text) == await service.store.result(ref) == expected
