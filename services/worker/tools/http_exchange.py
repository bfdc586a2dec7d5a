"""One HTTP call over pooled connections: redirects followed with care, and no more read than is allowed."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import httpcore
import httpx

from services.worker.tools.http_auth import Lent, is_for_the_origin_alone
from services.worker.tools.http_config import SCHEMES, HttpFields
from services.worker.tools.http_guard import Guard
from services.worker.tools.http_network import Allowance, GuardedNetwork, Resolve, allowance, resolved
from services.worker.tools.http_unpacking import Unpacking

MAX_REDIRECTS = 10
MAX_HEAD_BYTES = 256 * 1024
MAX_FRAMING_BYTES = 256 * 1024
SMALL_BODY = 16 * 1024
# So many pieces of an answer are taken before others get their turn.
PIECES_IN_A_ROW = 256
REDIRECTS = frozenset({301, 302, 303, 307, 308})
KEPT_S = 30.0
_OF_THE_BODY = frozenset({"content-length", "content-type", "content-encoding", "transfer-encoding"})
_OF_THE_HOP = frozenset({"host"})


class BodyTooLargeError(Exception):
    """The answer goes on beyond what is to be read."""


class RedirectError(Exception):
    """The server sends the call on to where it cannot go; says where in a word."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What a server said in the end, and where."""

    status: int
    reason: str
    headers: Sequence[tuple[str, str]]
    url: httpx.URL
    body: bytes
    still_packed: str | None = None

    def header(self, name: str) -> str:
        """Return the first header of a name, given in small letters."""
        return next((value for key, value in self.headers if key == name), "")


@dataclass(frozen=True, slots=True)
class _Redirect:
    """Where a server sends a call on to, and how."""

    status: int
    location: str


class Exchange:
    """Sends requests; connections are kept for the next call to the same origin, and nothing else is."""

    def __init__(self, guard: Guard, *, max_connections: int = 200, resolve: Resolve = resolved) -> None:
        self._network = GuardedNetwork(guard, resolve)
        self._max_connections = max_connections
        self._made: httpcore.AsyncConnectionPool | None = None

    @property
    def _pool(self) -> httpcore.AsyncConnectionPool:
        """Return the pool, made at the first call: reading the certificates takes a while."""
        if self._made is None:
            self._made = httpcore.AsyncConnectionPool(
                ssl_context=httpx.create_ssl_context(),
                max_connections=self._max_connections,
                max_keepalive_connections=50,
                keepalive_expiry=KEPT_S,
                network_backend=self._network,
            )
        return self._made

    async def send(self, request: httpx.Request, config: HttpFields, lent: Lent) -> Answer:
        """Return the answer in the end; raises httpcore's errors, RedirectError, DeniedError, and what is too large."""
        for _ in range(MAX_REDIRECTS + 1):
            left = Allowance(MAX_HEAD_BYTES)
            token = allowance.set(left)
            try:
                found = await self._asked(request, config, left)
            finally:
                allowance.reset(token)
            if isinstance(found, Answer):
                return found
            request = _sent_on(request, found, lent)
        raise RedirectError(f"more than {MAX_REDIRECTS} times")

    async def close(self) -> None:
        """Close every connection."""
        if self._made is not None:
            await self._made.aclose()

    async def _asked(self, request: httpx.Request, config: HttpFields, left: Allowance) -> Answer | _Redirect:
        response = await self._head(request, config)
        left.left = MAX_FRAMING_BYTES
        try:
            headers = _decoded(response.headers)
            location = _location(response.status, headers) if config.follow_redirects else None
            if location is not None:
                await _drop(response, headers)
                return _Redirect(response.status, location)
            limit = 0 if request.method == "HEAD" else config.max_body
            body, still = await _body(response, headers, limit, left)
            return Answer(response.status, _reason(response), headers, request.url, body, still)
        finally:
            await response.aclose()

    async def _head(self, request: httpx.Request, config: HttpFields) -> httpcore.Response:
        """Return the answer when its head is there, which takes no longer than `read` from the request's end on."""
        read_s, connect_s = config.timeouts.read, config.timeouts.connect
        limit = asyncio.timeout(None)

        async def watch(event: str, info: dict[str, Any]) -> None:
            if event == "http11.receive_response_headers.started":
                limit.reschedule(asyncio.get_running_loop().time() + read_s)

        url = request.url
        sent = httpcore.Request(
            request.method,
            httpcore.URL(scheme=url.raw_scheme, host=url.raw_host, port=url.port, target=url.raw_path),
            headers=request.headers.raw,
            content=request.stream,
            extensions={
                "timeout": {"connect": connect_s, "pool": connect_s, "read": read_s, "write": read_s},
                "trace": watch,
            },
        )
        try:
            async with limit:
                return await self._pool.handle_async_request(sent)
        except TimeoutError:
            if limit.expired():
                raise httpcore.ReadTimeout from None
            raise


