"""How lists are read a page at a time, and which execution an address means."""

from __future__ import annotations

from typing import Annotated
from uuid import UUID

from fastapi import Header, Path, Query, Request

from services.ingest.models import TEXT_PATTERN, IdempotencyKey
from services.ingest.parts import parts_of
from services.ingest.problems import not_found
from shared.store.records import ExecutionRow

Limit = Annotated[int, Query(ge=1, le=1000, description="How many at most.")]
Cursor = Annotated[
    str | None,
    Query(pattern=r"^[A-Za-z0-9_-]*$", max_length=2000, description="Where the page begins: from the page before."),
]
Text = Annotated[str | None, Query(pattern=TEXT_PATTERN, max_length=200)]
ExecutionId = Annotated[UUID, Path(description="The execution's id.")]
KeyHeader = Annotated[
    IdempotencyKey | None,
    Header(alias="Idempotency-Key", description="Makes the request the same when it is sent again."),
]


async def execution_of(request: Request, execution_id: UUID) -> ExecutionRow:
    """Return the execution of an address; raise the problem that there is none."""
    row = await parts_of(request).store.execution(str(execution_id))
    if row is None:
        raise not_found(f"execution '{execution_id}'")
    return row
