"""Stored values: the port through which a worker loads what a job refers to and stores what is too large to send."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections import OrderedDict
from typing import Any
from urllib.parse import quote

import httpx
from typing_extensions import override

from shared.contracts.references import is_reference
from shared.engine.world import reference_to
from shared.errors import RejectedError, UnavailableError
from shared.runtime.clock import Clock, SystemClock
from shared.runtime.http_client import api_client

CACHE_BYTES = 64 * 1024 * 1024
UNCHANGING = "sha256:"
FIRST_PAUSE_S = 0.1
LONGEST_PAUSE_S = 2.0


class MissingValueError(RejectedError):
    """Nothing is stored under the reference."""


class Values(ABC):
    """Keeps values by reference; what is stored gets a hash of its contents for one and never changes."""

    @abstractmethod
    async def load(self, ref: str) -> Any:
        """Return the value. Raises MissingValueError, or UnavailableError when it cannot be known for now."""

    @abstractmethod
    async def store(self, text: str) -> dict[str, Any]:
        """Keep a value, given as canonical JSON, and return its reference. Raises UnavailableError."""

    async def close(self) -> None:  # noqa: B027
        """Give back connections."""


class MemoryValues(Values):
    """Keeps values in this process."""

    def __init__(self) -> None:
        self.texts: dict[str, str] = {}

    @override
    async def load(self, ref: str) -> Any:
        if ref not in self.texts:
            raise MissingValueError(f"no value is stored as {ref}")
        return json.loads(self.texts[ref])

    @override
    async def store(self, text: str) -> dict[str, Any]:
        reference = reference_to(text)
        self.texts[reference["_ref"]] = text
        return reference


class HttpValues(Values):
    """Keeps values at ingest; what was loaded lately is remembered, up to a size."""

    def __init__(self, url: str, token: str, *, patience_s: float = 30.0, clock: Clock | None = None) -> None:
        self._client = api_client(url, token, answer_s=60.0, connect_s=5.0)
        self._patience_s = patience_s
        self._clock = clock or SystemClock()
        self._remembered = _Remembered(CACHE_BYTES)

    @override
    async def load(self, ref: str) -> Any:
        found = self._remembered.get(ref)
        if found is None:
            response = await self._asked("GET", f"/api/v1/results/{quote(ref, safe=':')}")
            found = (json.loads(response.content), len(response.content))
            if ref.startswith(UNCHANGING):
                self._remembered.put(ref, found)
        return found[0]

    @override
    async def store(self, text: str) -> dict[str, Any]:
        headers = {"Content-Type": "application/json"}
        response = await self._asked("POST", "/api/v1/results", content=text.encode(), headers=headers)
        answer = response.json()
        ours = reference_to(text)
        return {**ours, **{key: answer[key] for key in ours if key in answer}} if is_reference(answer) else ours

    @override
    async def close(self) -> None:
        await self._client.aclose()

    async def _asked(self, method: str, path: str, **more: Any) -> httpx.Response:
        """Ask until there is an answer, or patience ends."""
        deadline = self._clock.monotonic() + self._patience_s
        pause = FIRST_PAUSE_S
        while True:
            try:
                return _accepted(await self._client.request(method, path, **more))
            except httpx.HTTPError as problem:
                said = f"stored values cannot be reached: {type(problem).__name__}"
            except UnavailableError as problem:
                said = str(problem)
            if self._clock.monotonic() + pause > deadline:
                raise UnavailableError(said)
            await self._clock.sleep(pause)
            pause = min(pause * 2, LONGEST_PAUSE_S)


def _accepted(response: httpx.Response) -> httpx.Response:
    status = response.status_code
    if response.is_success:
        return response
    if status == 404:
        raise MissingValueError("the stored value is not there")
    if status == 429 or status >= 500:
        raise UnavailableError(f"stored values cannot be reached: HTTP {status}")
    raise RejectedError(f"stored values were refused: HTTP {status}")


class _Remembered:
    """Values by reference, the least recently used forgotten first."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._size = 0
        self._values: OrderedDict[str, tuple[Any, int]] = OrderedDict()

    def get(self, ref: str) -> tuple[Any, int] | None:
        found = self._values.get(ref)
        if found is not None:
            self._values.move_to_end(ref)
        return found

    def put(self, ref: str, found: tuple[Any, int]) -> None:
        if found[1] > self._limit // 2 or ref in self._values:
            return
        self._values[ref] = found
        self._size += found[1]
        while self._size > self._limit:
            _, (_, size) = self._values.popitem(last=False)
            self._size -= size
