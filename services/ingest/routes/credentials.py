"""Credentials: set and deleted by name, listed without what they hold, lent to workers for a job that names them."""

from __future__ import annotations

import hashlib
from typing import Annotated
from uuid import UUID

from fastapi import Header, Path, Query, Request, Response

from services.ingest import schemas, views
from services.ingest.auth import needs
from services.ingest.guard import guarded_router
from services.ingest.models import CredentialRequest, Name
from services.ingest.openapi import problems
from services.ingest.parts import parts_of, principal_of
from services.ingest.problems import ErrorItem, Problem, not_found
from services.ingest.routes.paging import Cursor, Limit
from shared.contracts.credentials import BadCredentialError, checked_fields, kind_of
from shared.store.port import ChangedError
from shared.store.records import CredentialRow, SealedCredential

router = guarded_router("credentials", "/api/v1/credentials")

CredentialName = Annotated[Name, Path(description="The credential's name.")]
IfMatch = Annotated[
    str | None, Header(alias="If-Match", max_length=200, description="The ETag that was seen last, or *.")
]
IfNoneMatch = Annotated[
    str | None, Header(alias="If-None-Match", max_length=200, description="With *: only if there is none yet.")
]
JobId = Annotated[UUID, Query(description="The job that names the credential.")]


@router.get("", response_model=schemas.CredentialPage, responses=problems())
@needs("read")
async def list_credentials(request: Request, limit: Limit = 100, cursor: Cursor = None) -> Response:
    """Return the names and kinds of credentials, never what they hold."""
    found = await parts_of(request).store.credentials(limit, cursor)
    return views.shown(views.page(found, map(views.credential, found.items)))


@router.get("/{name}", response_model=schemas.Credential, responses=problems(404))
@needs("read")
async def show_credential(request: Request, name: CredentialName) -> Response:
    """Return name, kind and times of a credential, never what it holds."""
    row = await _row(request, name)
    if row is None:
        raise not_found(f"credential '{name}'")
    return views.shown(views.credential(row), headers={"ETag": _etag(row)})


@router.put(
    "/{name}",
    response_model=schemas.Credential,
    responses=problems(
        409, 412, 413, 415, also={201: {"model": schemas.Credential, "description": "It is new."}}
    ),
)  # fmt: skip
@needs("admin")
async def put_credential(
    request: Request,
    name: CredentialName,
    given: CredentialRequest,
    if_match: IfMatch = None,
    if_none_match: IfNoneMatch = None,
) -> Response:
    """Keep a credential, sealed, in place of the one of that name if there is one."""
    parts = parts_of(request)
    keyring = parts.lending.keyring
    try:
        fields = checked_fields(given.kind, given.fields)
    except BadCredentialError as problem:
        raise _unfit(problem) from None
    kind = kind_of(given.kind) or given.kind
    before = await _row(request, name)
    _check_condition(name, before, if_match)
    sealed = SealedCredential(name, kind, keyring.seal(name, kind, fields), keyring.active_id)
    seen_at = before.updated_at if before is not None and if_match is not None else None
    try:
        row = await parts.store.put_credential(
            sealed, principal_of(request).name, seen_at=seen_at, is_new=(if_none_match or "").strip() == "*"
        )
    except ChangedError as problem:
        raise Problem(412, str(problem)) from None
    status = 201 if row.created_at == row.updated_at else 200
    return views.shown(views.credential(row), status, {"ETag": _etag(row)})


@router.delete("/{name}", status_code=204, response_class=Response, responses=problems(404, 412))
@needs("admin")
async def delete_credential(request: Request, name: CredentialName, if_match: IfMatch = None) -> Response:
    """Delete a credential; jobs that name it fail from then on, once workers have forgotten it."""
    before = await _row(request, name)
    _check_condition(name, before, if_match)
    seen_at = before.updated_at if before is not None and if_match is not None else None
    try:
        was_there = await parts_of(request).store.delete_credential(name, principal_of(request).name, seen_at=seen_at)
    except ChangedError as problem:
        raise Problem(412, str(problem)) from None
    if not was_there:
        raise not_found(f"credential '{name}'")
    return Response(status_code=204)


@router.get("/{name}/value", response_model=schemas.LentCredential, responses=problems(404, 409))
@needs("worker")
async def lend_credential(request: Request, name: CredentialName, job_id: JobId) -> Response:
    """Lend a credential to a job that is under way and whose task names it; it is written down who got it."""
    principal = principal_of(request)
    if "worker" not in principal.scopes:
        raise Problem(403, f"the key '{principal.name}' may not do this; it needs the scope worker")
    lent = await parts_of(request).lending.lend(name, str(job_id), principal.name)
    body = {"name": lent.name, "kind": lent.kind, "fields": lent.fields}
    return views.shown(body, headers={"Cache-Control": "no-store"})


async def _row(request: Request, name: str) -> CredentialRow | None:
    found = await parts_of(request).store.credential(name)
    return None if found is None else found[0]


def _etag(row: CredentialRow) -> str:
    text = f"{row.name} {row.kind} {row.updated_at.isoformat()}"
    return f'"{hashlib.sha256(text.encode()).hexdigest()[:20]}"'


def _check_condition(name: str, row: CredentialRow | None, if_match: str | None) -> None:
    if if_match is None:
        return
    asked = [tag.strip() for tag in if_match.split(",")]
    if row is None or ("*" not in asked and _etag(row) not in asked):
        raise Problem(412, f"the credential '{name}' is not as it was")


def _unfit(problem: BadCredentialError) -> Problem:
    errors = [
        ErrorItem(path=path if path == "kind" else ".".join(filter(None, ("fields", path))), message=message)
        for path, message in problem.errors
    ]
    return Problem(422, f"{errors[0].path}: {errors[0].message}", errors=errors)
