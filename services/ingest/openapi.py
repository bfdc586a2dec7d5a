"""The OpenAPI document: made by the framework, then told about keys, problem documents and bodies it cannot see."""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from pydantic import BaseModel
from pydantic.json_schema import JsonSchemaMode, models_json_schema

from services.ingest.auth import Access, access_of
from services.ingest.emit import EmittedEvent
from services.ingest.models import PlaybookText
from services.ingest.problems import MEDIA_TYPE, ProblemDocument

TITLE = "Redrive"
VERSION = "1"
REF = "#/components/schemas/{model}"
_DESCRIPTIONS = {
    401: "A key is missing or not known.",
    403: "The key has not the scope.",
    404: "There is no such thing.",
    409: "The state does not allow it.",
    412: "It is not as the caller saw it last.",
    413: "The body is too large.",
    415: "The body has a type that is not read here.",
    416: "The range is not there.",
    422: "The input is wrong; the errors say where.",
    503: "A server that is needed cannot be reached; try again.",
}
# Bodies that endpoints read or write themselves, so that the framework knows nothing of them.
_OWN_BODIES: tuple[tuple[type[BaseModel], JsonSchemaMode], ...] = (
    (PlaybookText, "validation"),
    (EmittedEvent, "validation"),
    (ProblemDocument, "serialization"),
)


def problems(*statuses: int, also: dict[int | str, dict[str, Any]] | None = None) -> dict[int | str, dict[str, Any]]:
    """Return what an endpoint may answer besides its usual success: these problems, what any may, and what else."""
    answers: dict[int | str, dict[str, Any]] = {}
    answers.update(also or {})
    for status in sorted({*statuses, 422, 503}):
        answers[status] = _problem(status)
    return answers


def _problem(status: int) -> dict[str, Any]:
    content = {MEDIA_TYPE: {"schema": reference_to(ProblemDocument)}}
    return {"description": _DESCRIPTIONS[status], "content": content}


def body(*, required: bool = True, **contents: Any) -> dict[str, Any]:
    """Return the description of a body that an endpoint reads itself, by media types whose / is written __."""
    content = {name.replace("__", "/"): {"schema": schema} for name, schema in contents.items()}
    return {"requestBody": {"required": required, "content": content}}


def reference_to(model: type[BaseModel]) -> dict[str, str]:
    """Return the reference to a shape of the document."""
    return {"$ref": REF.format(model=model.__name__)}


def install(app: FastAPI) -> None:
    """Make the application describe itself."""

    def described() -> dict[str, Any]:
        if app.openapi_schema is None:
            app.openapi_schema = _document(app)
        return app.openapi_schema

    app.openapi = described  # type: ignore[method-assign]


def _document(app: FastAPI) -> dict[str, Any]:
    document = get_openapi(
        title=TITLE,
        version=VERSION,
        openapi_version="3.1.0",
        description="Playbooks whose retries, pages, loops and waits are decisions in an event log.",
        routes=app.routes,
    )
    components = document.setdefault("components", {})
    schemas = components.setdefault("schemas", {})
    _, own = models_json_schema(_OWN_BODIES, ref_template=REF)
    schemas.update(own.get("$defs", {}))
    components["securitySchemes"] = {"key": {"type": "http", "scheme": "bearer", "description": "An API key."}}
    accesses = _accesses(app)
    for operations in document["paths"].values():
        for operation in operations.values():
            _tell(operation, accesses.get(operation.get("operationId", "")))
    return document


def _accesses(app: FastAPI) -> dict[str, Access]:
    found: dict[str, Access] = app.state.accesses
    return found


def _tell(operation: dict[str, Any], access: Access | None) -> None:
    """Add what an operation asks of its callers."""
    responses: dict[str, Any] = operation["responses"]
    if access is not None:
        operation["security"] = [{"key": []}]
        scopes = " or ".join(sorted(access.scopes | {"admin"}))
        operation["description"] = f"{operation.get('description', '')}\n\nScope: {scopes}.".strip()
        for status in (401, 403):
            responses[str(status)] = _problem(status)


def operation_id(route: Any) -> str:
    """Return the name of an operation: that of its function."""
    return str(route.name)


def accesses_of(routes: list[Any]) -> dict[str, Access]:
    """Return what marked endpoints ask of their callers, by the name of the operation."""
    found = ((operation_id(route), access_of(route.endpoint)) for route in routes if hasattr(route, "endpoint"))
    return {name: access for name, access in found if access is not None}
