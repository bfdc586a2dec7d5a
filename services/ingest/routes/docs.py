"""The documentation page: drawn from the OpenAPI document by a script of our own, with nothing from elsewhere."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from fastapi import Response

from services.ingest.guard import guarded_router

_FOLDER = Path(__file__).resolve().parent.parent / "docs"
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)

router = guarded_router("docs", in_schema=False)


@router.get("/docs")
async def show_docs() -> Response:
    """Return the page."""
    return _file("page.html", "text/html")


@router.get("/docs/page.js")
async def show_docs_script() -> Response:
    """Return the script that draws it."""
    return _file("page.js", "text/javascript")


@router.get("/docs/page.css")
async def show_docs_style() -> Response:
    """Return how it looks."""
    return _file("page.css", "text/css")


def _file(name: str, kind: str) -> Response:
    return Response(_text(name), media_type=kind, headers={"Content-Security-Policy": _POLICY})


@cache
def _text(name: str) -> bytes:
    return (_FOLDER / name).read_bytes()
