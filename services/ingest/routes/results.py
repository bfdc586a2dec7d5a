"""Stored values: loaded by reference, in parts if wanted, and put there by workers."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator
from typing import Annotated, Any

from fastapi import Header, Path, Request, Response
from starlette.responses import StreamingResponse

from services.ingest import schemas, strict_json, views
from services.ingest.auth import needs
from services.ingest.guard import check_json, guarded_router
from services.ingest.openapi import body, problems
from services.ingest.parts import parts_of
from services.ingest.problems import Problem
from shared.store.port import Store, UnknownReferenceError

LOOP = "loop:"
PAGE = 1000

_RANGE = re.compile(r"bytes=(\d{0,15})-(\d{0,15})")

router = guarded_router("results", "/api/v1/results")

Reference = Annotated[str, Path(max_length=1000, description="As in `_ref`: sha256:… or loop:…")]
_VALUE: dict[str, Any] = {"content": {"application/json": {"schema": {}}}}
_PART = {"description": "A part of its text."}


@router.get(
    "/{ref:path}",
    response_class=Response,
    responses=problems(404, 416, also={200: {**_VALUE, "description": "The value."}, 206: {**_VALUE, **_PART}}),
)
@needs("read", "run", "worker")
async def load_result(
    request: Request, ref: Reference, wanted: Annotated[str | None, Header(alias="Range", max_length=100)] = None
) -> Response:
    """Return a stored value, or a part of its text; what is stored by its contents never changes."""
    store = parts_of(request).store
    if ref.startswith(LOOP):
        first, rest = await _first_page(store, ref)
        return StreamingResponse(_listed(first, rest, await _total(store, ref)), media_type="application/json")
    start, length = await _part(store, ref, wanted)
    found = await store.result_bytes(ref, start, length)
    if found is None:
        raise UnknownReferenceError(ref[:80])
    text, size = found
    headers = {"ETag": f'"{ref}"', "Cache-Control": "private, max-age=31536000, immutable", "Accept-Ranges": "bytes"}
    if wanted is None or _RANGE.fullmatch(wanted) is None:
        return Response(text, 200, headers, "application/json")
    headers["Content-Range"] = f"bytes {start}-{start + len(text) - 1}/{size}"
    return Response(text, 206, headers, "application/json")


@router.post(
    "",
    status_code=201,
    response_model=schemas.Reference,
    responses=problems(413, 415),
    openapi_extra=body(application__json={}),
)
@needs("worker", takes_results=True)
async def store_result(request: Request) -> Response:
    """Store a value by its contents, once however often it is sent, and return the reference to it."""
    check_json(request)
    value = strict_json.parse(await request.body())
    reference = await parts_of(request).store.put_result(value)
    return views.shown(reference, 201, {"Location": f"/api/v1/results/{reference['_ref']}"})


async def _part(store: Store, ref: str, wanted: str | None) -> tuple[int, int | None]:
    """Return where the wanted part begins and how long it is; a range that is not understood means everything."""
    found = _RANGE.fullmatch(wanted or "")
    if found is None or found[1] == found[2] == "":
        return 0, None
    whole = await store.result_bytes(ref, 0, 0)
    if whole is None:
        raise UnknownReferenceError(ref[:80])
    size = whole[1]
    if found[1] == "":
        start, end = max(0, size - int(found[2])), size
    else:
        start, end = int(found[1]), min(size, int(found[2]) + 1) if found[2] else size
    if start >= size or end <= start:
        raise Problem(416, f"the value has {size} bytes", headers={"Content-Range": f"bytes */{size}"})
    return start, end - start


Entries = list[tuple[int, Any]]


async def _first_page(store: Store, ref: str) -> tuple[Entries, AsyncIterator[Entries]]:
    """Return the first results of a loop, so that one that is not there is known before the answer begins."""
    pages = aiter(store.loop_results(ref, PAGE))
    return await anext(pages, []), pages


async def _listed(first: Entries, rest: AsyncIterator[Entries], total: int) -> AsyncIterator[str]:
    """Give the results of a loop as one list, with null where there is none."""
    yield "["
    place = 0
    page = first
    while page:
        parts: list[str] = []
        for index, value in page:
            parts += ["null"] * (index - place)
            parts.append(json.dumps(value, ensure_ascii=False, separators=(",", ":")))
            place = index + 1
        yield ("," if page[0][0] != first[0][0] else "") + ",".join(parts)
        page = await anext(rest, [])
    missing = ",".join(["null"] * max(0, total - place))
    yield f"{',' if place and missing else ''}{missing}]"


async def _total(store: Store, ref: str) -> int:
    """Return how many elements a loop has that is known to be there."""
    execution_id, _, node = ref.removeprefix(LOOP).partition("/")
    loops = await store.iterators(execution_id)
    return next((loop.total_iterations for loop in loops if loop.node == node), 0)
