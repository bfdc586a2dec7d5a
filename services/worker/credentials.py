"""Credentials from ingest: asked for with the job that names them, remembered for minutes, tokens kept fresh."""

from __future__ import annotations

from typing import Any, TypeAlias
from urllib.parse import quote

import httpx
from typing_extensions import override

from services.worker.keychain import Credential, CredentialError, Keychain
from services.worker.oauth2 import Tokens
from services.worker.remembering import Remembered
from shared.contracts.jobs import Job
from shared.contracts.outcomes import failure
from shared.errors import UnavailableError
from shared.runtime.clock import Clock, SystemClock
from shared.runtime.http_client import api_client

FIRST_PAUSE_S = 0.1
LONGEST_PAUSE_S = 2.0

Place: TypeAlias = tuple[str, str, str | None, str]
"""For which task of which execution a credential was lent, and its name."""


class HttpKeychain(Keychain):
    """Asks ingest, which looks whether the job may have the credential.

    What it answered is remembered for the other jobs of the same task of the same execution, and for no others.
    """

    def __init__(
        self,
        url: str,
        token: str,
        *,
        remember_s: float = 300.0,
        patience_s: float = 10.0,
        clock: Clock | None = None,
        tokens: Tokens | None = None,
    ) -> None:
        self._client = api_client(url, token, answer_s=10.0, connect_s=5.0)
        self._clock = clock or SystemClock()
        self._patience_s = patience_s
        self._remember_s = remember_s
        self._remembered: Remembered[Place, Credential] = Remembered(self._clock)
        self._tokens = tokens or Tokens(self._clock)

    @override
    async def credential(self, name: str, job: Job) -> Credential | None:
        stored = await self._remembered.get(_place(name, job), lambda: self._asked(name, job))
        if stored.kind != "oauth2":
            return stored
        token = await self._tokens.token(stored)
        return Credential(name, "bearer", {"token": token}, stands_for="oauth2", also_secret=stored.secrets)

    @override
    async def refused(self, credential: Credential, job: Job) -> None:
        place = _place(credential.name, job)
        stored = self._remembered.peek(place)
        self._remembered.forget(place)
        if stored is not None and stored.kind == "oauth2":
            self._tokens.forget(stored, str(credential.fields.get("token")))

    @override
    async def close(self) -> None:
        await self._remembered.close()
        await self._tokens.close()
        await self._client.aclose()

    async def _asked(self, name: str, job: Job) -> tuple[Credential, float]:
        """Ask until there is an answer, or patience ends."""
        path = f"/api/v1/credentials/{quote(name, safe='')}/value"
        deadline = self._clock.monotonic() + self._patience_s
        pause = FIRST_PAUSE_S
        while True:
            try:
                response = await self._client.get(path, params={"job_id": job.job_id})
                return _answered(response, name), self._remember_s
            except httpx.HTTPError as problem:
                said = f"ingest cannot be reached: {type(problem).__name__}"
            except UnavailableError as problem:
                said = str(problem)
            if self._clock.monotonic() + pause > deadline:
                raise UnavailableError(said)
            await self._clock.sleep(pause)
            pause = min(pause * 2, LONGEST_PAUSE_S)


def _place(name: str, job: Job) -> Place:
    return job.execution_id, job.address.step, job.address.task, name


def _answered(response: httpx.Response, name: str) -> Credential:
    status = response.status_code
    if status == 429 or status >= 500:
        raise UnavailableError(f"ingest answered HTTP {status}")
    data = _object_in(response)
    if response.is_success and isinstance(data.get("kind"), str) and isinstance(data.get("fields"), dict):
        return Credential(name, data["kind"], data["fields"])
    detail = data.get("detail") if not response.is_success else None
    said = detail if isinstance(detail, str) else f"ingest answered HTTP {status}"
    raise CredentialError(failure("auth", f"the credential '{name}' was not lent: {said[:300]}"))


def _object_in(response: httpx.Response) -> dict[str, Any]:
    try:
        data = response.json()
    except ValueError:
        return {}
    return data if isinstance(data, dict) else {}
