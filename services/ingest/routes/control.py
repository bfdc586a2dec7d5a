"""What is asked of an execution that exists: to cancel, pause, resume or redrive it, and signals for it."""

from __future__ import annotations

import json
from typing import Annotated, Any
from uuid import UUID

from fastapi import Path, Request, Response

from services.ingest import schemas, views
from services.ingest.auth import needs
from services.ingest.facts import accept_facts
from services.ingest.guard import guarded_router
from services.ingest.models import ControlRequest, Name, RedriveRequest, SignalRequest
from services.ingest.openapi import problems
from services.ingest.parts import Parts, parts_of, principal_of
from services.ingest.problems import ErrorItem, Problem, not_found
from services.ingest.redriving import check_redrive
from services.ingest.routes.paging import ExecutionId, KeyHeader, execution_of
from shared.contracts.events import Event
from shared.contracts.ids import derived
from shared.contracts.payloads import ControlRequested, Payload, SignalReceived
from shared.engine.workload import merged_workload
from shared.language.diagnostics import did_you_mean
from shared.runtime.ids import new_id
from shared.store.records import OVER, ExecutionRow

router = guarded_router("executions", "/api/v1/executions")

_POSSIBLE = {
    "cancel": frozenset({"new", "running", "paused"}),
    "pause": frozenset({"running"}),
    "resume": frozenset({"paused"}),
    "redrive": OVER,
}
_ANSWERS: dict[str, Any] = {
    "status_code": 202,
    "response_model": schemas.Requested,
    "responses": problems(404, 409, 413, 415),
}


@router.post("/{execution_id:uuid}:cancel", **_ANSWERS)
@needs("run")
async def cancel_execution(
    request: Request, execution_id: ExecutionId, wanted: ControlRequest | None = None, key: KeyHeader = None
) -> Response:
    """End an execution; what runs is let go of."""
    return await _control(request, execution_id, "cancel", wanted, key)


@router.post("/{execution_id:uuid}:pause", **_ANSWERS)
@needs("run")
async def pause_execution(
    request: Request, execution_id: ExecutionId, wanted: ControlRequest | None = None, key: KeyHeader = None
) -> Response:
    """Take no decision until it is resumed; what runs goes on to its end."""
    return await _control(request, execution_id, "pause", wanted, key)


@router.post("/{execution_id:uuid}:resume", **_ANSWERS)
@needs("run")
async def resume_execution(
    request: Request, execution_id: ExecutionId, wanted: ControlRequest | None = None, key: KeyHeader = None
) -> Response:
    """Take decisions again."""
    return await _control(request, execution_id, "resume", wanted, key)


@router.post("/{execution_id:uuid}:redrive", **_ANSWERS)
@needs("run")
async def redrive_execution(
    request: Request, execution_id: ExecutionId, wanted: RedriveRequest | None = None, key: KeyHeader = None
) -> Response:
    """Run again what failed, or from a step on, with another workload or version of the playbook if wanted."""
    return await _control(request, execution_id, "redrive", wanted or RedriveRequest(), key)


@router.post("/{execution_id:uuid}/signals/{name}", **_ANSWERS)
@needs("run")
async def signal_execution(
    request: Request,
    execution_id: ExecutionId,
    name: Annotated[Name, Path()],
    wanted: SignalRequest | None = None,
    key: KeyHeader = None,
) -> Response:
    """Send a signal to the tasks that wait for it, or will."""
    row = await execution_of(request, execution_id)
    if row.status in OVER:
        raise Problem(409, f"the execution is {row.status} already", execution_status=row.status)
    said = SignalReceived(name, wanted.payload if wanted is not None else None)
    parts = parts_of(request)
    identity = derived("signal", row.execution_id, name, key) if key else new_id(parts.clock.now())
    return await _stored(request, parts, row, said, identity)


async def _control(
    request: Request, execution_id: UUID, command: str, wanted: ControlRequest | None, key: str | None
) -> Response:
    parts = parts_of(request)
    row = await execution_of(request, execution_id)
    said = await _request(parts, row, command, wanted or ControlRequest(), principal_of(request).name)
    # Said again at the same place of the log it is the same request; with a key it is wherever the log has got to.
    contents = json.dumps([said.step, said.workload, said.plan], sort_keys=True)
    at = key or f"{row.version}|{contents}"
    identity = derived("control", row.execution_id, command, at)
    if row.status not in _POSSIBLE[command] and not (key and await _was_obeyed(parts, row, identity)):
        raise _impossible(row, command)
    if command == "redrive" and row.status in OVER:
        await check_redrive(parts, row, said)
    return await _stored(request, parts, row, said, identity)


async def _was_obeyed(parts: Parts, row: ExecutionRow, identity: str) -> bool:
    """Say whether a request is in the log already: then it may well be what made it impossible now."""
    log = await parts.store.events(row.execution_id, types={ControlRequested.type})
    return any(event.event_id == identity for event in log)


async def _request(parts: Parts, row: ExecutionRow, command: str, wanted: ControlRequest, by: str) -> ControlRequested:
    if not isinstance(wanted, RedriveRequest):
        return ControlRequested(command, by, wanted.reason)
    digest = row.plan_digest
    if wanted.version is not None:
        version = None if wanted.version == "latest" else wanted.version
        found = await parts.store.playbook(row.path, version)
        if found is None:
            raise not_found(f"playbook '{row.path}' in version {wanted.version}")
        digest = found.digest
    plan = await parts.plans.of(digest)
    if wanted.step is not None and plan.step(wanted.step) is None:
        message = f"the playbook has no step '{wanted.step}'"
        hint = did_you_mean(wanted.step, [step.name for step in plan.steps])
        raise Problem(409, message, errors=[ErrorItem(path="step", message=message, hint=hint)])
    workload = None if wanted.workload is None else merged_workload(plan, wanted.workload)
    changed = digest if digest != row.plan_digest else None
    return ControlRequested(command, by, wanted.reason, wanted.step, workload, changed)


def _impossible(row: ExecutionRow, command: str) -> Problem:
    possible = " or ".join(sorted(_POSSIBLE[command]))
    detail = f"an execution that is {row.status} cannot be asked to {command}; it would have to be {possible}"
    return Problem(409, detail, execution_status=row.status)


async def _stored(request: Request, parts: Parts, row: ExecutionRow, said: Payload, identity: str) -> Response:
    source = f"api:{principal_of(request).name}"
    fact = Event(row.execution_id, said, event_id=identity, occurred_at=parts.clock.now(), source=source)
    stored = await accept_facts(parts.store, [fact], parts.metrics)
    parts.waker.wake([row.execution_id])
    answer = {
        "execution_id": row.execution_id,
        "event_id": identity,
        "new": identity in stored.new,
        "status": row.status,
    }
    return views.shown(answer, 202, {"Location": f"/api/v1/executions/{row.execution_id}"})
