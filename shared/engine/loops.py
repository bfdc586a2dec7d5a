"""Loops: the elements found once, iterations started as others end, results counted and not kept."""

from __future__ import annotations

import math
from typing import Any

from shared.contracts.ids import Address
from shared.contracts.payloads import (
    IterationCompleted,
    IterationFailed,
    IterationStarted,
    LoopCompleted,
    LoopStarted,
)
from shared.contracts.references import fetched, is_reference
from shared.engine import cursors, ending, steps
from shared.engine.render import ExpressionFailed, Renderer, expression_error
from shared.engine.state import Frame, LoopRun, StepRun
from shared.engine.turn import Turn
from shared.engine.world import LostValueError
from shared.language.plan import Loop

DEFAULT_IN_FLIGHT = 100
MAX_ELEMENTS = 10_000_000
INLINE_COLLECTION_BYTES = 16 * 1024


def start(turn: Turn, run: StepRun) -> None:
    """Find the elements of a step's loop and start as many iterations as may run at once."""
    loop = turn.program.steps[run.step].loop
    assert loop is not None
    try:
        said = _started(turn, run, loop)
    except ExpressionFailed as problem:
        steps.fail(turn, run, problem.error, run.key)
        return
    except LostValueError as problem:
        steps.fail(turn, run, expression_error(str(problem)), run.key)
        return
    turn.emit(said, run.address())
    fill(turn, run)


def _started(turn: Turn, run: StepRun, loop: Loop) -> LoopStarted:
    renderer = turn.renderer(turn.scope(run, purpose=f"{run.key}|loop"))
    if loop.cursor is not None:
        return cursors.started(loop, loop.cursor, renderer)
    size: int | None = None
    if loop.chunk_size is not None:
        size = int(renderer.number(loop.chunk_size, "chunk_size", whole=True))
    elements, sources = _elements(turn, run, loop, renderer.value(loop.source))
    if size is not None:
        listed = list(range(elements)) if isinstance(elements, int) else elements
        elements = [listed[at : at + size] for at in range(0, len(listed), size)]
        sources = None
    total = elements if isinstance(elements, int) else len(elements)
    tolerate = renderer.number(loop.tolerate, "tolerate")
    return LoopStarted(
        iterator_name=loop.iterator,
        collection_size=total,
        mode=loop.mode,
        concurrency=concurrency_of(loop, renderer),
        chunk_size=size,
        tolerate=math.floor(total * tolerate / 100) if loop.tolerate_percent else tolerate,
        collection=elements if isinstance(elements, int) else turn.keep(elements, INLINE_COLLECTION_BYTES),
        sources=None if sources is None else turn.keep(sources, INLINE_COLLECTION_BYTES),
        collect=loop.collect,
    )


def concurrency_of(loop: Loop, renderer: Renderer) -> int:
    """Return how many iterations of a loop may run at once."""
    if loop.mode != "parallel":
        return 1
    return (
        DEFAULT_IN_FLIGHT
        if loop.max_in_flight is None
        else max(1, int(renderer.number(loop.max_in_flight, "max_in_flight")))
    )


def _elements(turn: Turn, run: StepRun, loop: Loop, found: Any) -> tuple[list[Any] | int, list[int] | None]:
    """Return the elements, filtered, and their places in the collection where these differ."""
    found = loaded(turn, found)
    if isinstance(found, bool) or not isinstance(found, list | dict | int):
        kind = "nothing" if found is None else type(found).__name__
        raise ExpressionFailed(expression_error(f"a loop runs over a list, a mapping or a number, not {kind}"))
    if isinstance(found, int):
        if not 0 <= found <= MAX_ELEMENTS:
            raise ExpressionFailed(expression_error(f"a loop of {found} iterations is not possible"))
        if loop.where is None:
            return found, None
        found = list(range(found))
    if isinstance(found, dict):
        found = [{"key": key, "value": value} for key, value in found.items()]
    if loop.where is None:
        return found, None
    kept = [index for index, element in enumerate(found) if _is_wanted(turn, run, loop, element, index)]
    return [found[index] for index in kept], kept


def _is_wanted(turn: Turn, run: StepRun, loop: Loop, element: Any, index: int) -> bool:
    assert loop.where is not None
    names = {loop.iterator: element, "index": index, "source_index": index}
    scope = turn.scope(run, Frame(iter=names), purpose=f"{run.key}|where|{index}")
    return turn.renderer(scope).holds(loop.where)


def loaded(turn: Turn, value: Any) -> Any:
    """Return a value, or the one that it stands for; raises LostValueError."""
    return fetched(value, turn.world.values.load) if is_reference(value) else value


