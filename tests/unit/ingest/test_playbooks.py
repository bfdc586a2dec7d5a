"""The catalogue: registered, read, judged."""

from typing import Any

import pytest

from tests.unit.ingest.service import NOOP, RETRIED, Service, serving

YAML = {"Content-Type": "text/yaml; charset=utf-8"}
WRONG = "workflow:\n  - step: a\n    tool: {kind: nope}\n"


@pytest.mark.parametrize("kind", ["text/yaml", "application/yaml", "application/x-yaml", "text/plain"])
async def test_a_playbook_is_registered_as_text(service: Service, kind: str) -> None:
    async with service.client("run") as client:
        answer = await client.post("/api/v1/playbooks", content=NOOP, headers={"Content-Type": kind})

    body = answer.json()
    assert answer.status_code == 201
    assert (body["path"], body["version"], body["created"]) == ("tests/greet", 1, True)
    assert answer.headers["Location"] == "/api/v1/playbooks/tests/greet/versions/1"
    assert answer.headers["ETag"] == f'"{body["digest"]}"'


async def test_a_playbook_is_registered_as_json(service: Service) -> None:
    async with service.client("run") as client:
        answer = await client.post("/api/v1/playbooks", json={"source": NOOP})

    assert (answer.status_code, answer.json()["path"]) == (201, "tests/greet")


async def test_unchanged_text_is_the_same_version_and_changed_text_the_next(service: Service) -> None:
    async with service.client("run") as client:
        answers = [
            await client.post("/api/v1/playbooks", content=text, headers=YAML)
            for text in (NOOP, NOOP, NOOP + "# more\n", NOOP)
        ]

    assert [(answer.status_code, answer.json()["version"]) for answer in answers] == [
        (201, 1),
        (200, 1),
        (201, 2),
        (201, 3),
    ]


@pytest.mark.parametrize(
    ("source", "asked", "expected"),
    [
        ("workflow: [{step: a}]", None, "playbook"),
        ("workflow: [{step: a}]", "team/mine", "team/mine"),
        ("metadata: {name: mine}\nworkflow: [{step: a}]", None, "mine"),
        (NOOP, "tests/greet", "tests/greet"),
    ],
)
async def test_a_playbook_goes_where_its_text_or_the_request_says(
    service: Service, source: str, asked: str | None, expected: str
) -> None:
    async with service.client("run") as client:
        in_query = await client.post(
            "/api/v1/playbooks", content=source, headers=YAML, params={"path": asked} if asked else {}
        )
        in_body = await client.post("/api/v1/playbooks", json={"source": source, "path": asked})

    assert in_query.json()["path"] == in_body.json()["path"] == expected


@pytest.mark.parametrize(
    "body",
    [
        {"source": NOOP, "path": "other/place"},
        {"source": "metadata: {path: 'a b'}\nworkflow: [{step: a}]"},
        {"source": "metadata: {path: 'a/versions/2'}\nworkflow: [{step: a}]"},
        {"source": "metadata: {path: '../a'}\nworkflow: [{step: a}]"},
        {"source": NOOP, "path": "../a"},
        {"source": ""},
        {"source": 1},
        {"source": NOOP, "sauce": 1},
        {},
        [],
    ],
)
async def test_what_cannot_be_registered_is_refused(service: Service, body: Any) -> None:
    async with service.client("run") as client:
        answer = await client.post("/api/v1/playbooks", json=body)

    assert answer.status_code == 422
    assert answer.json()["errors"]


async def test_a_wrong_playbook_is_refused_with_every_place_and_hint(service: Service) -> None:
    async with service.client("run") as client:
        answer = await client.post("/api/v1/playbooks", content=WRONG, headers=YAML)
        listed = await client.get("/api/v1/playbooks")

    (error,) = answer.json()["errors"]
    assert answer.status_code == 422
    assert (error["line"], error["column"]) == (3, 18)
    assert "nope" in error["message"]
    assert error["hint"]
    assert listed.json()["items"] == []


