"""What would have happened under other rules: an edited playbook over a recorded run, nothing executed."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from fastapi import Request, Response

from services.ingest import schemas_operations as schemas
from services.ingest import views
from services.ingest.auth import needs
from services.ingest.catalogue import judge, unfit
from services.ingest.guard import guarded_router
from services.ingest.log import read_log
from services.ingest.models import SimulateRequest
from services.ingest.openapi import problems
from services.ingest.parts import Parts, parts_of
from services.ingest.problems import Problem, not_found
from services.ingest.routes.paging import ExecutionId, execution_of
from shared.contracts.events import Event
from shared.engine.explain import explain
from shared.engine.program import Program
from shared.engine.simulate import Simulated, TooMuchConjectureError, simulate
from shared.engine.world import MissingValueError
from shared.language.plan import Plan
from shared.store.port import UnknownReferenceError
from shared.store.records import ExecutionRow

MOST_EVENTS = 20_000
MOST_VALUES = 1_000
MOST_SHOWN = 1_000

router = guarded_router("executions", "/api/v1/executions")


@router.post("/{execution_id:uuid}:simulate", response_model=schemas.Simulation, responses=problems(404, 409, 413, 415))
@needs("read", "run")
async def simulate_execution(request: Request, execution_id: ExecutionId, wanted: SimulateRequest) -> Response:
    """Lay an edited playbook over the recorded outcomes and return what it would have decided; nothing is executed."""
    parts = parts_of(request)
    row = await execution_of(request, execution_id)
    plan = await _plan(parts, row, wanted)
    log, is_cut = await read_log(parts.store, row.execution_id, MOST_EVENTS)
    if is_cut:
        raise Problem(409, f"the log has more than {MOST_EVENTS} events, too many to simulate here")
    if not log:
        raise Problem(409, "nothing of the execution is recorded yet", execution_status=row.status)
    return views.shown(_shown(await _simulated(parts, Program(plan), log)))


async def _plan(parts: Parts, row: ExecutionRow, wanted: SimulateRequest) -> Plan:
    if wanted.playbook is not None:
        judged = await judge(wanted.playbook)
        if judged.compiled.plan is None:
            raise unfit(judged.compiled, "playbook")
        return judged.compiled.plan
    found = await parts.store.playbook(row.path, None if wanted.version == "latest" else wanted.version)
    if found is None:
        raise not_found(f"playbook '{row.path}' in version {wanted.version}")
    return await parts.plans.of(found.digest)


async def _simulated(parts: Parts, program: Program, log: Sequence[Event]) -> Simulated:
    """Simulate in a thread, for it takes a while; stored values are loaded as they are asked for."""
    values: dict[str, Any] = {}
    while len(values) < MOST_VALUES:
        try:
            return await asyncio.to_thread(simulate, program, log, values)
        except MissingValueError as missing:
            values[missing.ref] = await _value(parts, missing.ref)
        except TooMuchConjectureError as problem:
            raise Problem(409, f"it cannot be simulated: {problem}") from None
    raise Problem(409, f"it needs more than {MOST_VALUES} stored values, too many to simulate here")


async def _value(parts: Parts, ref: str) -> Any:
    try:
        return await parts.store.result(ref)
    except UnknownReferenceError:
        raise Problem(409, f"it cannot be simulated: the stored value {ref[:80]} is gone") from None


def _shown(found: Simulated) -> dict[str, Any]:
    said = explain(found.log)
    cut = max(len(said), len(found.changes), len(found.conjectures)) > MOST_SHOWN
    return {
        "execution_id": found.execution_id,
        "recorded_status": found.recorded_status,
        "status": found.status,
        "result": found.result,
        "certain": found.is_certain,
        "conjecture_from": found.conjecture_from,
        "conjectures": [{"node": item.node, "assumed": item.assumed} for item in found.conjectures[:MOST_SHOWN]],
        "changes": found.changes[:MOST_SHOWN],
        "items": [{"seq": item.seq, "node": item.node, "text": item.text} for item in said[:MOST_SHOWN]],
        "truncated": cut,
    }
