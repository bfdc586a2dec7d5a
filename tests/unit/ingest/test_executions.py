"""Starting executions, and looking at them."""

import asyncio
from typing import Any

import pytest

from services.ingest.routes.executions import FIRST_LOOK_S
from tests.support.eventually import eventually
from tests.unit.ingest.service import NOBODY, NOOP, RETRIED, Service

GREET = {"path": "tests/greet"}


async def register(service: Service, source: str = NOOP) -> None:
    async with service.client() as client:
        answer = await client.post("/api/v1/playbooks", content=source, headers={"Content-Type": "text/yaml"})
        assert answer.status_code in (200, 201)


async def test_a_playbook_of_the_catalogue_is_started_and_its_execution_woken(service: Service) -> None:
    await register(service)

    async with service.client("run") as client:
        answer = await client.post("/api/v1/executions", json={**GREET, "labels": {"team": "data"}})

    assert answer.status_code == 202
    body = answer.json()
    assert body["path"] == "tests/greet"
    assert body["playbook_version"] == 1
    assert body["existed"] is False
    assert answer.headers["Location"] == f"/api/v1/executions/{body['execution_id']}"
    assert await service.woken() == {body["execution_id"]}


async def test_what_is_submitted_is_laid_over_the_defaults_of_the_playbook(service: Service) -> None:
    execution_id = await service.started(RETRIED, workload={"options": {"size": 50}})
    await service.decide(execution_id)

    (event,) = await service.store.events(execution_id, types={"execution.requested"})
    assert event.payload.workload == {"url": "http://api", "options": {"size": 50, "deep": True}}  # type: ignore[attr-defined]
    assert event.payload.requested_by == "adminer"  # type: ignore[attr-defined]


async def test_an_inline_playbook_is_registered_under_its_digest(service: Service) -> None:
    async with service.client() as client:
        answer = (await client.post("/api/v1/executions", json={"playbook": NOOP})).json()
        digest = (await client.get(f"/api/v1/executions/{answer['execution_id']}")).json()["plan_digest"]

    assert answer["path"] == f"inline/{digest[:12]}"


async def test_an_inline_playbook_that_is_wrong_is_refused_with_its_lines(service: Service) -> None:
    async with service.client() as client:
        answer = await client.post("/api/v1/executions", json={"playbook": "workflow:\n  - stepp: a\n"})

    assert answer.status_code == 422
    assert answer.headers["Content-Type"] == "application/problem+json"
    (first, *_) = answer.json()["errors"]
    assert (first["path"], first["line"]) == ("playbook", 2)
    assert "step" in first["message"]


@pytest.mark.parametrize(
    ("body", "path"),
    [
        ({}, None),
        ({"path": "a", "playbook": NOOP}, None),
        ({"playbook": NOOP, "version": 1}, None),
        ({**GREET, "workload": [1]}, "workload"),
        ({**GREET, "workloads": {}}, "workloads"),
        ({**GREET, "version": 0}, "version"),
        ({**GREET, "version": "1"}, "version"),
        ({**GREET, "labels": {"a": 1}}, "labels.a"),
        ({**GREET, "labels": {"a": "x\u0007"}}, "labels.a"),
        ({"path": "../etc"}, "path"),
        ({**GREET, "idempotency_key": ""}, "idempotency_key"),
    ],
)
async def test_a_body_that_is_wrong_is_refused_with_its_field(
    service: Service, body: dict[str, Any], path: str | None
) -> None:
    async with service.client() as client:
        answer = await client.post("/api/v1/executions", json=body)

    assert answer.status_code == 422
    assert answer.json()["errors"][0]["path"] == path
    assert answer.json()["status"] == 422


async def test_a_playbook_that_is_not_there_is_not_found(service: Service) -> None:
    await register(service)

    async with service.client() as client:
        unknown = await client.post("/api/v1/executions", json={"path": "tests/other"})
        version = await client.post("/api/v1/executions", json={**GREET, "version": 7})

    assert unknown.status_code == version.status_code == 404
    assert "in version 7" in version.json()["detail"]
    assert version.json()["errors"][0]["path"] == "path"


@pytest.mark.parametrize("where", ["body", "header"])
async def test_the_same_key_gives_the_same_execution(service: Service, where: str) -> None:
    await register(service)
    in_body = {"idempotency_key": "order-1"} if where == "body" else {}
    headers = {"Idempotency-Key": "order-1"} if where == "header" else {}

    async with service.client() as client:
        first, second = [
            (await client.post("/api/v1/executions", json={**GREET, **in_body}, headers=headers)).json() for _ in "12"
        ]

    assert first["existed"] is False
    assert second == {**first, "existed": True}


async def test_a_key_that_was_used_for_something_else_is_a_conflict(service: Service) -> None:
    await register(service)
    await register(service, RETRIED)

    async with service.client() as client:
        await client.post("/api/v1/executions", json={**GREET, "idempotency_key": "order-1"})
        answer = await client.post("/api/v1/executions", json={"path": "tests/fetch", "idempotency_key": "order-1"})

    assert answer.status_code == 409
    assert answer.json()["errors"][0]["path"] == "idempotency_key"


async def test_two_different_keys_in_one_request_are_refused(service: Service) -> None:
    body = {**GREET, "idempotency_key": "a"}

    async with service.client() as client:
        answer = await client.post("/api/v1/executions", json=body, headers={"Idempotency-Key": "b"})

    assert answer.status_code == 422


async def test_a_batch_is_started_together(service: Service) -> None:
    await register(service)

    async with service.client() as client:
        answer = await client.post("/api/v1/executions:batch", json={"executions": [GREET] * 30})

    items = answer.json()["items"]
    assert answer.status_code == 202
    assert await service.woken() == {item["execution_id"] for item in items}
    assert len({item["execution_id"] for item in items}) == 30


