"""The tool that calls HTTP endpoints."""

from __future__ import annotations

import asyncio
import re
import time
from typing import Annotated, Any
from urllib.parse import urlsplit

import httpx
from pydantic import BeforeValidator, Field
from typing_extensions import override

from services.worker.tools.configs import BadConfigError, Config, Seconds, Size, bad_config, read_config
from services.worker.tools.http_bodies import Content, content_of, form_of, json_content, parts_of, query_of, read_body
from services.worker.tools.port import Call, Tool
from shared.contracts.outcomes import Outcome, failure, http_failure

DEFAULT_MAX_BODY = 32 * 1024 * 1024
DEFAULT_CONNECT_S = 10.0
DEFAULT_READ_S = 60.0
MAX_REDIRECTS = 10
MAX_HEADER_BYTES = 16 * 1024
SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS", "TRACE"})
HIDDEN_HEADERS = frozenset({"set-cookie", "set-cookie2"})
_METHOD = re.compile(r"[A-Z]{1,20}")
_HEADER_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
_HEADER_VALUE = re.compile(r"[\t\x20-\x7e]*")
_STATUS = re.compile(r"[1-5](?:[0-9]{2}|xx)")


def _method(value: object) -> str:
    if not isinstance(value, str) or not _METHOD.fullmatch(value.strip().upper()):
        raise ValueError("a method is a word such as GET or POST")
    return value.strip().upper()


def _expected(value: object) -> tuple[str, ...]:
    items = value if isinstance(value, list) else [value]
    found = tuple(str(item).strip().lower() for item in items)
    if not found or not all(_STATUS.fullmatch(item) for item in found):
        raise ValueError("statuses are numbers such as 404, or classes such as '2xx'")
    return found


def _timeouts(value: object) -> object:
    return value if isinstance(value, dict) else {"total": value}


class HttpTimeouts(Config):
    """How long the parts of a call may take."""

    connect: Seconds = DEFAULT_CONNECT_S
    read: Seconds = DEFAULT_READ_S
    total: Seconds | None = None


class HttpConfig(Config):
    """What an `http` task may say."""

    method: Annotated[str, BeforeValidator(_method)] = "GET"
    url: str
    headers: dict[str, Any] | None = None
    params: dict[str, Any] | None = None
    body: Any = None
    json_: Any = Field(default=None, alias="json")
    data: Any = None
    form: dict[str, Any] | None = None
    files: dict[str, Any] | None = None
    auth: Any = None
    timeout: Annotated[HttpTimeouts, BeforeValidator(_timeouts)] = HttpTimeouts()
    follow_redirects: bool = True
    expect: Annotated[tuple[str, ...], BeforeValidator(_expected)] = ("2xx",)
    max_body: Size = DEFAULT_MAX_BODY
    idempotency_key: str | None = None


class BodyTooLargeError(Exception):
    """The answer goes on beyond what is to be read."""


class HttpTool(Tool):
    """Calls an endpoint over pooled connections; a status that is not expected is a failure."""

    kind = "http"
    keeps_time = True

    def __init__(self, *, trust_env: bool = False, max_connections: int = 200) -> None:
        self._trust_env = trust_env
        self._limits = httpx.Limits(max_connections=max_connections, max_keepalive_connections=50)
        self._made: httpx.AsyncClient | None = None

    @property
    def _client(self) -> httpx.AsyncClient:
        """Return the client, made at the first call: reading the certificates takes a while."""
        if self._made is None:
            self._made = httpx.AsyncClient(
                limits=self._limits, trust_env=self._trust_env, max_redirects=MAX_REDIRECTS, timeout=None
            )
        return self._made

    @override
    async def run(self, call: Call) -> Outcome:
        try:
            config = read_config(self.kind, HttpConfig, call.config)
            request = self._request(config, call)
        except BadConfigError as problem:
            return problem.outcome
        total = min((limit for limit in (config.timeout.total, call.timeout_s) if limit is not None), default=None)
        where = f"{config.method} {_shown(str(request.url))}"
        try:
            async with asyncio.timeout(total):
                return await self._sent(request, config, where)
        except (httpx.HTTPError, httpx.InvalidURL, BodyTooLargeError, TimeoutError, ValueError) as problem:
            return _failed(problem, config, where, total)

    @override
    async def close(self) -> None:
        if self._made is not None:
            await self._made.aclose()

    def _request(self, config: HttpConfig, call: Call) -> httpx.Request:
        if config.auth is not None:
            raise BadConfigError(failure("auth", f"this worker cannot look up the credential of {self.kind}"))
        timeout = config.timeout
        try:
            url = httpx.URL(config.url)
            if config.params:
                url = url.copy_merge_params(query_of(config.params))
            content = _content(config)
            return self._client.build_request(
                config.method,
                url,
                headers=_headers(config, call, content.kind),
                timeout=httpx.Timeout(timeout.read, connect=timeout.connect, pool=timeout.connect),
                **content.arguments,
            )
        except (httpx.InvalidURL, ValueError, TypeError) as problem:
            raise bad_config(self.kind, _without_values(problem)) from None

    async def _sent(self, request: httpx.Request, config: HttpConfig, where: str) -> Outcome:
        began = time.monotonic()
        response = await self._client.send(request, stream=True, follow_redirects=config.follow_redirects)
        try:
            raw = await _read(response, config.max_body)
        finally:
            await response.aclose()
        return _outcome(response, raw, config, where, time.monotonic() - began)


