"""Credentials over REST: kept sealed, never shown, lent to jobs that name them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from services.ingest.lending import NOTED_AGAIN_S
from shared.contracts.ids import Address, job_id
from shared.runtime.sealing import Keyring, new_key, parse_ring
from tests.unit.ingest.service import NOBODY, Service, serving

SECRET = "s3cret-of-the-tests"
BEARER = {"kind": "bearer", "fields": {"token": SECRET}}
PLAYBOOK = """
metadata: {name: use, path: tests/use}
workflow:
  - step: use
    tool:
      - {name: call, kind: http, url: "http://x", auth: api}
      - {name: rest, kind: noop}
"""
CHOSEN = """
workflow:
  - {step: use, tool: {name: call, kind: http, url: "http://x", auth: "{{ workload.name }}"}}
"""
URL = "/api/v1/credentials"


def ring() -> Keyring:
    found = parse_ring(new_key()).ring
    assert found is not None
    return found


@pytest.fixture
async def service() -> AsyncIterator[Service]:
    async with serving(keyring=ring()) as service:
        yield service


async def put(service: Service, name: str = "api", body: Any = None, **headers: str) -> httpx.Response:
    async with service.client() as client:
        return await client.put(f"{URL}/{name}", json=body or BEARER, headers=headers)


async def asked(service: Service, path: str = "", scope: str = "read", **params: str) -> httpx.Response:
    async with service.client(scope) as client:
        return await client.get(f"{URL}{path}", params=params)


async def lent(service: Service, name: str, job: str, scope: str = "worker") -> httpx.Response:
    return await asked(service, f"/{name}/value", scope, job_id=job)


async def begun(service: Service, playbook: str = PLAYBOOK, **workload: Any) -> str:
    """Start an execution and return its first job."""
    execution = await service.started(playbook, workload=workload)
    await service.decide(execution)
    return job_id(execution, Address("use", task="call", attempt=1))


async def test_a_credential_is_kept_sealed_and_shown_without_what_it_holds(service: Service) -> None:
    made = await put(service)

    assert made.status_code == 201
    assert made.json() == {**made.json(), "name": "api", "kind": "bearer"}
    kept = await service.store.credential("api")
    assert kept is not None
    assert SECRET.encode() not in kept[1].sealed
    for answer in (made, await asked(service), await asked(service, "/api")):
        assert SECRET not in answer.text
    assert [item["name"] for item in (await asked(service)).json()["items"]] == ["api"]


async def test_a_second_value_replaces_the_first_and_its_tag(service: Service) -> None:
    first = await put(service)
    second = await put(service, body={"kind": "postgres_credential", "fields": {"host": "db", "password": SECRET}})

    assert second.status_code == 200
    assert second.json()["kind"] == "postgres"
    assert first.headers["ETag"] != second.headers["ETag"] == (await asked(service, "/api")).headers["ETag"]


async def test_a_change_that_did_not_see_the_last_one_is_refused(service: Service) -> None:
    tag = (await put(service)).headers["ETag"]

    assert (await put(service, **{"If-None-Match": "*"})).status_code == 412
    assert (await put(service, "new", **{"If-Match": "*"})).status_code == 412
    assert (await put(service, **{"If-Match": tag})).status_code == 200
    assert (await put(service, **{"If-Match": tag})).status_code == 412
    async with service.client() as client:
        assert (await client.delete(f"{URL}/api", headers={"If-Match": tag})).status_code == 412
        assert (await client.delete(f"{URL}/api", headers={"If-Match": f'"x", {await tag_of(service)}'})).is_success
        assert (await client.delete(f"{URL}/api")).status_code == 404


async def tag_of(service: Service) -> str:
    return (await asked(service, "/api")).headers["ETag"]


@pytest.mark.parametrize(
    ("body", "path"),
    [
        ({"kind": "vault", "fields": {"a": SECRET}}, "kind"),
        ({"kind": "bearer", "fields": {"tokn": SECRET}}, "fields.token"),
        ({"kind": "bearer", "fields": {"token": [SECRET]}}, "fields.token"),
        ({"kind": "bearer", "fields": {}}, "fields"),
        ({"kind": "bearer", "token": SECRET}, "fields"),
    ],
)
async def test_what_does_not_fit_is_said_without_its_value(service: Service, body: Any, path: str) -> None:
    answer = await put(service, body=body)

    assert answer.status_code == 422
    assert path in [error["path"] for error in answer.json()["errors"]]
    assert SECRET not in answer.text


@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [("PUT", "/api", set()), ("DELETE", "/api", set()), ("GET", "", {"read"}), ("GET", "/api", {"read"})],
)
async def test_only_admins_change_and_only_readers_see(
    service: Service, method: str, path: str, allowed: set[str]
) -> None:
    for scope in ("read", "run", "worker", "admin"):
        async with service.client(scope) as client:
            answer = await client.request(method, f"{URL}{path}", json=BEARER if method == "PUT" else None)
        assert (answer.status_code != 403) == (scope in allowed | {"admin"}), scope


async def test_a_job_that_names_a_credential_is_lent_it_and_that_is_written_down(service: Service) -> None:
    await put(service)
    job = await begun(service)

    answer = await lent(service, "api", job)

    assert answer.json() == {"name": "api", "kind": "bearer", "fields": {"token": SECRET}}
    assert answer.headers["Cache-Control"] == "no-store"
    entry = (await service.store.noted("api"))[0].entry
    assert (entry.actor, entry.action, entry.details["job_id"]) == ("workerer", "credential.lent", job)
    assert SECRET not in str(entry)


@pytest.mark.parametrize("scope", ["read", "run", "admin"])
async def test_nobody_but_a_worker_is_lent_anything(service: Service, scope: str) -> None:
    await put(service)

    answer = await lent(service, "api", await begun(service), scope)

    assert answer.status_code == 403
    assert SECRET not in answer.text


async def test_a_job_that_does_not_name_a_credential_gets_none_and_that_is_written_down(service: Service) -> None:
    await put(service)
    await put(service, "other")
    job = await begun(service)

    answer = await lent(service, "other", job)

    assert answer.status_code == 403
    assert SECRET not in answer.text
    assert (await service.store.noted("other"))[0].entry.action == "credential.refused"
    assert (await lent(service, "nothing", job)).status_code == 403


async def test_a_job_that_is_over_gets_none(service: Service) -> None:
    await put(service)
    job = await begun(service)
    row = await service.store.job(job)
    assert row is not None
    await service.report(row.execution_id, row.node, status="success", result=1)

    answer = await lent(service, "api", job)

    assert answer.status_code == 409
    assert SECRET not in answer.text
    assert (await lent(service, "api", NOBODY)).status_code == 404


async def test_another_task_of_the_same_execution_gets_none(service: Service) -> None:
    await put(service)
    first = await service.store.job(await begun(service))
    assert first is not None
    await service.report(first.execution_id, first.node, status="success", result=1)

    answer = await lent(service, "api", job_id(first.execution_id, Address("use", task="rest", attempt=1)))

    assert answer.status_code == 403


async def test_an_expression_chooses_the_credential_of_its_own_job_alone(service: Service) -> None:
    await put(service)
    await put(service, "other")
    job = await begun(service, CHOSEN, name="other")

    assert (await lent(service, "other", job)).status_code == 200
    assert (await lent(service, "api", job)).status_code == 403


async def test_an_expression_chooses_only_from_the_keychain_where_there_is_one(service: Service) -> None:
    await put(service)
    await put(service, "other")
    playbook = f"keychain: [{{name: api}}]{CHOSEN}"

    assert (await lent(service, "other", await begun(service, playbook, name="other"))).status_code == 403
    assert (await lent(service, "api", await begun(service, playbook, name="api"))).status_code == 200


async def test_a_name_of_the_keychain_stands_for_the_stored_one(service: Service) -> None:
    await put(service, "stored")
    job = await begun(service, f"keychain: [{{name: api, kind: bearer_credential, credential: stored}}]{PLAYBOOK}")

    assert (await lent(service, "api", job)).json()["fields"] == {"token": SECRET}
    assert (await lent(service, "stored", job)).status_code == 403


async def test_a_credential_of_another_kind_than_the_playbook_needs_is_not_lent(service: Service) -> None:
    await put(service)
    job = await begun(service, f"keychain: [{{name: api, kind: postgres_credential}}]{PLAYBOOK}")

    answer = await lent(service, "api", job)

    assert answer.status_code == 409
    assert "of kind bearer; the playbook needs postgres" in answer.json()["detail"]


async def test_lending_is_written_down_once_in_a_while(service: Service) -> None:
    await put(service)
    for _ in range(3):
        await lent(service, "api", await begun(service))
    await service.clock.advance(NOTED_AGAIN_S)
    await lent(service, "api", await begun(service))

    actions = [row.entry.action for row in await service.store.noted("api")]
    assert actions == ["credential.lent", "credential.lent", "credential.set"]


async def test_a_credential_whose_key_is_gone_stays_sealed(service: Service) -> None:
    await put(service)
    service.parts.lending._keyring = ring()

    answer = await lent(service, "api", await begun(service))

    assert answer.status_code == 409
    assert "which is not configured" in answer.json()["detail"]


async def test_without_a_key_nothing_is_kept_and_it_is_said_what_to_set() -> None:
    async with serving() as service:
        for answer in (await put(service), await lent(service, "api", NOBODY)):
            assert answer.status_code == 409
            assert "REDRIVE_CREDENTIAL_KEYS" in answer.json()["detail"]
        assert (await asked(service)).json()["items"] == []