async def _body(
    response: httpcore.Response, headers: list[tuple[str, str]], limit: int, left: Allowance
) -> tuple[bytes, str | None]:
    """Return the whole body, unpacked, and how it is still packed; no more than the limit is ever held."""
    if limit and _length(headers) > limit:
        raise BodyTooLargeError
    unpacking = Unpacking([value for name, value in headers if name == "content-encoding"])
    out: list[bytes] = []
    size = received = count = 0
    async for data in response.aiter_stream():
        received += len(data)
        # The framing of small pieces may be longer than they are, but not for ever.
        left.left += len(data) + len(data) // 4
        for piece in unpacking.pieces(data):
            size += len(piece)
            if size > limit:
                raise BodyTooLargeError
            out.append(piece)
        if received > limit + MAX_FRAMING_BYTES:
            raise BodyTooLargeError
        count += 1
        if count % PIECES_IN_A_ROW == 0:
            await asyncio.sleep(0)
    unpacking.finish()
    return b"".join(out), unpacking.still


def _length(headers: list[tuple[str, str]]) -> float:
    """Return the length that is announced, 0 if none is."""
    text = next((value for name, value in headers if name == "content-length"), "")
    return float(text[:300]) if text.isascii() and text.isdigit() else 0.0


def _reason(response: httpcore.Response) -> str:
    said: bytes = response.extensions.get("reason_phrase", b"")
    return said.decode("ascii", errors="replace")


async def _drop(response: httpcore.Response, headers: list[tuple[str, str]]) -> None:
    """Read the rest of an answer that nobody wants, if it is so small that the connection can be used again."""
    if any(name == "content-length" for name, _ in headers) and _length(headers) <= SMALL_BODY:
        async for _ in response.aiter_stream():
            pass


def _decoded(headers: Sequence[tuple[bytes, bytes]]) -> list[tuple[str, str]]:
    """Return headers as text, names in small letters; a value that is no UTF-8 is Latin-1."""
    return [(name.decode("latin-1").lower(), _text(value)) for name, value in headers]


def _text(value: bytes) -> str:
    try:
        return value.decode()
    except UnicodeDecodeError:
        return value.decode("latin-1")


def _location(status: int, headers: list[tuple[str, str]]) -> str | None:
    if status not in REDIRECTS:
        return None
    return next((value for name, value in headers if name == "location"), None)


def _sent_on(request: httpx.Request, redirect: _Redirect, lent: Lent) -> httpx.Request:
    """Return the request that a redirect asks for; what is secret goes to no other origin."""
    url = _target(request.url, redirect.location)
    method = _method(request.method, redirect.status)
    is_bare = method != request.method
    dropped = _OF_THE_BODY if is_bare else frozenset()
    is_elsewhere = _origin(url) != _origin(request.url)
    headers = [
        (name, value)
        for name, value in request.headers.multi_items()
        if name.lower() not in dropped
        and not (is_elsewhere and (name.lower() in _OF_THE_HOP or is_for_the_origin_alone(name, lent)))
    ]
    if is_elsewhere:
        headers.insert(0, ("Host", url.netloc.decode("ascii")))
    if is_bare:
        return httpx.Request(method, url, headers=headers)
    return httpx.Request(method, url, headers=headers, stream=request.stream)


def _target(origin: httpx.URL, location: str) -> httpx.URL:
    try:
        written = httpx.URL(location)
        url = origin.join(written).copy_with(userinfo=b"", fragment=None)
    except (httpx.InvalidURL, UnicodeError, ValueError):
        raise RedirectError("to what is no URL") from None
    is_nowhere = not written.host and (written.scheme or location.startswith("//"))
    if url.scheme not in SCHEMES or not url.host or is_nowhere:
        raise RedirectError("to what is neither http:// nor https://")
    return url


def _method(method: str, status: int) -> str:
    """Return the method after a redirect, as browsers take it."""
    if method == "HEAD" or status in (307, 308) or (status == 301 and method != "POST"):
        return method
    return "GET"


def _origin(url: httpx.URL) -> tuple[str, str, int]:
    return url.scheme, url.host, url.port or {"http": 80, "https": 443}[url.scheme]
