"""What is answered when something cannot be done: problem documents as RFC 9457 has them, for every error alike."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from http import HTTPStatus
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, ConfigDict, Field
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse

from shared.errors import ConflictError, RejectedError, UnavailableError
from shared.language.diagnostics import Diagnostic
from shared.runtime.logs import Log
from shared.store.port import UnknownReferenceError

MEDIA_TYPE = "application/problem+json"
TYPES = "https://redrive.io/problems/"
RETRY_AFTER_S = 1
MAX_ERRORS = 100

_log = Log("redrive.ingest")

_TITLES = {
    400: "The request cannot be understood",
    401: "Not authenticated",
    403: "Not allowed",
    404: "Not found",
    405: "Method not allowed",
    409: "The state does not allow it",
    412: "It has changed meanwhile",
    413: "The body is too large",
    415: "The body has the wrong type",
    416: "The range is not there",
    422: "The input is not valid",
    500: "Something is broken here",
    503: "Not available for now",
}
_SLUGS = {
    400: "bad-request", 401: "not-authenticated", 403: "not-allowed", 404: "not-found", 405: "method-not-allowed",
    409: "conflict", 412: "changed", 413: "too-large", 415: "wrong-type", 416: "no-such-range", 422: "invalid",
    500: "broken", 503: "unavailable",
}  # fmt: skip


class ErrorItem(BaseModel):
    """One thing that is wrong, and where: a field of the request, or a place in a playbook."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    path: str | None = None
    line: int | None = None
    column: int | None = None
    message: str
    hint: str | None = None
    code: str | None = None


class ProblemDocument(BaseModel):
    """What is answered when something cannot be done (RFC 9457)."""

    model_config = ConfigDict(frozen=True, extra="allow")

    type: str
    title: str
    status: int = Field(ge=400, le=599)
    detail: str
    instance: str | None = None
    errors: list[ErrorItem] | None = None


class Problem(HTTPException):
    """An error that is answered as a problem document."""

    def __init__(
        self,
        status: int,
        detail: str,
        *,
        errors: Sequence[ErrorItem] = (),
        headers: Mapping[str, str] | None = None,
        **members: Any,
    ) -> None:
        super().__init__(status, detail, dict(headers) if headers else None)
        self.errors = tuple(errors)
        self.members = members


def invalid(path: str | None, message: str, hint: str | None = None) -> Problem:
    """Return the problem of one field of a request that is wrong."""
    where = f"{path}: " if path else ""
    return Problem(422, f"{where}{message}", errors=[ErrorItem(path=path, message=message, hint=hint)])


def not_found(what: str) -> Problem:
    """Return the problem of something that is not there."""
    return Problem(404, f"there is no {what}")


def diagnosed(findings: Iterable[Diagnostic], path: str | None = None) -> list[ErrorItem]:
    """Return findings about a playbook as the items of a problem."""
    return [
        ErrorItem(path=path, line=item.line, column=item.column, message=item.message, hint=item.hint, code=item.code)
        for item in findings
    ]


def answer(
    request: Request,
    status: int,
    detail: str,
    errors: Sequence[ErrorItem] = (),
    headers: Mapping[str, str] | None = None,
    **members: Any,
) -> Response:
    """Return a problem document."""
    body: dict[str, Any] = {
        "type": f"{TYPES}{_SLUGS[status]}" if status in _SLUGS else "about:blank",
        "title": _TITLES.get(status) or HTTPStatus(status).phrase,
        "status": status,
        "detail": detail,
        "instance": request.url.path,
    }
    if errors:
        body["errors"] = [item.model_dump() for item in errors[:MAX_ERRORS]]
    body.update(members)
    return JSONResponse(body, status, dict(headers or {}), MEDIA_TYPE)


def install(app: FastAPI) -> None:
    """Make every error of the application a problem document."""
    app.add_exception_handler(HTTPException, _on_http)
    app.add_exception_handler(RequestValidationError, _on_invalid)
    app.add_exception_handler(UnknownReferenceError, _on_unknown_reference)
    app.add_exception_handler(RejectedError, _on_rejected)
    app.add_exception_handler(ConflictError, _on_conflict)
    app.add_exception_handler(UnavailableError, _on_unavailable)
    app.add_exception_handler(Exception, _on_bug)


async def _on_http(request: Request, problem: Exception) -> Response:
    assert isinstance(problem, HTTPException)
    errors = problem.errors if isinstance(problem, Problem) else ()
    members = problem.members if isinstance(problem, Problem) else {}
    detail = str(problem.detail)
    if not isinstance(problem, Problem) and problem.status_code == 404:
        detail = f"there is nothing at {request.url.path}"
    elif not isinstance(problem, Problem) and problem.status_code == 405:
        detail = f"{request.method} is not possible here"
    return answer(request, problem.status_code, detail, errors, problem.headers, **members)


async def _on_invalid(request: Request, problem: Exception) -> Response:
    assert isinstance(problem, RequestValidationError)
    # The first part of a place says only where the request has it: body, query, path or header.
    errors = validation_items({**error, "loc": error.get("loc", ())[1:]} for error in problem.errors())
    detail = f"{errors[0].path or 'the request'}: {errors[0].message}" if errors else "the request is not valid"
    return answer(request, 422, detail, errors)


def validation_items(errors: Iterable[Mapping[str, Any]], base: str = "") -> list[ErrorItem]:
    """Return what a model found wrong as the items of a problem."""
    out = []
    for error in errors:
        parts = [str(part) for part in error.get("loc", ())]
        path = ".".join([base, *parts] if base else parts) or None
        message = "there is no such field" if error.get("type") == "extra_forbidden" else str(error.get("msg", ""))
        out.append(ErrorItem(path=path, message=message, code=str(error.get("type", "invalid"))))
    return out


async def _on_unknown_reference(request: Request, problem: Exception) -> Response:
    return answer(request, 404, str(problem))


async def _on_rejected(request: Request, problem: Exception) -> Response:
    return answer(request, 422, str(problem), [ErrorItem(message=str(problem))])


async def _on_conflict(request: Request, problem: Exception) -> Response:
    return answer(request, 409, str(problem))


async def _on_unavailable(request: Request, problem: Exception) -> Response:
    _log.warning("request_not_served", path=request.url.path, reason=str(problem)[:300])
    detail = "a server that this needs cannot be reached; try again"
    return answer(request, 503, detail, headers={"Retry-After": str(RETRY_AFTER_S)})


async def _on_bug(request: Request, problem: Exception) -> Response:
    _log.error("request_broke", problem, path=request.url.path, method=request.method)
    return answer(request, 500, "this is a defect of the service; its log says more")
