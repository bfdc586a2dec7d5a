"""Credentials over HTTP, against real servers on the loopback: asked for once, remembered for a while, renewed."""

from __future__ import annotations

import asyncio
import base64
from typing import Any
from urllib.parse import parse_qs

import pytest

from services.worker.credentials import HttpKeychain
from services.worker.keychain import Borrowed, Credential, CredentialError
from services.worker.oauth2 import Tokens
from shared.contracts.ids import Address
from shared.contracts.jobs import Job
from shared.errors import UnavailableError
from shared.runtime.clock import ManualClock
from tests.support.http_server import Answer, HttpServer, Request, answer_json

SECRET = "client-s3cret/1"
BEARER = {"name": "api", "kind": "bearer", "fields": {"token": "t0ken-of-api"}}


def a_job(execution: str = "e1", task: str = "call", number: int = 1) -> Job:
    return Job(f"{execution}-{task}-{number}", execution, Address("use", task=task, attempt=number), "http")


def client(url: str, **more: Any) -> Credential:
    fields = {"token_url": f"{url}/token", "client_id": "me", "client_secret": SECRET, **more}
    return Credential("idp", "oauth2", fields)


def stored(credential: Credential) -> dict[str, Any]:
    return {"name": credential.name, "kind": credential.kind, "fields": dict(credential.fields)}


def issued(number: int, expires_in: Any = 3600) -> Answer:
    return answer_json({"access_token": f"t0ken-{number}", "token_type": "Bearer", "expires_in": expires_in})


async def failure_of(keychain: HttpKeychain, name: str = "api") -> dict[str, Any]:
    with pytest.raises(CredentialError) as caught:
        await Borrowed(keychain, a_job()).credential(name)
    assert caught.value.outcome.error is not None
    return caught.value.outcome.error


async def test_a_credential_is_asked_for_with_the_job_and_the_workers_key() -> None:
    async with HttpServer(answer_json(BEARER)) as server:
        keychain = HttpKeychain(server.url, "w0rker")
        found = await keychain.credential("a/b", a_job())
        await keychain.close()

    assert found == Credential("a/b", "bearer", {"token": "t0ken-of-api"})
    (request,) = server.requests
    assert request.path == "/api/v1/credentials/a%2Fb/value"
    assert request.headers["authorization"] == "Bearer w0rker"
    assert "job_id=e1-call-1" in request.target


async def test_other_jobs_of_the_same_task_are_lent_the_same_answer_for_a_while() -> None:
    clock = ManualClock()
    async with HttpServer(answer_json(BEARER)) as server:
        keychain = HttpKeychain(server.url, "", remember_s=300, clock=clock)
        await asyncio.gather(*(keychain.credential("api", a_job(number=number)) for number in range(1, 20)))
        assert len(server.requests) == 1
        await clock.advance(301)
        await keychain.credential("api", a_job(number=30))
        await keychain.close()

    assert len(server.requests) == 2


@pytest.mark.parametrize("other", [a_job(execution="e2"), a_job(task="rest")])
async def test_a_job_of_another_task_or_execution_is_asked_for_itself(other: Job) -> None:
    async with HttpServer([answer_json(BEARER), answer_json({"detail": "no"}, 403)]) as server:
        keychain = HttpKeychain(server.url, "")
        await keychain.credential("api", a_job())
        with pytest.raises(CredentialError):
            await keychain.credential("api", other)
        await keychain.close()

    assert len(server.requests) == 2


@pytest.mark.parametrize("status", [401, 403, 404, 409, 422])
async def test_a_refusal_is_an_outcome_that_says_why(status: int) -> None:
    async with HttpServer(answer_json({"detail": "the task does not name it"}, status)) as server:
        keychain = HttpKeychain(server.url, "")
        error = await failure_of(keychain)
        await keychain.close()

    assert (error["kind"], error["retryable"]) == ("auth", False)
    assert "the task does not name it" in error["message"]