async def test_nothing_of_a_batch_is_started_if_one_of_it_cannot_be(service: Service) -> None:
    await register(service)

    async with service.client() as client:
        wrong = await client.post("/api/v1/executions:batch", json={"executions": [GREET, {"path": "nowhere"}]})
        listed = await client.get("/api/v1/executions")

    assert wrong.status_code == 404
    assert wrong.json()["errors"][0]["path"] == "executions.1.path"
    assert listed.json()["items"] == []


async def test_a_batch_that_is_sent_again_with_its_key_starts_nothing_new(service: Service) -> None:
    await register(service)
    body = {"executions": [GREET, {**GREET, "idempotency_key": "mine"}]}

    async with service.client() as client:
        answers = [
            await client.post("/api/v1/executions:batch", json=body, headers={"Idempotency-Key": "k"}) for _ in "12"
        ]

    first, second = [[item["execution_id"] for item in answer.json()["items"]] for answer in answers]
    assert first == second
    assert all(item["existed"] for item in answers[1].json()["items"])


@pytest.mark.parametrize("executions", [[], [GREET] * 1001])
async def test_a_batch_has_a_size(service: Service, executions: list[Any]) -> None:
    async with service.client() as client:
        answer = await client.post("/api/v1/executions:batch", json={"executions": executions})

    assert answer.status_code == 422


async def test_whoever_waits_gets_the_end(service: Service) -> None:
    async with service.client() as client:
        waiting = asyncio.create_task(client.post("/api/v1/executions?wait=30", json={"playbook": NOOP}))
        (execution_id,) = await eventually(service.woken)
        await service.decide(execution_id)
        await service.report(execution_id, "greet~1.greet#1", status="success", result=42)
        await service.clock.advance(1)
        answer = await waiting

    assert answer.status_code == 200
    assert answer.json()["status"] == "completed"
    assert answer.json()["progress"] == {"steps_started": 1, "steps_ended": 1}
    assert answer.headers["Location"].endswith(execution_id)


async def test_whoever_waits_in_vain_is_told_where_to_look(service: Service) -> None:
    async with service.client() as client:
        waiting = asyncio.create_task(client.post("/api/v1/executions?wait=2", json={"playbook": NOOP}))
        await eventually(service.woken)
        await service.clock.advance(2 + FIRST_LOOK_S)
        answer = await waiting

    assert answer.status_code == 202
    assert answer.json()["status"] == "new"


async def test_a_running_execution_shows_what_it_is_trying_again(service: Service) -> None:
    execution_id = await service.started(RETRIED)
    await service.decide(execution_id)
    await service.report(execution_id, "fetch~1.fetch#1", status="error", error="timeout")

    async with service.client("read") as client:
        shown = (await client.get(f"/api/v1/executions/{execution_id}")).json()

    (retry,) = shown["retrying"]
    assert (retry["step"], retry["attempt"], retry["max_attempts"]) == ("fetch", 2, 3)
    assert retry["available_at"] == "2024-01-01T00:00:01Z"
    assert shown["status"] == "running"
    assert shown["created_at"] == "2024-01-01T00:00:00Z"


@pytest.mark.parametrize("path", [NOBODY, f"{NOBODY}/events", f"{NOBODY}/explain", f"{NOBODY}/events/stream", "x"])
async def test_an_execution_that_is_not_there_is_not_found(service: Service, path: str) -> None:
    async with service.client() as client:
        answer = await client.get(f"/api/v1/executions/{path}")

    assert answer.status_code == 404
    assert answer.headers["Content-Type"] == "application/problem+json"


async def test_executions_are_listed_by_what_is_asked_of_them(service: Service) -> None:
    done = await service.finished(labels={"team": "data"})
    await service.clock.advance(60)
    running = await service.started(RETRIED, labels={"team": "web"})
    await service.decide(running)
    asked = {
        "": [running, done],
        "status=completed": [done],
        "label=team=web": [running],
        "label=team=web&label=x=y": [],
        "since=2024-01-01T00:00:30Z": [running],
        "since=2024-01-01T02:00:30%2B02:00": [running],
        f"q={done[:20]}": [done],
        "path=tests/greet": [],
    }

    async with service.client("read") as client:
        for query, expected in asked.items():
            answer = await client.get(f"/api/v1/executions?{query}")
            assert [item["execution_id"] for item in answer.json()["items"]] == expected, query


async def test_a_list_is_read_a_page_at_a_time(service: Service) -> None:
    started = []
    for _ in range(5):
        started.append(await service.started())
        await service.clock.advance(1)
    seen: list[str] = []
    page: dict[str, Any] = {}
    cursor = ""

    async with service.client("read") as client:
        for _ in range(3):
            page = (await client.get(f"/api/v1/executions?limit=2{cursor}")).json()
            seen += [item["execution_id"] for item in page["items"]]
            cursor = f"&cursor={page['cursor']}"

    assert seen == started[::-1]
    assert page["cursor"] is None


@pytest.mark.parametrize(
    "query",
    [
        "status=done", "stauts=failed", "limit=0", "limit=1001", "cursor=nonsense", "cursor=!",
        "since=yesterday", "since=1714560000", "since=2024-01-01T00:00:00", "since=0001-01-01T00:00:00%2B14:00",
        "label=team", "q=%00", "path=%01",
    ],
)  # fmt: skip
async def test_a_question_that_makes_no_sense_is_refused(service: Service, query: str) -> None:
    async with service.client("read") as client:
        answer = await client.get(f"/api/v1/executions?{query}")

    assert answer.status_code == 422, answer.text
    assert answer.json()["errors"]
