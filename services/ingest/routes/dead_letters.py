"""Dead letters: what died on its way and nobody could read, looked at, sent again, thrown away."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from fastapi import Request, Response

from services.ingest import schemas_operations as schemas
from services.ingest import views
from services.ingest.auth import needs
from services.ingest.dead_letters import sent_again
from services.ingest.guard import guarded_router
from services.ingest.openapi import problems
from services.ingest.parts import parts_of, principal_of
from services.ingest.problems import Problem, not_found
from services.ingest.routes.paging import Cursor, Limit
from shared.store.records import AuditEntry, DeadLetterRow

router = guarded_router("dead letters", "/api/v1/dead-letters")

_SETTLED: dict[str, Any] = {"response_model": schemas.SettledDeadLetter, "responses": problems(404, 409)}


@router.get("", response_model=schemas.DeadLetterPage, responses=problems())
@needs("read", "run")
async def list_dead_letters(request: Request, limit: Limit = 100, cursor: Cursor = None) -> Response:
    """Return dead letters, the newest first; what they say is not shown."""
    found = await parts_of(request).store.dead_letters(limit, cursor)
    return views.shown(views.page(found, map(views.dead_letter, found.items)))


@router.post("/{dead_letter_id:uuid}:redrive", **_SETTLED)
@needs("run")
async def redrive_dead_letter(request: Request, dead_letter_id: UUID) -> Response:
    """Send a dead letter again to the queue that it died in, and keep it no longer."""
    parts = parts_of(request)
    row = await _found(request, dead_letter_id)
    message = sent_again(row.letter)
    if message is None:
        raise Problem(409, "where it died is not known, so it cannot be sent there again; discard it")
    if await parts.broker.publish_many([message]):
        raise Problem(409, f"the queue it died in is gone: {row.letter.queue}")
    return await _settled(request, row, "redriven")


@router.post("/{dead_letter_id:uuid}:discard", **_SETTLED)
@needs("run")
async def discard_dead_letter(request: Request, dead_letter_id: UUID) -> Response:
    """Throw a dead letter away."""
    return await _settled(request, await _found(request, dead_letter_id), "discarded")


async def _found(request: Request, dead_letter_id: UUID) -> DeadLetterRow:
    row = await parts_of(request).store.dead_letter(str(dead_letter_id))
    if row is None:
        raise not_found(f"dead letter '{dead_letter_id}'")
    return row


async def _settled(request: Request, row: DeadLetterRow, outcome: str) -> Response:
    store, identity = parts_of(request).store, row.letter.dead_letter_id
    await store.discard_dead_letter(identity)
    await store.note(AuditEntry(principal_of(request).name, f"dead_letter.{outcome}", identity))
    return views.shown({"dead_letter_id": identity, "outcome": outcome})