@pytest.mark.parametrize("content", [b"\xff\xfe\x00", b"a: \x00", b"", b"a: [", b"&a [*a, *a]"])
async def test_a_text_that_is_no_yaml_is_refused(service: Service, content: bytes) -> None:
    async with service.client("run") as client:
        answer = await client.post("/api/v1/playbooks", content=content, headers=YAML)

    assert answer.status_code == 422


@pytest.mark.parametrize("kind", ["image/png", "multipart/form-data", ""])
async def test_a_body_of_another_type_is_refused(service: Service, kind: str) -> None:
    async with service.client("run") as client:
        answer = await client.post("/api/v1/playbooks", content=NOOP, headers={"Content-Type": kind})

    assert answer.status_code == 415


async def test_validation_says_what_is_wrong_and_stores_nothing(service: Service) -> None:
    async with service.client("read") as client:
        wrong = (await client.post("/api/v1/playbooks/validate", content=WRONG, headers=YAML)).json()
        right = (await client.post("/api/v1/playbooks/validate", json={"source": RETRIED})).json()
        listed = await client.get("/api/v1/playbooks")

    assert wrong["valid"] is False
    assert wrong["errors"][0]["line"] == 3
    assert right["valid"] is True
    assert right["path"] == "tests/fetch"
    assert {item["severity"] for item in right["warnings"]} <= {"warning", "info"}
    assert listed.json()["items"] == []


async def test_a_playbook_is_read_with_its_text_and_its_plan(service: Service) -> None:
    async with service.client("run") as client:
        for source in (NOOP, NOOP + "# more\n"):
            await client.post("/api/v1/playbooks", content=source, headers=YAML)
        latest = (await client.get("/api/v1/playbooks/tests/greet")).json()
        first = (await client.get("/api/v1/playbooks/tests/greet/versions/1")).json()
        text = await client.get("/api/v1/playbooks/tests/greet?format=yaml")
        versions = (await client.get("/api/v1/playbooks/tests/greet/versions")).json()

    assert (latest["version"], first["version"]) == (2, 1)
    assert first["source"] == NOOP
    assert first["plan"]["v"] == 1
    assert text.text == NOOP + "# more\n"
    assert text.headers["Content-Type"].startswith("text/yaml")
    assert [item["version"] for item in versions["items"]] == [2, 1]


@pytest.mark.parametrize(
    "path", ["nowhere", "tests/greet/versions/9", "nowhere/versions", "nowhere/versions/1", "%00", "a%20b"]
)
async def test_a_playbook_that_is_not_there_is_not_found(service: Service, path: str) -> None:
    async with service.client("run") as client:
        await client.post("/api/v1/playbooks", content=NOOP, headers=YAML)
        answer = await client.get(f"/api/v1/playbooks/{path}")

    assert answer.status_code == 404


async def test_the_catalogue_is_read_a_page_at_a_time(service: Service) -> None:
    async with service.client("run") as client:
        for name in "cab":
            await client.post("/api/v1/playbooks", json={"source": "workflow: [{step: a}]", "path": name})
        first = (await client.get("/api/v1/playbooks?limit=2")).json()
        second = (await client.get(f"/api/v1/playbooks?limit=2&cursor={first['cursor']}")).json()

    assert [item["path"] for item in first["items"] + second["items"]] == ["a", "b", "c"]
    assert second["cursor"] is None


async def test_the_schema_of_the_language_is_there_for_editors(service: Service) -> None:
    async with service.client(None) as client:
        answer = await client.get("/api/v1/schema/playbook.json")

    assert answer.json()["title"] == "Redrive playbook"


async def test_a_body_over_the_limit_is_refused_without_being_read_to_its_end() -> None:
    async with serving(body_limit=1024) as service, service.client("run") as client:
        declared = await client.post("/api/v1/playbooks", content=b"#" * 1025, headers=YAML)

        async def chunks() -> Any:
            for _ in range(3):
                yield b"#" * 512

        streamed = await client.post("/api/v1/playbooks", content=chunks(), headers=YAML)
        json_body = await client.post("/api/v1/executions", json={"path": "a" * 2000})

    assert declared.status_code == streamed.status_code == json_body.status_code == 413
    assert declared.json()["title"] == "The body is too large"
