"""The JSON Schema of the language, for editors."""

from __future__ import annotations

from functools import cache
from typing import Any

from fastapi import Response

from services.ingest.guard import guarded_router
from services.ingest.kinds import known_kinds
from services.ingest.views import shown
from shared.language.schema import playbook_schema

router = guarded_router("playbooks", "/api/v1/schema")


@router.get("/playbook.json", response_model=dict[str, Any])
async def show_schema() -> Response:
    """Return the JSON Schema of playbooks."""
    return shown(_schema(), headers={"Cache-Control": "public, max-age=3600"})


@cache
def _schema() -> dict[str, Any]:
    return playbook_schema(known_kinds())
