"""Replay of a server's execution: its log and its Plan are fetched, every decision is taken again here."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from services.cli.api import ApiError
from services.cli.exit_codes import ExitCode
from services.cli.resources_api import ResourcesApi
from shared.contracts.events import UnknownEventError, event_from_json
from shared.contracts.payloads import ExecutionRedriven
from shared.engine.program import Program
from shared.engine.replay import replay
from shared.engine.world import KnownValues, MissingValueError
from shared.language.codec import plan_from_json

MOST_EVENTS = 1_000_000


@dataclass(frozen=True, slots=True)
class Replayed:
    """How many events were looked at, and where decisions come out differently."""

    events: int
    differences: list[str]


async def replayed(api: ResourcesApi, execution_id: str) -> Replayed:
    """Return where the decisions of an execution, taken again, differ from the recorded ones."""
    found = await api.execution(execution_id)
    items = await api.log(execution_id, MOST_EVENTS)
    try:
        log = [event_from_json(item) for item in items]
    except (UnknownEventError, KeyError, TypeError, ValueError) as problem:
        raise ApiError(ExitCode.BROKEN, f"the log has an event that this release cannot read: {problem}") from None
    if any(isinstance(event.payload, ExecutionRedriven) and event.payload.plan for event in log):
        raise ApiError(ExitCode.CONFLICT, "the execution was redriven with another version; it has no single Plan")
    program = Program(plan_from_json(await _plan(api, found)))
    values = KnownValues()
    while True:
        try:
            return Replayed(len(log), [str(difference) for difference in replay(program, log, values)])
        except MissingValueError as missing:
            values.by_ref[missing.ref] = await api.get(f"/results/{quote(missing.ref, safe=':/')}")


async def _plan(api: ResourcesApi, found: dict[str, Any]) -> dict[str, Any]:
    path = quote(found["path"], safe="/")
    version = await api.get(f"/playbooks/{path}/versions/{found['playbook_version']}")
    if version.get("plan") is None or version["digest"] != found["plan_digest"]:
        raise ApiError(ExitCode.NOT_FOUND, "the Plan of the execution is not in the catalogue")
    plan: dict[str, Any] = version["plan"]
    return plan