async def test_an_answer_that_is_none_is_an_outcome() -> None:
    async with HttpServer(Answer(body=b"<html>")) as server:
        keychain = HttpKeychain(server.url, "")
        assert (await failure_of(keychain))["kind"] == "auth"
        await keychain.close()


async def test_a_server_that_is_down_for_a_moment_is_asked_again() -> None:
    async with HttpServer([answer_json({}, 503), Answer(fault="cut"), answer_json(BEARER)]) as server:
        keychain = HttpKeychain(server.url, "")
        found = await keychain.credential("api", a_job())
        await keychain.close()

    assert found is not None
    assert len(server.requests) == 3


async def test_a_server_that_stays_down_is_a_failure_that_may_be_retried() -> None:
    keychain = HttpKeychain("http://127.0.0.1:1", "", patience_s=0)
    error = await failure_of(keychain)
    with pytest.raises(UnavailableError):
        await keychain.credential("api", a_job())
    await keychain.close()

    assert (error["kind"], error["retryable"]) == ("connection", True)


async def test_one_who_gives_up_does_not_take_the_answer_from_the_others() -> None:
    async with HttpServer(answer_json(BEARER)) as server:
        keychain = HttpKeychain(server.url, "")
        first = asyncio.create_task(keychain.credential("api", a_job()))
        second = asyncio.create_task(keychain.credential("api", a_job(number=2)))
        await asyncio.sleep(0)
        first.cancel()
        assert await second is not None
        await keychain.close()

    assert len(server.requests) == 1


async def test_a_credential_that_was_not_accepted_is_asked_for_anew() -> None:
    changed = {**BEARER, "fields": {"token": "changed-t0ken"}}
    async with HttpServer([answer_json(BEARER), answer_json(changed)]) as server:
        keychain = HttpKeychain(server.url, "")
        first = await keychain.credential("api", a_job())
        assert first is not None
        await keychain.refused(first, a_job())
        second = await keychain.credential("api", a_job())
        await keychain.close()

    assert second is not None
    assert second.fields == {"token": "changed-t0ken"}


async def test_a_client_is_lent_as_its_token_and_its_secret_stays_hidden() -> None:
    async with HttpServer(issued(1)) as idp, HttpServer(answer_json(stored(client(idp.url)))) as server:
        keychain = HttpKeychain(server.url, "")
        borrowed = Borrowed(keychain, a_job())
        found = await borrowed.credential({"type": "oauth2", "credential": "idp"})
        await borrowed.credential({"type": "bearer", "credential": "idp"})
        await keychain.close()

    assert (found.kind, found.fields) == ("bearer", {"token": "t0ken-1"})
    assert {"t0ken-1", SECRET} <= set(borrowed.secrets)
    assert SECRET not in repr(found)


@pytest.mark.parametrize("style", ["body", "basic"])
async def test_a_token_is_asked_for_as_the_server_wants_it(style: str) -> None:
    async with HttpServer(issued(1)) as idp:
        tokens = Tokens(ManualClock())
        await tokens.token(client(idp.url, auth_style=style, scope="read write", audience="them"))
        await tokens.close()

    (request,) = idp.requests
    form = {name: values[0] for name, values in parse_qs(request.body.decode()).items()}
    expected = {"grant_type": "client_credentials", "scope": "read write", "audience": "them"}
    if style == "body":
        assert form == {**expected, "client_id": "me", "client_secret": SECRET}
        assert "authorization" not in request.headers
    else:
        assert form == expected
        pair = base64.b64decode(request.headers["authorization"].removeprefix("Basic ")).decode()
        assert pair == "me:client-s3cret%2F1"


async def test_a_token_is_fetched_once_for_all_who_want_it_and_renewed_before_it_expires() -> None:
    clock = ManualClock()
    answers = iter(range(1, 100))

    def script(request: Request) -> Answer:
        return issued(next(answers), 600)

    async with HttpServer(script) as idp:
        tokens = Tokens(clock)
        found = await asyncio.gather(*(tokens.token(client(idp.url)) for _ in range(20)))
        assert set(found) == {"t0ken-1"}
        await clock.advance(539)
        assert await tokens.token(client(idp.url)) == "t0ken-1"
        await clock.advance(2)
        assert await tokens.token(client(idp.url)) == "t0ken-2"
        await tokens.close()

    assert len(idp.requests) == 2


