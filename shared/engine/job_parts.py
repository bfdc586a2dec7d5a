"""The parts of a job: expressions for the worker written out, their places said, what is too large to send stored.

The limits are such that a job is never larger than a message may be, whatever its playbook and its data.
"""

from __future__ import annotations

import json
from typing import Any, NamedTuple, NoReturn

from shared.contracts.deferred import JobPath
from shared.contracts.jobs import DEFAULT_POOL
from shared.contracts.pools import pool_problem
from shared.contracts.references import is_reference
from shared.engine.deferred import LooksStoredError, sealed
from shared.engine.render import ExpressionFailed, expression_error
from shared.engine.turn import Turn
from shared.engine.world import canonical_json
from shared.language.plan import Task

CALL_BYTES = 96 * 1024
SINK_BYTES = 32 * 1024
PLACES_BYTES = 16 * 1024
SELECT_BYTES = 8 * 1024


class Parts(NamedTuple):
    """What a task is called with and what becomes of its result, as a job carries it."""

    config: Any
    input: Any
    sink: dict[str, Any] | None
    deferred: tuple[JobPath, ...] = ()


def fitted(turn: Turn, parts: Parts, *, has_deferred: bool) -> Parts:
    """Return the parts as they can be sent; raises ExpressionFailed for what cannot."""
    config, given, sink, deferred = _written_out(parts) if has_deferred else parts
    if sink is not None:
        sink = {**sink, "config": _kept(turn, sink["config"], "the configuration of the sink", SINK_BYTES)}
    config = _kept(turn, config, "the configuration of the task", CALL_BYTES)
    return Parts(config, _kept(turn, given, "the input of the task", CALL_BYTES), sink, deferred)


def checked_select(task: Task) -> tuple[str, ...]:
    """Return the fields of a result that stay readable; raises ExpressionFailed if they are too many to send."""
    if task.select and len(json.dumps(task.select)) > SELECT_BYTES:
        _refuse(f"output.select takes more than {SELECT_BYTES} bytes")
    return task.select


def pool_named(name: Any) -> str:
    """Return the name of a pool, the default one if there is none; raises ExpressionFailed if it cannot be one."""
    text = str(name or DEFAULT_POOL)
    problem = pool_problem(text)
    if problem is not None:
        _refuse(f"pool: {problem}")
    return text


def _written_out(parts: Parts) -> Parts:
    try:
        data, places = sealed({"config": parts.config, "input": parts.input, "sink": parts.sink})
    except LooksStoredError:
        _refuse("what holds an expression for the worker cannot have a '_ref' that looks like one of a stored value")
    if len(json.dumps(places)) > PLACES_BYTES:
        _refuse(f"{len(places)} expressions that need the worker are more than one job can name the places of")
    return Parts(data["config"], data["input"], data["sink"], places)


def _kept(turn: Turn, value: Any, what: str, limit: int) -> Any:
    if is_reference(value) and len(canonical_json(value).encode()) > limit:
        _refuse(f"{what} looks like a stored value and takes more than {limit} bytes besides")
    return turn.keep(value, limit)


def _refuse(message: str) -> NoReturn:
    raise ExpressionFailed(expression_error(message))
