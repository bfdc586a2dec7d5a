"""What parallel iterations may write to `ctx`: one value per key, or values that a reducer combines."""

from __future__ import annotations

from typing import Any

from shared.engine.patches import combined, read
from shared.engine.state import Frame, StepRun
from shared.engine.turn import Turn


class WriteConflictError(Exception):
    """A value cannot be written beside what stands there already; `error` is what becomes of its writer."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.error: dict[str, Any] = {"kind": "conflict", "message": message, "retryable": False}


def checked_patches(turn: Turn, run: StepRun, frame: Frame, patches: dict[str, Any]) -> dict[str, Any]:
    """Return the patches with what a reducer combines set apart, or raise where parallel iterations disagree."""
    wanted = patches.get("ctx")
    if not wanted:
        return patches
    reducers = dict(turn.program.plan.reducers)
    written = run.loop.ctx_writes if run.loop is not None and run.loop.parallel else {}
    plain: dict[str, Any] = {}
    reduced: dict[str, Any] = {}
    for key, value in wanted.items():
        if key in reducers:
            _check_reducible(reducers[key], read(turn.state.ctx, key), value, key)
            reduced[key] = {"by": reducers[key], "value": value}
        elif key in written and written[key][0] != frame.iteration and written[key][1] != value:
            raise WriteConflictError(f"another iteration wrote a different value to ctx.{key}")
        else:
            plain[key] = value
    out = {**patches, "ctx": plain}
    return {**out, "reduce": reduced} if reduced else out


def _check_reducible(reducer: str, old: Any, new: Any, key: str) -> None:
    if reducer == "append":
        return
    try:
        combined(reducer, old, new)
    except TypeError:
        message = f"ctx.{key}: {type(new).__name__} and {type(old).__name__} cannot be combined by '{reducer}'"
        raise WriteConflictError(message) from None