def fill(turn: Turn, run: StepRun) -> None:
    """Start iterations until as many run as may, or complete the loop when all have ended."""
    loop = run.loop
    assert loop is not None
    if loop.claims is not None:
        cursors.fill(turn, run, loop, loop.claims)
        return
    if len(run.frames) < loop.concurrency and (len(loop.redo) or loop.next < loop.total) and not _is_lost(loop):
        try:
            elements, sources = loaded(turn, loop.collection), loaded(turn, loop.sources)
        except LostValueError as problem:
            steps.fail(turn, run, expression_error(str(problem)), run.key)
            return
        _start_iterations(turn, run, loop, elements, sources)
    if not run.frames and (_is_lost(loop) or (not len(loop.redo) and loop.next >= loop.total)):
        complete(turn, run, loop)


def _start_iterations(turn: Turn, run: StepRun, loop: LoopRun, elements: Any, sources: Any) -> None:
    while len(run.frames) < loop.concurrency and (len(loop.redo) or loop.next < loop.total):
        index = next(iter(loop.redo)) if len(loop.redo) else loop.next
        element = index if isinstance(elements, int) else elements[index]
        source = sources[index] if sources is not None else None
        start_iteration(turn, run, index, element, source)


def start_iteration(turn: Turn, run: StepRun, index: int, element: Any, source: int | None = None) -> None:
    """Start the iteration of one element."""
    address = Address(run.step, run.visit, index)
    turn.emit(IterationStarted(index, source, turn.keep(element, INLINE_COLLECTION_BYTES)), address)
    turn.ready.append((run, run.frames[index]))


def _is_lost(loop: LoopRun) -> bool:
    """Say whether more iterations failed than may; a share of elements that are not yet counted is not known."""
    claims = loop.claims
    if claims is None or not claims.tolerate_percent:
        return len(loop.failed) > loop.tolerate
    return claims.is_exhausted and len(loop.failed) > math.floor(loop.total * loop.tolerate / 100)


def iteration_completed(turn: Turn, run: StepRun, frame: Frame, result: Any) -> None:
    """Count an iteration that ended well, and go on with the loop."""
    assert frame.iteration is not None
    turn.emit(IterationCompleted(frame.iteration, result), run.address(frame))
    fill(turn, run)


def iteration_failed(turn: Turn, run: StepRun, frame: Frame, error: dict[str, Any]) -> None:
    """Count an iteration that failed; more failures than are tolerated end the loop."""
    assert frame.iteration is not None
    assert run.loop is not None
    set_aside = None if run.loop.claims is None else cursors.set_aside(turn, frame, run.loop.claims)
    turn.emit(IterationFailed(frame.iteration, error, set_aside=set_aside), run.address(frame))
    if not give_up_if_lost(turn, run, run.loop):
        fill(turn, run)


def give_up_if_lost(turn: Turn, run: StepRun, loop: LoopRun) -> bool:
    """End a loop in which too many iterations failed, whatever is under way; say whether it was so."""
    if not _is_lost(loop) or not run.frames:
        return False
    stop(turn, run)
    complete(turn, run, loop)
    return True


def stop(turn: Turn, run: StepRun) -> None:
    """Cancel what is under way in a loop, and what was about to begin."""
    for frame in run.frames.values():
        ending.cancel_frame(turn, frame)
    turn.ready = type(turn.ready)((r, f) for r, f in turn.ready if r is not run)


def complete(turn: Turn, run: StepRun, loop: LoopRun) -> None:
    """Say how a loop ended, and end its step."""
    failed = len(loop.failed)
    results = _results(turn, run, loop)
    said = LoopCompleted(
        total_iterations=loop.total,
        completed_iterations=loop.succeeded + failed,
        successful=loop.succeeded,
        failed=failed,
        success_rate=round(loop.succeeded / loop.total, 6) if loop.total else 1.0,
        results=results,
        errors=loop.errors or None,
    )
    turn.emit(said, run.address())
    if _is_lost(loop):
        first = loop.errors[0] if loop.errors else {"kind": "loop", "message": "iterations failed"}
        more = f"{failed} of {loop.total} iterations failed; the first: {first['message']}"
        error = {**first, "message": more[:500], "details": {"failed": failed, "total": loop.total, "first": first}}
        steps.fail(turn, run, error, str(first.get("node") or run.key))
    else:
        steps.complete(turn, run, results)


def _results(turn: Turn, run: StepRun, loop: LoopRun) -> Any:
    """Return the results in the order of the elements, or a reference to the log that has them."""
    if loop.collect == "none":
        return None
    if loop.collect == "errors":
        return list(loop.errors)
    if loop.results is not None:
        return turn.keep([loop.results.get(index) for index in range(loop.total)])
    return {"_ref": f"loop:{turn.state.execution_id}/{run.key}", "_count": loop.total}


def figures(turn: Turn, run: StepRun) -> tuple[dict[str, Any] | None, Any]:
    """Return the figures of a loop and its errors, for expressions that ask for them."""
    loop = run.loop
    if loop is None:
        return None, None
    stats = {"total": loop.total, "failed": len(loop.failed), "succeeded": loop.succeeded}
    return stats, loop.errors or None
