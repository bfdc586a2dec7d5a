"""Loops over a cursor: claims made one at a time while there is room, until one brings nothing."""

from __future__ import annotations

from typing import Any

from shared.contracts.payloads import LoopClaimed, LoopStarted
from shared.contracts.references import into, is_reference
from shared.engine import loops, pipeline, steps
from shared.engine.render import ExpressionFailed, Renderer, expression_error
from shared.engine.state import NO_LOOP, Claims, Frame, LoopRun, StepRun
from shared.engine.tasks import schedule
from shared.engine.turn import Turn
from shared.engine.world import LostValueError
from shared.language.claims import CLAIM
from shared.language.plan import Cursor, Loop

MAX_FAILED_KEPT = 100
MAX_FAILED_BYTES = 16 * 1024


def started(loop: Loop, cursor: Cursor, renderer: Renderer) -> LoopStarted:
    """Return how a loop starts whose elements are not known."""
    return LoopStarted(
        iterator_name=loop.iterator,
        collection_size=None,
        mode=loop.mode,
        concurrency=loops.concurrency_of(loop, renderer),
        tolerate=renderer.number(loop.tolerate, "tolerate"),
        collect=loop.collect,
        cursor={
            "kind": cursor.kind,
            "max_rows": int(renderer.number(cursor.max_rows, "max_rows", whole=True)),
            "process": cursor.process,
            "tolerate_percent": loop.tolerate_percent,
        },
    )


def fill(turn: Turn, run: StepRun, loop: LoopRun, claims: Claims) -> None:
    """Start what waits while there is room, claim more when nothing waits, complete when nothing is left."""
    try:
        _start_waiting(turn, run, loop, claims)
    except LostValueError as problem:
        loops.stop(turn, run)
        steps.fail(turn, run, expression_error(str(problem)), run.key)
        return
    frame = run.frames[NO_LOOP]
    if claims.waiting or frame.job_id is not None:
        return
    if not claims.is_exhausted:
        if run.in_flight < loop.concurrency:
            schedule(turn, run, frame, turn.program.task(run.step, CLAIM))
    elif not run.in_flight:
        loops.complete(turn, run, loop)


def _start_waiting(turn: Turn, run: StepRun, loop: LoopRun, claims: Claims) -> None:
    while claims.waiting and run.in_flight < loop.concurrency:
        batch = claims.waiting[0]
        elements = loops.loaded(turn, batch.elements)
        for at in range(batch.taken, min(batch.size, batch.taken + loop.concurrency - run.in_flight)):
            index, element = elements[at] if batch.first is None else (batch.first + at, elements[at])
            loops.start_iteration(turn, run, index, element)


def claimed(turn: Turn, run: StepRun, frame: Frame, result: Any) -> None:
    """Take up what a claim brought, and go on with the loop."""
    loop = run.loop
    assert loop is not None
    assert loop.claims is not None
    try:
        count, rows = _rows(turn, result)
    except ExpressionFailed as problem:
        pipeline.end(turn, run, frame, problem.error)
        return
    whole = loop.claims.process == "frame"
    said = LoopClaimed(
        rows=count,
        first=loop.total,
        iterations=min(count, 1) if whole else count,
        elements=None if not count else [rows] if whole else rows,
    )
    turn.emit(said, run.address(frame, task=True), parent=frame.outcome_id)
    if not loops.give_up_if_lost(turn, run, loop):
        fill(turn, run, loop, loop.claims)


def _rows(turn: Turn, result: Any) -> tuple[int, Any]:
    """Return how many rows a claim's result holds, and the rows, by reference where they are large."""
    try:
        found = loops.loaded(turn, result)
        place = result
        if isinstance(found, dict) and "rows" in found:
            place = into(result, ("rows",)) if is_reference(result) else found["rows"]
            found = loops.loaded(turn, found["rows"])
    except LostValueError as problem:
        raise ExpressionFailed(expression_error(str(problem))) from None
    if found is None:
        return 0, None
    if not isinstance(found, list):
        kind = type(found).__name__
        raise ExpressionFailed(expression_error(f"a claim brings a list, or a mapping with a list 'rows', not {kind}"))
    return len(found), place if is_reference(place) else turn.keep(found, loops.INLINE_COLLECTION_BYTES)


def set_aside(turn: Turn, frame: Frame, claims: Claims) -> dict[str, Any] | None:
    """Return a reference to the elements of failed iterations, this one's included, once they are too many to carry."""
    if len(claims.failed) < MAX_FAILED_KEPT and claims.failed_bytes < MAX_FAILED_BYTES:
        return None
    kept = turn.keep([*claims.failed, [frame.iteration, frame.element]], 0)
    return {name: kept[name] for name in ("_ref", "_size")}
