"""Calls of HTTP endpoints as outcomes, for the tool and the sink alike."""

from __future__ import annotations

import asyncio
import time
from urllib.parse import urlsplit

import httpcore

from services.worker.results import without_secrets
from services.worker.tools.configs import BadConfigError, bad_config
from services.worker.tools.http_auth import Lent, headers_of
from services.worker.tools.http_bodies import Body, binary_body, read_body
from services.worker.tools.http_config import HttpFields, request_of
from services.worker.tools.http_exchange import Answer, BodyTooLargeError, Exchange, RedirectError
from services.worker.tools.http_guard import DeniedError
from services.worker.tools.http_network import TooMuchReceivedError
from services.worker.tools.http_unpacking import UnpackingError
from services.worker.tools.sending import Sending
from shared.contracts.outcomes import Outcome, failure, http_failure

MAX_HEADER_BYTES = 16 * 1024
HIDDEN_HEADERS = frozenset({"set-cookie", "set-cookie2"})
DENIED = "denied"


async def outcome_of(exchange: Exchange, config: HttpFields, sending: Sending) -> Outcome:
    """Call once and return the outcome; raises CredentialError."""
    lent = headers_of(await sending.lend(config.auth)) if config.auth is not None else Lent()
    try:
        request = request_of(config, sending.identity, lent)
    except BadConfigError as problem:
        return problem.outcome
    total_s = config.timeouts.total_s(sending.timeout_s)
    where = f"{config.method} {_shown(str(request.url))}"
    began = time.monotonic()
    try:
        async with asyncio.timeout(total_s):
            answer = await exchange.send(request, config, lent)
    except _FAILURES as problem:
        return _failed(problem, config, where, total_s)
    outcome = _answered(answer, config, where, time.monotonic() - began)
    return without_secrets(outcome, lent.hidden)


def _answered(answer: Answer, config: HttpFields, where: str, elapsed_s: float) -> Outcome:
    headers = _kept(answer)
    body = _body(answer)
    result = {
        "status_code": answer.status,
        "headers": headers,
        "body": body.value,
        "data": body.value,
        "url": str(answer.url.copy_with(userinfo=b"")),
        "elapsed": round(elapsed_s, 6),
    }
    if body.encoding is not None:
        result["encoding"] = body.encoding
    meta = {"notes": [body.note]} if body.note else {}
    shown = {name: value for name, value in headers.items() if name not in HIDDEN_HEADERS}
    if config.expects(answer.status):
        return Outcome("success", result, meta=meta, extras={"http": {"status": answer.status, "headers": shown}})
    reason = f" {answer.reason}" if answer.reason else ""
    failed = http_failure(answer.status, f"HTTP {answer.status}{reason[:100]} from {where}", shown)
    return Outcome("error", result, failed.error, meta, failed.extras)


def _body(answer: Answer) -> Body:
    if answer.still_packed is not None and answer.body:
        return binary_body(answer.body, f"packed as {answer.still_packed}, which is not undone here")
    return read_body(answer.body, answer.header("content-type"))


def _kept(answer: Answer) -> dict[str, str]:
    """Return the headers by their names, repeated ones as one; what is too long all together is left out."""
    out: dict[str, str] = {}
    size = 0
    for name, value in answer.headers:
        size += len(name) + len(value)
        if size <= MAX_HEADER_BYTES:
            out[name] = f"{out[name]}, {value}" if name in out else value
    return out


_FAILURES = (
    httpcore.NetworkError,
    httpcore.ProtocolError,
    httpcore.TimeoutException,
    httpcore.UnsupportedProtocol,
    BodyTooLargeError,
    DeniedError,
    RedirectError,
    TooMuchReceivedError,
    TimeoutError,
    UnpackingError,
)


def _failed(problem: Exception, config: HttpFields, where: str, total_s: float) -> Outcome:
    timeout = config.timeouts
    match problem:
        case BodyTooLargeError():
            return failure("limit", f"the answer of {where} is larger than max_body, {config.max_body} bytes")
        case TooMuchReceivedError():
            return failure("limit", f"{where} sent far more than its answer could need")
        case DeniedError():
            return failure("client_error", f"{where}: {problem}", code=DENIED)
        case RedirectError():
            return failure("client_error", f"{where} was redirected {problem}")
        case UnpackingError():
            return failure("client_error", f"the answer of {where} is not encoded as it says: {problem}")
        case httpcore.ConnectTimeout() | httpcore.PoolTimeout():
            return failure("timeout", f"timeout: no connection for {where} within {timeout.connect:g} s")
        case httpcore.TimeoutException():
            return failure("timeout", f"timeout: {where} was silent for {timeout.read:g} s")
        case TimeoutError():
            return failure("timeout", f"timeout: {where} took longer than {total_s:g} s")
        case httpcore.LocalProtocolError():
            return bad_config("http", "a header or the method holds what HTTP does not allow").outcome
        case httpcore.ConnectError():
            return failure("connection", f"no connection for {where}: {_reason(problem)}")
        case _:
            return failure("connection", f"the connection for {where} broke: {_reason(problem)}")


def _reason(problem: Exception) -> str:
    cause: BaseException = problem
    while cause.__cause__ or cause.__context__:
        cause = cause.__cause__ or cause.__context__ or cause
    return f"{cause}"[:200] or type(problem).__name__


def _shown(url: str) -> str:
    """Return a URL without user, password, query and fragment."""
    parts = urlsplit(url)
    host = parts.netloc.rpartition("@")[2]
    return f"{parts.scheme}://{host}{parts.path}"[:300]
