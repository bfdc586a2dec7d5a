"""What an `http` task or sink may say, and the request that it makes."""

from __future__ import annotations

import re
from typing import Annotated, Any, ClassVar

import httpx
from pydantic import BeforeValidator, Field
from typing_extensions import override

from services.worker.tools.configs import Config, Seconds, Size, bad_config
from services.worker.tools.http_auth import IDEMPOTENCY_KEY, Lent, basic, is_header
from services.worker.tools.http_bodies import Content, content_of, form_of, json_content, parts_of, query_of
from services.worker.tools.http_unpacking import UNPACKED

DEFAULT_MAX_BODY = 32 * 1024 * 1024
DEFAULT_CONNECT_S = 10.0
DEFAULT_READ_S = 60.0
DEFAULT_TOTAL_S = 3600.0
SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS", "TRACE"})
SCHEMES = frozenset({"http", "https"})
_METHOD = re.compile(r"[A-Z]{1,20}")
_STATUS = re.compile(r"[1-5](?:[0-9]{2}|xx)")


def method_of(value: object) -> str:
    """Return a method in capital letters; raises ValueError for what is none."""
    method = value.strip().upper() if isinstance(value, str) else ""
    if not _METHOD.fullmatch(method) or method == "CONNECT":
        raise ValueError("a method is a word such as GET or POST")
    return method


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

    def total_s(self, task_s: float | None) -> float:
        """Return how long the whole call may take, which is never for ever."""
        return min((limit for limit in (self.total, task_s) if limit is not None), default=DEFAULT_TOTAL_S)


class HttpFields(Config):
    """What a call is made of, whoever makes it."""

    sends_null: ClassVar[bool] = False
    """Whether `json: null` is a body of its own, and not none."""

    method: Annotated[str, BeforeValidator(method_of)] = "GET"
    url: str
    headers: dict[str, Any] | None = None
    params: dict[str, Any] | None = None
    body: Any = None
    json_: Any = Field(default=None, alias="json")
    data: Any = None
    form: dict[str, Any] | None = None
    files: dict[str, Any] | None = None
    auth: Any = None
    follow_redirects: bool = True
    expect: Annotated[tuple[str, ...], BeforeValidator(_expected)] = ("2xx",)
    max_body: Size = DEFAULT_MAX_BODY
    idempotency_key: str | None = None

    @property
    def timeouts(self) -> HttpTimeouts:
        """Return how long the call may take."""
        return HttpTimeouts()

    def expects(self, status: int) -> bool:
        """Say whether a status is a success."""
        return str(status) in self.expect or f"{status // 100}xx" in self.expect


class HttpConfig(HttpFields):
    """What an `http` task may say."""

    timeout: Annotated[HttpTimeouts, BeforeValidator(_timeouts)] = HttpTimeouts()

    @property
    @override
    def timeouts(self) -> HttpTimeouts:
        return self.timeout


def request_of(config: HttpFields, key: str, lent: Lent) -> httpx.Request:
    """Return the request that a configuration stands for; raises BadConfigError, which shows no value."""
    try:
        url = httpx.URL(config.url)
        if url.scheme not in SCHEMES or not url.host:
            raise ValueError("url: it begins with neither http:// nor https://, or names no host")
        if config.params:
            url = url.copy_merge_params(query_of(config.params))
        content = _content(config)
        headers = _headers(config, key, content.kind, _given(url, lent))
        return httpx.Request(config.method, url, headers=headers, **content.arguments)
    except (httpx.InvalidURL, ValueError, TypeError, RecursionError) as problem:
        raise bad_config("http", without_values(problem)) from None


def without_values(problem: Exception) -> str:
    """Return what is wrong with a request, but nothing that was in it: it may be secret."""
    match problem:
        case httpx.InvalidURL():
            return "url: it is no URL"
        case UnicodeError():
            return "the body, the url or a header holds a lone surrogate, which no encoding has a place for"
        case RecursionError():
            return "the body nests too deeply"
        case _:
            return str(problem)[:200]


def _given(url: httpx.URL, lent: Lent) -> Lent:
    """Return the credential, or else the user and password of the URL."""
    is_named = bool(url.username or url.password) and not lent.headers
    return basic(url.username, url.password) if is_named else lent


def _headers(config: HttpFields, key: str, content_type: str | None, lent: Lent) -> dict[str, str]:
    """Return the headers; what the author wrote himself is never overwritten."""
    headers = {name: str(value) for name, value in (config.headers or {}).items() if value is not None}
    if not all(is_header(name, value) for name, value in headers.items()):
        raise ValueError("headers: a name or a value holds what HTTP does not allow")
    ours = {"Accept": "*/*", "Accept-Encoding": UNPACKED, "User-Agent": "redrive", **lent.headers}
    if content_type is not None:
        ours["Content-Type"] = content_type
    if config.idempotency_key is not None or config.method not in SAFE_METHODS:
        ours[IDEMPOTENCY_KEY] = config.idempotency_key or key
        if not is_header(IDEMPOTENCY_KEY, ours[IDEMPOTENCY_KEY]):
            raise ValueError("idempotency_key: it holds what HTTP does not allow in a header")
    given = {name.lower() for name in headers}
    return {**headers, **{name: value for name, value in ours.items() if name.lower() not in given}}


def _content(config: HttpFields) -> Content:
    """Return the body as the client takes it: a mapping of `data` is form fields, of `body` it is JSON."""
    if config.files is not None:
        fields = config.form if config.form is not None else config.data
        return Content({"files": parts_of(config.files), "data": form_of(fields or {})})
    if config.form is not None:
        return Content({"data": form_of(config.form)})
    if isinstance(config.data, dict):
        return Content({"data": form_of(config.data)})
    if config.json_ is not None or (config.sends_null and "json_" in config.model_fields_set):
        return json_content(config.json_)
    return content_of(config.data if config.data is not None else config.body)
