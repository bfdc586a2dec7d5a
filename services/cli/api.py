"""The REST interface as commands use it: playbooks in, executions started and followed, values loaded."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator
from typing import Any
from urllib.parse import quote

import httpx

from services.cli.exit_codes import ExitCode
from services.cli.output import printable
from shared.contracts.references import MISSING, is_reference, member
from shared.runtime.http_client import api_client

PATIENCE_S = 30.0
PAUSE_S = 0.5
MOST_DEPTH = 100
_CODES = {
    401: ExitCode.NOT_AUTHORISED,
    403: ExitCode.NOT_AUTHORISED,
    404: ExitCode.NOT_FOUND,
    409: ExitCode.CONFLICT,
    413: ExitCode.INVALID,
    415: ExitCode.INVALID,
    422: ExitCode.INVALID,
}


class ApiError(Exception):
    """A request was refused or not answered; `code` is how the command ends."""

    def __init__(self, code: ExitCode, message: str) -> None:
        super().__init__(message)
        self.code = code


class Api:
    """A client of one server."""

    def __init__(self, url: str, key: str | None) -> None:
        self._url = url
        self._values: dict[str, Any] = {}
        try:
            self._client = api_client(f"{url.rstrip('/')}/api/v1", key, answer_s=60.0, connect_s=10.0)
        except (httpx.InvalidURL, UnicodeEncodeError, ValueError):
            raise ApiError(ExitCode.INVALID, f"not the address of a server: {printable(url)}") from None

    async def close(self) -> None:
        """Give back connections."""
        await self._client.aclose()

    async def register(self, text: str, path: str) -> None:
        """Put a playbook into the catalogue."""
        await self._asked("POST", "/playbooks", json={"source": text, "path": path})

    async def start(self, playbook: str, workload: dict[str, Any]) -> str:
        """Start an execution of a playbook given as text, and return its id."""
        answer = await self._asked("POST", "/executions", json={"playbook": playbook, "workload": workload})
        return str(answer["execution_id"])

    async def execution(self, execution_id: str) -> dict[str, Any]:
        """Return an execution as it stands."""
        found: dict[str, Any] = await self._asked("GET", f"/executions/{execution_id}")
        return found

    async def events(self, execution_id: str) -> AsyncIterator[dict[str, Any]]:
        """Give the log as it grows, until the execution is over; a broken stream is taken up where it broke."""
        after = 0
        heard = time.monotonic()
        while True:
            try:
                async for name, data in self._stream(execution_id, after):
                    heard = time.monotonic()
                    if name == "end":
                        return
                    after = int(data["seq"])
                    yield data
            except httpx.HTTPError as problem:
                if time.monotonic() - heard > PATIENCE_S:
                    raise self._unreachable(problem) from None
            await asyncio.sleep(PAUSE_S)

    async def whole(self, value: Any, depth: int = 0) -> Any:
        """Return a value with everything in it that is stored elsewhere put in its place."""
        if depth > MOST_DEPTH:
            raise ApiError(ExitCode.BROKEN, "a result is nested too deeply")
        if is_reference(value):
            return await self._fetched(value, depth)
        if isinstance(value, dict):
            return {key: await self.whole(item, depth + 1) for key, item in value.items()}
        if isinstance(value, list):
            return [await self.whole(item, depth + 1) for item in value]
        return value

    async def _fetched(self, reference: dict[str, Any], depth: int) -> Any:
        ref = reference["_ref"]
        if ref not in self._values:
            self._values[ref] = await self._asked("GET", f"/results/{quote(ref, safe=':/')}")
        found = self._values[ref]
        for index, key in enumerate(reference.get("_path", ())):
            found = member(await self.whole(found, depth + 1), key, is_first=index == 0)
            if found is MISSING:
                return None
        return await self.whole(found, depth + 1)

    async def _stream(self, execution_id: str, after: int) -> AsyncIterator[tuple[str, dict[str, Any]]]:
        path = f"/executions/{execution_id}/events/stream"
        timeout = httpx.Timeout(PATIENCE_S, connect=10.0)
        async with self._client.stream("GET", path, params={"after": after}, timeout=timeout) as answer:
            if not answer.is_success:
                await answer.aread()
                _accepted(answer)
            name = ""
            async for line in answer.aiter_lines():
                field, _, text = line.partition(": ")
                if field == "event":
                    name = text
                elif field == "data":
                    yield name, json.loads(text)

    async def _asked(self, method: str, path: str, **more: Any) -> Any:
        try:
            answer = await self._client.request(method, path, **more)
        except (httpx.HTTPError, httpx.InvalidURL) as problem:
            raise self._unreachable(problem) from None
        return _accepted(answer)

    def _unreachable(self, problem: Exception) -> ApiError:
        reason = str(problem) or type(problem).__name__
        return ApiError(ExitCode.UNREACHABLE, f"{printable(self._url)} does not answer: {printable(reason)[:200]}")


def _accepted(answer: httpx.Response) -> Any:
    said: dict[str, Any] = {}
    if answer.status_code == 204:
        return None
    try:
        body = answer.json()
        if answer.is_success:
            return body
        said = body if isinstance(body, dict) else {}
    except ValueError:
        pass
    detail = str(said.get("detail") or said.get("title") or f"HTTP {answer.status_code}")
    default = ExitCode.UNREACHABLE if answer.status_code >= 500 else ExitCode.BROKEN
    raise ApiError(_CODES.get(answer.status_code, default), printable(detail)[:1000])
