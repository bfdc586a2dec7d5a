"""The log of an execution, read and told on; and events that workers and outside programs report."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

from fastapi import Header, Query, Request, Response
from pydantic import ValidationError
from starlette.responses import StreamingResponse

from services.ingest import schemas, views
from services.ingest.auth import needs
from services.ingest.emit import EmitError, EmittedEvent, fact_of
from services.ingest.facts import accept_facts
from services.ingest.guard import check_json, guarded_router
from services.ingest.log import read_log
from services.ingest.models import MAX_BATCH, TEXT_PATTERN
from services.ingest.openapi import body, problems, reference_to
from services.ingest.parts import parts_of, principal_of
from services.ingest.problems import ErrorItem, Problem, validation_items
from services.ingest.routes.paging import ExecutionId, Text, execution_of
from services.ingest.stream import frames
from shared.contracts.events import Event, types_named
from shared.contracts.ids import parse_node
from shared.contracts.payloads import CATALOGUE
from shared.engine.explain import explain
from shared.language.diagnostics import did_you_mean
from shared.runtime.ids import new_id
from shared.store.port import Store

MAX_SEQ = 2**62
EXPLAIN_MOST = 20_000

router = guarded_router("events", "/api/v1")

After = Annotated[int, Query(ge=0, le=MAX_SEQ, description="The place in the log after which it goes on.")]
Types = Annotated[
    list[Annotated[str, Query(pattern=TEXT_PATTERN, max_length=100)]],
    Query(description="Names of types or their older aliases."),
]
_EVENTS = {"type": "array", "items": reference_to(EmittedEvent), "minItems": 1, "maxItems": MAX_BATCH}
_BODY = body(
    application__json={
        "oneOf": [
            reference_to(EmittedEvent),
            _EVENTS,
            {
                "type": "object",
                "properties": {"events": _EVENTS},
                "required": ["events"],
                "additionalProperties": False,
            },
        ]
    }
)
_REPORT: dict[str, Any] = {
    "status_code": 202,
    "response_model": schemas.Emitted,
    "responses": problems(404, 413, 415),
    "openapi_extra": _BODY,
}


@router.get("/executions/{execution_id:uuid}/events", response_model=schemas.EventPage, responses=problems(404))
@needs("read", "run")
async def list_events(
    request: Request,
    execution_id: ExecutionId,
    type: Types = [],  # noqa: B006
    step: Text = None,
    after: After = 0,
    limit: Annotated[int, Query(ge=1, le=1000)] = 1000,
) -> Response:
    """Return the log, or what of it has these types."""
    row = await execution_of(request, execution_id)
    types = _types(type)
    found = await parts_of(request).store.events(
        row.execution_id, types=types, step=step or None, after=after, limit=limit
    )
    more = found[-1].seq if len(found) == limit else None
    return views.shown({"items": [views.event(item) for item in found], "after": more})


@router.get(
    "/executions/{execution_id:uuid}/events/stream",
    response_class=StreamingResponse,
    responses=problems(404, also={200: {"content": {"text/event-stream": {}}}}),
)
@needs("read", "run")
async def stream_events(
    request: Request,
    execution_id: ExecutionId,
    after: After = 0,
    last: Annotated[int | None, Header(alias="Last-Event-ID", ge=0, le=MAX_SEQ)] = None,
) -> Response:
    """Tell the log as it grows; the id of each event is its place, from which a broken stream is taken up again."""
    row = await execution_of(request, execution_id)
    told = frames(parts_of(request), row.execution_id, last if last is not None else after)
    headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
    return StreamingResponse(told, headers=headers, media_type="text/event-stream")


@router.get("/executions/{execution_id:uuid}/explain", response_model=schemas.Explanation, responses=problems(404))
@needs("read", "run")
async def explain_execution(request: Request, execution_id: ExecutionId, node: Text = None) -> Response:
    """Return the decisions in words; with a node, only those at it or below it."""
    row = await execution_of(request, execution_id)
    log, is_cut = await _log(parts_of(request).store, row.execution_id, node or None)
    said = explain(log, node or None)
    items = [{"seq": item.seq, "node": item.node, "text": item.text} for item in said]
    return views.shown({"items": items, "truncated": is_cut})


@router.post("/events", **_REPORT)
@needs("worker")
async def emit_events(request: Request) -> Response:
    """Take events from workers or outside programs: one, or a list; each counts once, by its id."""
    return await _emit(request)


@router.post("/event/emit", **_REPORT)
@needs("worker")
async def emit_event(request: Request) -> Response:
    """Take events at the older address."""
    return await _emit(request)


async def _emit(request: Request) -> Response:
    parts = parts_of(request)
    check_json(request)
    facts = _facts(await request.json(), request)
    stored = await accept_facts(parts.store, facts, parts.metrics)
    parts.waker.wake({fact.execution_id for fact in facts} - stored.unknown)
    if stored.unknown:
        raise _unknown(stored.unknown, len(stored.new))
    seen: set[str] = set()
    items = []
    for fact in facts:
        is_new = fact.identity in stored.new and fact.identity not in seen
        seen.add(fact.identity)
        items.append({"event_id": fact.identity, "execution_id": fact.execution_id, "type": fact.type, "new": is_new})
    return views.shown({"accepted": len(items), "new": len(stored.new), "events": items}, 202)


def _facts(given: Any, request: Request) -> list[Event]:
    """Return the facts of a body; raise the problem that names everything wrong with them."""
    parts, who = parts_of(request), principal_of(request).name
    now = parts.clock.now()
    facts: list[Event] = []
    errors: list[ErrorItem] = []
    for base, item in _items(given):
        try:
            facts.append(fact_of(EmittedEvent.model_validate(item), who, now, lambda: new_id(now)))
        except ValidationError as problem:
            errors += validation_items(problem.errors(include_url=False, include_input=False), base)
        except EmitError as problem:
            path = f"{base}.{problem.field}" if base else problem.field
            errors.append(ErrorItem(path=path, message=problem.message, hint=problem.hint))
    if errors:
        raise Problem(422, f"{errors[0].path or 'the body'}: {errors[0].message}", errors=errors)
    return facts


def _items(given: Any) -> list[tuple[str, Any]]:
    """Return the events of a body, each with its place there."""
    base, listed = "", given
    if isinstance(given, dict) and set(given) == {"events"}:
        base, listed = "events.", given["events"]
    elif isinstance(given, dict):
        return [("", given)]
    if not isinstance(listed, list):
        raise Problem(422, "expected an event or a list of events", errors=[ErrorItem(message="not an event")])
    if not 1 <= len(listed) <= MAX_BATCH:
        message = f"a list has 1 to {MAX_BATCH} events, not {len(listed)}"
        raise Problem(422, message, errors=[ErrorItem(path="events", message=message)])
    return [(f"{base}{number}", item) for number, item in enumerate(listed)]


def _unknown(executions: frozenset[str], stored: int) -> Problem:
    listed = sorted(executions)
    more = f" and {len(listed) - 3} more" if len(listed) > 3 else ""
    detail = f"there is no execution {', '.join(listed[:3])}{more}; the events of others were stored"
    return Problem(404, detail, unknown_executions=listed, stored=stored)


def _types(names: Sequence[str]) -> frozenset[str] | None:
    if not names:
        return None
    found: set[str] = set()
    for name in names:
        types = types_named(name)
        if not types:
            known = [*CATALOGUE, *(cls.alias for cls in CATALOGUE.values())]
            message = f"there is no type of event '{name}'"
            raise Problem(
                422, message, errors=[ErrorItem(path="type", message=message, hint=did_you_mean(name, known))]
            )
        found |= types
    return frozenset(found)


async def _log(store: Store, execution_id: str, node: str | None) -> tuple[list[Event], bool]:
    """Return the events to explain, and whether there were too many."""
    step = None
    if node is not None:
        address = parse_node(node.split(".", 1)[0]) or parse_node(node)
        step = address.step if address is not None else node.split("~", 1)[0]
    return await read_log(store, execution_id, EXPLAIN_MOST, step=step)