def _headers(config: HttpConfig, call: Call, content_type: str | None) -> dict[str, str]:
    headers = {name: str(value) for name, value in (config.headers or {}).items() if value is not None}
    ours = {"User-Agent": "redrive"}
    if content_type is not None:
        ours["Content-Type"] = content_type
    if config.idempotency_key is not None or config.method not in SAFE_METHODS:
        ours["Idempotency-Key"] = config.idempotency_key or call.idempotency_key
    for name, value in headers.items():
        if not _HEADER_NAME.fullmatch(name) or not _HEADER_VALUE.fullmatch(value):
            raise ValueError("headers: a name or a value holds what HTTP does not allow")
    given = {name.lower() for name in headers}
    return {**headers, **{name: value for name, value in ours.items() if name.lower() not in given}}


def _content(config: HttpConfig) -> Content:
    """Return the body as the client takes it: a mapping of `data` is form fields, of `body` it is JSON."""
    if config.files is not None:
        fields = config.form if config.form is not None else config.data
        return Content({"files": parts_of(config.files), "data": form_of(fields or {})})
    if config.form is not None:
        return Content({"data": form_of(config.form)})
    if isinstance(config.data, dict):
        return Content({"data": form_of(config.data)})
    if config.json_ is not None:
        return json_content(config.json_)
    return content_of(config.data if config.data is not None else config.body)


async def _read(response: httpx.Response, limit: int) -> bytes:
    """Return the body as it is after decoding; no more than the limit is ever held."""
    length = response.headers.get("content-length", "")
    if length.isdigit() and int(length) > limit and response.request.method != "HEAD":
        raise BodyTooLargeError
    pieces: list[bytes] = []
    size = 0
    async for piece in response.aiter_bytes():
        size += len(piece)
        if size > limit:
            raise BodyTooLargeError
        pieces.append(piece)
    return b"".join(pieces)


def _outcome(response: httpx.Response, raw: bytes, config: HttpConfig, where: str, elapsed_s: float) -> Outcome:
    status = response.status_code
    headers = _received(response)
    body = read_body(raw, response.headers.get("content-type", ""))
    result = {
        "status_code": status,
        "headers": headers,
        "body": body.value,
        "data": body.value,
        "url": str(response.url),
        "elapsed": round(elapsed_s, 6),
    }
    if body.encoding is not None:
        result["encoding"] = body.encoding
    meta = {"notes": [body.note]} if body.note else {}
    shown = {name: value for name, value in headers.items() if name not in HIDDEN_HEADERS}
    if _is_expected(status, config.expect):
        return Outcome("success", result, meta=meta, extras={"http": {"status": status, "headers": shown}})
    reason = f" {response.reason_phrase}" if response.reason_phrase else ""
    failed = http_failure(status, f"HTTP {status}{reason} from {where}"[:500], shown)
    return Outcome("error", result, failed.error, meta, failed.extras)


def _received(response: httpx.Response) -> dict[str, str]:
    """Return the headers by their names in small letters; what is too long all together is left out."""
    out: dict[str, str] = {}
    size = 0
    for name in response.headers:
        value = response.headers[name]
        size += len(name) + len(value)
        if size <= MAX_HEADER_BYTES:
            out[name.lower()] = value
    return out


def _is_expected(status: int, expect: tuple[str, ...]) -> bool:
    return str(status) in expect or f"{status // 100}xx" in expect


def _failed(problem: Exception, config: HttpConfig, where: str, total: float | None) -> Outcome:
    match problem:
        case BodyTooLargeError():
            return failure("limit", f"the answer of {where} is larger than max_body, {config.max_body} bytes")
        case httpx.ConnectTimeout() | httpx.PoolTimeout():
            return failure("timeout", f"timeout: no connection for {where} within {config.timeout.connect:g} s")
        case httpx.ReadTimeout() | httpx.WriteTimeout():
            return failure("timeout", f"timeout: {where} was silent for {config.timeout.read:g} s")
        case TimeoutError():
            return failure("timeout", f"timeout: {where} took longer than {total:g} s")
        case httpx.TooManyRedirects():
            return failure("client_error", f"{where} was redirected more than {MAX_REDIRECTS} times")
        case httpx.DecodingError():
            return failure("client_error", f"the answer of {where} is not encoded as it says")
        case httpx.UnsupportedProtocol() | httpx.InvalidURL() | httpx.LocalProtocolError():
            return bad_config("http", _without_values(problem)).outcome
        case httpx.ConnectError():
            return failure("connection", f"no connection for {where}: {_reason(problem)}")
        case httpx.HTTPError():
            return failure("connection", f"the connection for {where} broke: {_reason(problem)}")
        case _:
            return bad_config("http", _without_values(problem)).outcome


def _reason(problem: Exception) -> str:
    cause: BaseException = problem
    while cause.__cause__ or cause.__context__:
        cause = cause.__cause__ or cause.__context__ or cause
    return f"{cause}"[:200] or type(problem).__name__


def _without_values(problem: Exception) -> str:
    """Return what is wrong with a request, but nothing that was in it: it may be secret."""
    match problem:
        case httpx.UnsupportedProtocol():
            return "url: it begins with neither http:// nor https://"
        case httpx.InvalidURL():
            return "url: it is no URL"
        case httpx.LocalProtocolError():
            return "a header or the method holds what HTTP does not allow"
        case UnicodeError():
            return "the body holds a lone surrogate, which no encoding has a place for"
        case _:
            return str(problem)[:200]


def _shown(url: str) -> str:
    """Return a URL without user, password, query and fragment."""
    parts = urlsplit(url)
    host = parts.netloc.rpartition("@")[2]
    return f"{parts.scheme}://{host}{parts.path}"[:300]
