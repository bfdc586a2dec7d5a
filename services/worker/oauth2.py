"""Tokens for clients: fetched with their own credentials, kept until shortly before they expire, then renewed."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import json
import re
from typing import Any
from urllib.parse import quote_plus

import httpx

from services.worker.keychain import Credential, CredentialError
from services.worker.remembering import Remembered
from shared.contracts.outcomes import failure
from shared.runtime.clock import Clock

MAX_ANSWER_BYTES = 256 * 1024
# Servers that do not say how long a token is good for are asked again this soon.
UNSAID_S = 300.0
MARGIN_S = 60.0
LONGEST_S = 24 * 3600.0

_CODE = re.compile(r"[a-z_]{1,40}")


class Tokens:
    """Tokens by the credentials they were given for; one is fetched once at a time."""

    def __init__(self, clock: Clock, *, timeout_s: float = 15.0) -> None:
        self._timeout_s = timeout_s
        self._made: httpx.AsyncClient | None = None
        self._known: Remembered[str, str] = Remembered(clock)

    async def token(self, client: Credential) -> str:
        """Return a token that is good for a while yet; raises CredentialError."""
        return await self._known.get(_identity(client), lambda: self._asked(client))

    def forget(self, client: Credential, token: str) -> None:
        """Forget a token that was not accepted, unless it has been renewed already."""
        key = _identity(client)
        if self._known.peek(key) == token:
            self._known.forget(key)

    async def close(self) -> None:
        """Forget every token and give back connections."""
        await self._known.close()
        if self._made is not None:
            await self._made.aclose()

    @property
    def _client(self) -> httpx.AsyncClient:
        """Return the client, made when it is needed: reading the certificates takes a while."""
        if self._made is None:
            self._made = httpx.AsyncClient(timeout=self._timeout_s, trust_env=False, follow_redirects=False)
        return self._made

    async def _asked(self, client: Credential) -> tuple[str, float]:
        form, headers = _request_of(client.fields)
        try:
            async with asyncio.timeout(self._timeout_s):
                request = self._client.build_request("POST", client.fields["token_url"], data=form, headers=headers)
                response = await self._client.send(request, stream=True)
                try:
                    raw = await _read(response)
                finally:
                    await response.aclose()
        except (httpx.HTTPError, httpx.InvalidURL, TimeoutError) as problem:
            raise _failed(client, "connection", f"its token endpoint: {type(problem).__name__}") from None
        token, lifetime_s = _token_in(client, response.status_code, raw)
        return token, max(lifetime_s - MARGIN_S, lifetime_s / 2)


def _request_of(fields: Any) -> tuple[dict[str, str], dict[str, str]]:
    form = {"grant_type": "client_credentials"}
    form.update({name: fields[name] for name in ("scope", "audience") if fields.get(name)})
    headers = {"Accept": "application/json", "User-Agent": "redrive"}
    client_id, secret = fields["client_id"], fields["client_secret"]
    if fields.get("auth_style") == "basic":
        pair = f"{quote_plus(client_id)}:{quote_plus(secret)}".encode()
        headers["Authorization"] = f"Basic {base64.b64encode(pair).decode()}"
    else:
        form.update(client_id=client_id, client_secret=secret)
    return form, headers


async def _read(response: httpx.Response) -> bytes:
    """Return the answer, and nothing of one that is too long to be about a token."""
    pieces = b""
    async for piece in response.aiter_bytes():
        pieces += piece
        if len(pieces) > MAX_ANSWER_BYTES:
            return b""
    return pieces


def _token_in(client: Credential, status: int, raw: bytes) -> tuple[str, float]:
    try:
        data = json.loads(raw)
    except (ValueError, RecursionError):
        data = None
    if not isinstance(data, dict):
        data = {}
    if status == 429 or status >= 500:
        raise _failed(client, "connection", f"its token endpoint answered HTTP {status}")
    if status != 200:
        code = data.get("error")
        reason = f" ({code})" if isinstance(code, str) and _CODE.fullmatch(code) else ""
        raise _failed(client, "auth", f"its token endpoint answered HTTP {status}{reason}")
    token, type_ = data.get("access_token"), data.get("token_type", "bearer")
    if not isinstance(token, str) or not token or str(type_).lower() != "bearer":
        raise _failed(client, "auth", "its token endpoint answered without a bearer token")
    return token, _lifetime_s(data.get("expires_in"))


def _lifetime_s(said: Any) -> float:
    """Return for how long a token is good; some servers say it as a text."""
    try:
        seconds = float(said)
    except (TypeError, ValueError):
        return UNSAID_S
    return min(seconds, LONGEST_S) if seconds > 0 else 0.0


def _failed(client: Credential, kind: str, why: str) -> CredentialError:
    return CredentialError(failure(kind, f"no token for the credential '{client.name}': {why}"))


def _identity(client: Credential) -> str:
    """Return what tells clients apart: the same name with another secret is another client."""
    text = json.dumps([client.name, dict(client.fields)], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()
