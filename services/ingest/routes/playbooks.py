"""The catalogue of playbooks."""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal

from fastapi import Path, Query, Request, Response
from pydantic import ValidationError
from starlette.responses import PlainTextResponse

from services.ingest import schemas, views
from services.ingest.auth import needs
from services.ingest.catalogue import judge, register
from services.ingest.guard import YAML, guarded_router, is_json, media_type
from services.ingest.models import PATH_PATTERN, PlaybookPath, PlaybookText
from services.ingest.openapi import body, problems, reference_to
from services.ingest.parts import parts_of
from services.ingest.problems import Problem, not_found, validation_items
from services.ingest.routes.paging import Cursor, Limit
from shared.language.codec import digest

_PATTERN = re.compile(PATH_PATTERN)

router = guarded_router("playbooks", "/api/v1/playbooks")

_BODY = body(
    application__json=reference_to(PlaybookText),
    text__yaml={},
    application__yaml={},
)
Format = Literal["json", "yaml"]
VersionNumber = Annotated[int, Path(ge=1, le=2**31 - 1)]
AskedPath = Annotated[PlaybookPath, Query(description="Where it goes, if its text does not say.")]


@router.post(
    "",
    status_code=201,
    response_model=schemas.RegisteredPlaybook,
    responses=problems(413, 415, also={200: {"model": schemas.RegisteredPlaybook, "description": "Known already."}}),
    openapi_extra=_BODY,
)
@needs("run")
async def register_playbook(request: Request, path: AskedPath | None = None) -> Response:
    """Register a playbook; unchanged text is the same version."""
    source, asked = await _text(request)
    made = await register(parts_of(request), source, asked or path)
    shown = {
        **views.playbook(made.version),
        "created": made.is_new,
        "warnings": views.findings(made.advice),
    }
    location = f"/api/v1/playbooks/{made.version.path}/versions/{made.version.version}"
    return views.shown(shown, 201 if made.is_new else 200, {"Location": location, "ETag": f'"{made.version.digest}"'})


@router.post("/validate", response_model=schemas.Validation, responses=problems(413, 415), openapi_extra=_BODY)
@needs("read", "run")
async def validate_playbook(request: Request) -> Response:
    """Say everything that is wrong with a playbook, and what is probably not meant; nothing is stored."""
    source, asked = await _text(request)
    judged = await judge(source)
    plan = judged.compiled.plan
    valid = {
        "valid": plan is not None,
        "path": None if plan is None else plan.path or asked,
        "digest": None if plan is None else digest(plan),
        "errors": views.findings(judged.compiled.errors),
        "warnings": views.findings(judged.advice),
    }
    return views.shown(valid)


@router.get("", response_model=schemas.PlaybookPage, responses=problems())
@needs("read", "run")
async def list_playbooks(request: Request, limit: Limit = 100, cursor: Cursor = None) -> Response:
    """Return the latest version of each playbook, by path."""
    found = await parts_of(request).store.playbooks(limit, cursor)
    return views.shown(views.page(found, map(views.playbook, found.items)))


@router.get("/{path:path}/versions", response_model=schemas.PlaybookVersions, responses=problems(404))
@needs("read", "run")
async def list_versions(request: Request, path: str) -> Response:
    """Return every version of a playbook, the latest first."""
    found = await parts_of(request).store.versions(_known(path))
    if not found:
        raise not_found(f"playbook '{path}'")
    return views.shown({"items": [views.playbook(item) for item in found]})


@router.get(
    "/{path:path}/versions/{version}",
    response_model=schemas.PlaybookInFull,
    responses=problems(404, also={200: {"content": {"text/yaml": {}}}}),
)
@needs("read", "run")
async def show_version(
    request: Request, path: str, version: VersionNumber, format: Literal["json", "yaml"] = "json"
) -> Response:
    """Return a version of a playbook: its text and its Plan, or only its text."""
    return await _shown(request, path, version, format)


@router.get(
    "/{path:path}",
    response_model=schemas.PlaybookInFull,
    responses=problems(404, also={200: {"content": {"text/yaml": {}}}}),
)
@needs("read", "run")
async def show_playbook(request: Request, path: str, format: Format = "json") -> Response:
    """Return the latest version of a playbook: its text and its Plan, or only its text."""
    return await _shown(request, path, None, format)


async def _shown(request: Request, path: str, version: int | None, format: str) -> Response:
    store = parts_of(request).store
    found = await store.playbook(_known(path), version)
    if found is None:
        raise not_found(f"playbook '{path}'" + ("" if version is None else f" in version {version}"))
    headers = {"ETag": f'"{found.digest}"'}
    if format == "yaml":
        return PlainTextResponse(found.source, headers=headers, media_type="text/yaml")
    full: dict[str, Any] = {**views.playbook(found), "source": found.source, "plan": await store.plan(found.digest)}
    return views.shown(full, headers=headers)


async def _text(request: Request) -> tuple[str | bytes, str | None]:
    """Return the text of the playbook in a body, and the path that stands beside it."""
    kind = media_type(request)
    if kind in YAML or kind == "text/plain":
        return await request.body(), None
    if not is_json(kind):
        raise Problem(415, f"expected text/yaml or application/json, not {kind or 'a body without a Content-Type'}")
    try:
        given = PlaybookText.model_validate(await request.json())
    except ValidationError as problem:
        errors = validation_items(problem.errors(include_url=False, include_input=False))
        raise Problem(422, f"{errors[0].path or 'the body'}: {errors[0].message}", errors=errors) from None
    return given.source, given.path


def _known(path: str) -> str:
    """Return a path that a playbook can have; raise the problem that there is none there."""
    if len(path) > 200 or not _PATTERN.search(path):
        raise not_found(f"playbook '{path[:80]}'")
    return path
