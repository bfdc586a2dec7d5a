"""The claim of a cursor as a task: what the tool that claims is called with, and the rules that judge it."""

from __future__ import annotations

import json

from shared.language.plan import Constant, Cursor, Object, Step, Task, Value

CLAIM = "claim"
CLAIM_NAMES = frozenset({"max_rows", "claim_id"})
_FETCH = "rows"


def claim_of(step: Step) -> Task | None:
    """Return the task that claims the elements of a step's loop, if a cursor feeds it."""
    loop = step.loop
    if loop is None or loop.cursor is None:
        return None
    cursor = loop.cursor
    return Task(
        name=CLAIM,
        kind=cursor.kind,
        config=_call(cursor),
        rules=cursor.rules,
        timeout=cursor.timeout,
        pool=cursor.pool,
        place=loop.place,
    )


def tasks_of(step: Step) -> tuple[Task, ...]:
    """Return every task of a step: the claim of its loop, and those of its pipeline."""
    claim = claim_of(step)
    return step.tasks if claim is None else (claim, *step.tasks)


def _call(cursor: Cursor) -> Value:
    """Return the configuration of the call: the statement under the tool's own name for it, and all rows wanted."""
    config = cursor.config
    if isinstance(config, Object):
        items = tuple((_field(key), value) for key, value in config.items)
        return Object((*items, ("fetch", Constant(json.dumps(_FETCH)))))
    assert isinstance(config, Constant)
    data = {**{_field(key): value for key, value in json.loads(config.json).items()}, "fetch": _FETCH}
    return Constant(json.dumps(data, ensure_ascii=False, separators=(",", ":")))


def _field(name: str) -> str:
    return "command" if name == CLAIM else name
