"""The gate of every endpoint: first who asks, then how large the body is, then whether it can be read."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

from fastapi import APIRouter, Request, Response
from fastapi.routing import APIRoute
from typing_extensions import override

from services.ingest import strict_json
from services.ingest.auth import access_of
from services.ingest.openapi import operation_id
from services.ingest.parts import parts_of
from services.ingest.problems import Problem, invalid
from shared.language.diagnostics import did_you_mean

JSON = "application/json"
YAML = frozenset({"application/yaml", "application/x-yaml", "text/yaml", "text/x-yaml", "text/vnd.yaml"})

Handler = Callable[[Request], Coroutine[Any, Any, Response]]


class GuardedRequest(Request):
    """A request whose body is bounded, and whose JSON is read strictly."""

    body_limit: int = 0

    @override
    async def body(self) -> bytes:
        if not hasattr(self, "_body"):
            self._body = await self._bounded()
        return self._body

    @override
    async def json(self) -> Any:
        return strict_json.parse(await self.body())

    async def _bounded(self) -> bytes:
        declared = self.headers.get("content-length", "")
        if declared.isdecimal() and int(declared[:20]) > self.body_limit:
            raise self._too_large()
        chunks: list[bytes] = []
        size = 0
        async for chunk in self.stream():
            size += len(chunk)
            if size > self.body_limit:
                raise self._too_large()
            chunks.append(chunk)
        return b"".join(chunks)

    def _too_large(self) -> Problem:
        # The rest of the body is not read, so the connection cannot be used again.
        return Problem(413, f"a body may have {self.body_limit} bytes here", headers={"Connection": "close"})


class GuardedRoute(APIRoute):
    """A route that asks for a key first and then hands on a guarded request."""

    @override
    def get_route_handler(self) -> Handler:
        handle = super().get_route_handler()
        access = access_of(self.endpoint)
        reads_json = self.body_field is not None
        known = [field.alias for field in self.dependant.query_params]

        async def guarded(request: Request) -> Response:
            parts = parts_of(request)
            inner = GuardedRequest(request.scope, request.receive)
            inner.body_limit = parts.settings.body_limit
            if access is not None:
                inner.state.principal = parts.keys.admit(request.headers.get("authorization"), access)
                if access.takes_results:
                    inner.body_limit = parts.settings.result_limit
                _check_query(inner, known)
            if reads_json and await inner.body():
                check_json(inner)
            return await handle(inner)

        return guarded


def guarded_router(tag: str, prefix: str = "", *, in_schema: bool = True) -> APIRouter:
    """Return a router whose routes are guarded; they are whole, so the application takes them as they are."""
    return APIRouter(
        prefix=prefix,
        tags=[tag],
        route_class=GuardedRoute,
        generate_unique_id_function=operation_id,
        include_in_schema=in_schema,
    )


def _check_query(request: Request, known: list[str]) -> None:
    """Raise the problem of a parameter that nobody reads: it was meant to change the answer."""
    for name in request.query_params:
        if name not in known:
            raise invalid(name[:80], "there is no such parameter", did_you_mean(name, known))


def media_type(request: Request) -> str:
    """Return what the body of a request is said to be."""
    return request.headers.get("content-type", "").partition(";")[0].strip().lower()


def is_json(kind: str) -> bool:
    """Say whether a media type is a kind of JSON."""
    return kind == JSON or (kind.startswith("application/") and kind.endswith("+json"))


def check_json(request: Request) -> None:
    """Raise the problem of a body that is not said to be JSON."""
    kind = media_type(request)
    if not is_json(kind):
        raise Problem(415, f"expected {JSON}, not {kind or 'a body without a Content-Type'}")
