"""A small HTTP server for services that have no other: /healthz, /readyz, /metrics."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from http import HTTPStatus

from prometheus_client import CollectorRegistry

from shared.runtime.telemetry import exposition

REQUEST_TIMEOUT_S = 5.0
MAX_REQUEST_BYTES = 8192

Check = Callable[[], Awaitable[str | None]]
"""Says what is wrong with a dependency, or nothing if it is well."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What a request is answered with."""

    status: HTTPStatus
    body: bytes
    content_type: str = "application/json"

    def encoded(self, *, with_body: bool) -> bytes:
        """Return the bytes that go over the wire."""
        head = (
            f"HTTP/1.1 {self.status.value} {self.status.phrase}\r\n"
            f"Content-Type: {self.content_type}\r\n"
            f"Content-Length: {len(self.body)}\r\n"
            "Cache-Control: no-store\r\nConnection: close\r\n\r\n"
        )
        return head.encode("ascii") + (self.body if with_body else b"")


class HealthServer:
    """Answers whether the process lives, whether it can work, and what it counted."""

    def __init__(self, registry: CollectorRegistry, checks: Mapping[str, Check]) -> None:
        self._registry = registry
        self._checks = checks
        self._server: asyncio.Server | None = None

    async def start(self, host: str, port: int) -> int:
        """Listen, and return the port: the one asked for, or a free one for 0."""
        self._server = await asyncio.start_server(self._serve, host, port, limit=MAX_REQUEST_BYTES)
        found: int = self._server.sockets[0].getsockname()[1]
        return found

    async def close(self) -> None:
        """Listen no more."""
        if self._server is not None:
            self._server.close()
            await self._server.wait_closed()

    async def answer(self, path: str) -> Answer:
        """Return what a path is answered with."""
        match path.partition("?")[0]:
            case "/healthz":
                return _json(HTTPStatus.OK, {"status": "ok"})
            case "/readyz":
                return await self._readiness()
            case "/metrics":
                body, content_type = exposition(self._registry)
                return Answer(HTTPStatus.OK, body, content_type)
            case _:
                return _json(HTTPStatus.NOT_FOUND, {"status": "no such page"})

    async def _readiness(self) -> Answer:
        found = {name: await _looked_at(check) for name, check in self._checks.items()}
        well = not any(found.values())
        body = {
            "status": "ready" if well else "not ready",
            "checks": {name: problem or "ok" for name, problem in found.items()},
        }
        return _json(HTTPStatus.OK if well else HTTPStatus.SERVICE_UNAVAILABLE, body)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(REQUEST_TIMEOUT_S):
                request = await reader.readuntil(b"\r\n\r\n")
                writer.write(await self._answered(request))
                await writer.drain()
        except (OSError, TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            pass  # a client that does not ask properly gets no answer
        finally:
            writer.close()

    async def _answered(self, request: bytes) -> bytes:
        method, _, rest = request.partition(b"\r\n")[0].decode("latin-1").partition(" ")
        if method not in ("GET", "HEAD"):
            return _json(HTTPStatus.METHOD_NOT_ALLOWED, {"status": "GET or HEAD"}).encoded(with_body=True)
        return (await self.answer(rest.partition(" ")[0])).encoded(with_body=method == "GET")


async def _looked_at(check: Check) -> str | None:
    try:
        return await check()
    except Exception as problem:
        return f"{type(problem).__name__}: {problem}"[:200]


def _json(status: HTTPStatus, body: object) -> Answer:
    return Answer(status, json.dumps(body).encode())