@pytest.mark.parametrize(("said", "for_s"), [(30, 15), ("600", 540), (None, 240), ("soon", 240), (0, 0), (-5, 0)])
async def test_how_long_a_token_is_kept_follows_from_what_is_said_of_it(said: Any, for_s: float) -> None:
    clock = ManualClock()
    async with HttpServer([issued(1, said), issued(2, said)]) as idp:
        tokens = Tokens(clock)
        await tokens.token(client(idp.url))
        if for_s:
            await clock.advance(for_s - 1)
            assert await tokens.token(client(idp.url)) == "t0ken-1"
        await clock.advance(2)
        assert await tokens.token(client(idp.url)) == "t0ken-2"
        await tokens.close()


async def test_another_secret_of_the_same_name_gets_a_token_of_its_own() -> None:
    async with HttpServer([issued(1), issued(2)]) as idp:
        tokens = Tokens(ManualClock())
        first = await tokens.token(client(idp.url))
        second = await tokens.token(client(idp.url, client_secret="another"))
        await tokens.close()

    assert (first, second) == ("t0ken-1", "t0ken-2")


async def test_a_token_that_was_not_accepted_is_not_used_again() -> None:
    async with HttpServer([issued(1), issued(2)]) as idp, HttpServer(answer_json(stored(client(idp.url)))) as server:
        keychain = HttpKeychain(server.url, "")
        first = await keychain.credential("idp", a_job())
        assert first is not None
        await keychain.refused(first, a_job())
        second = await keychain.credential("idp", a_job())
        assert second is not None
        # Somebody else is late to say so of the first one.
        await keychain.refused(first, a_job())
        third = await keychain.credential("idp", a_job())
        await keychain.close()

    assert third is not None
    assert second.fields == third.fields == {"token": "t0ken-2"}


@pytest.mark.parametrize(
    ("answer", "kind", "said"),
    [
        (
            answer_json({"error": "invalid_client", "error_description": SECRET}, 401),
            "auth",
            "HTTP 401 (invalid_client)",
        ),
        (answer_json({"error": SECRET}, 400), "auth", "HTTP 400"),
        (answer_json({"error": "later"}, 503), "connection", "HTTP 503"),
        (answer_json({}, 429), "connection", "HTTP 429"),
        (Answer(302, b"", {"Location": "http://127.0.0.1:1/"}), "auth", "HTTP 302"),
        (answer_json({"token": SECRET}), "auth", "without a bearer token"),
        (answer_json({"access_token": "t", "token_type": "mac"}), "auth", "without a bearer token"),
        (Answer(200, b"x" * 300_000), "auth", "without a bearer token"),
        (Answer(fault="cut"), "connection", "its token endpoint"),
    ],
)
async def test_no_token_is_an_outcome_that_gives_nothing_away(answer: Answer, kind: str, said: str) -> None:
    async with HttpServer(answer) as idp:
        tokens = Tokens(ManualClock())
        with pytest.raises(CredentialError) as caught:
            await tokens.token(client(idp.url))
        await tokens.close()

    error = caught.value.outcome.error
    assert error is not None
    assert (error["kind"], error["retryable"]) == (kind, kind == "connection")
    assert said in error["message"]
    assert SECRET not in str(error)


async def test_a_failed_fetch_is_not_remembered() -> None:
    async with HttpServer([answer_json({}, 503), issued(1)]) as idp:
        tokens = Tokens(ManualClock())
        with pytest.raises(CredentialError):
            await tokens.token(client(idp.url))
        assert await tokens.token(client(idp.url)) == "t0ken-1"
        await tokens.close()
