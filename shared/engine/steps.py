"""A run of a step: admitted, started, completed or failed, and sent on from there."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from shared.contracts.ids import derived
from shared.contracts.jobs import Job
from shared.contracts.payloads import ExecutionFailed, StepCompleted, StepFailed, StepSkipped, StepStarted
from shared.engine import ending, loops
from shared.engine.render import ExpressionFailed
from shared.engine.routing import COMPLETED, FAILED, SKIPPED, Routes, guard_error
from shared.engine.rules import add_reads, looked_at
from shared.engine.state import NO_LOOP, Frame, Known, StepRun, Token
from shared.engine.turn import Turn


def start(turn: Turn, tokens: list[Token], groups: tuple[int, ...], joins: int | None = None) -> None:
    """Run a step with the tokens that arrived, if it admits them."""
    step = turn.program.steps[tokens[0].step]
    args: dict[str, Any] = {}
    for token in tokens:
        args.update(token.args)
    visit = turn.state.visits.get(step.name, 0) + 1
    run = StepRun(step.name, visit, args, groups, tokens[-1].origin)
    said = StepStarted(tuple(token.id for token in tokens if token.id), args, groups, joins=joins)
    record: list[dict[str, Any]] = []
    try:
        admitted = _is_admitted(turn, run, record)
    except ExpressionFailed as problem:
        turn.emit(said, run.address())
        fail(turn, turn.state.runs[run.key], problem.error, run.key)
        return
    if admitted:
        _begin(turn, run, said)
    else:
        skip(turn, run, said.tokens, "when", joins=joins, decision={"rules": record, "directive": "skip"})


def resume(turn: Turn, suspended: StepRun) -> None:
    """Run a step again that failed or was cut off, with the loop's progress it had."""
    visit = turn.state.visits.get(suspended.step, 0) + 1
    run = StepRun(suspended.step, visit, suspended.args, suspended.groups, suspended.origin)
    _begin(turn, run, StepStarted((), suspended.args, suspended.groups, resumes=suspended.key))


def _begin(turn: Turn, run: StepRun, said: StepStarted) -> None:
    step = turn.program.steps[run.step]
    problem: dict[str, Any] | None = None
    if step.timeout is not None:
        try:
            timer = _timer(turn, run)
            said = replace(said, timer=timer.job_id)
            turn.jobs.append(timer)
        except ExpressionFailed as failed:
            problem = failed.error
    turn.emit(said, run.address())
    live = turn.state.runs[run.key]
    if problem is not None:
        fail(turn, live, problem, run.key)
    elif step.loop is None:
        turn.ready.append((live, live.frames[NO_LOOP]))
    elif live.loop is None:
        loops.start(turn, live)
    else:
        loops.fill(turn, live)


def _timer(turn: Turn, run: StepRun) -> Job:
    step = turn.program.steps[run.step]
    seconds = turn.renderer(turn.scope(run)).number(step.timeout, "timeout")
    identity = derived("timer", turn.state.execution_id, run.key)
    return turn.timer(identity, run.address(), seconds)


def _is_admitted(turn: Turn, run: StepRun, record: list[dict[str, Any]]) -> bool:
    step = turn.program.steps[run.step]
    if not step.admit:
        return True
    scope = turn.scope(run, purpose=f"{run.key}|when")
    for rule in step.admit:
        entry = looked_at(rule.when, rule.place.line)
        record.append(entry)
        entry["value"] = turn.renderer(scope).holds(rule.when)
        add_reads(entry, rule.when, scope)
        if entry["value"]:
            return rule.allow
    return True


def skip(
    turn: Turn,
    run: StepRun,
    tokens: tuple[int, ...],
    reason: str,
    *,
    joins: int | None = None,
    decision: dict[str, Any] | None = None,
) -> None:
    """Leave a step out and go on behind it, unless its tokens were absorbed by a join that ran."""
    turn.emit(StepSkipped(tokens, reason, run.groups, joins, decision or {}), run.address())
    if reason == "absorbed":
        return
    try:
        routes = Routes(turn, run, SKIPPED, Known(status="skipped"))
    except ExpressionFailed as problem:
        ending.fail(turn, ExecutionFailed(guard_error(problem), run.step, run.key))
        return
    routes.send()


def complete(turn: Turn, run: StepRun, result: Any, frame: Frame | None = None) -> None:
    """End a run well: write what its `set` says, look at its arcs, go on behind them."""
    step = turn.program.steps[run.step]
    tasks = dict(frame.results) if frame is not None and len(step.tasks) > 1 else {}
    stats, errors = loops.figures(turn, run)
    known = Known(result, "success", tasks, stats, errors)
    patches: dict[str, Any] = {}
    try:
        if step.set:
            scope = turn.scope(run, frame, purpose=f"{run.key}|set", ended={run.step: known})
            patches = turn.renderer(scope).patches(step.set)
    except ExpressionFailed as problem:
        fail(turn, run, problem.error, run.key, frame)
        return
    try:
        routes = Routes(turn, run, COMPLETED, known, frame, patches)
    except ExpressionFailed as problem:
        fail(turn, run, guard_error(problem), run.key, frame)
        return
    turn.emit(StepCompleted(result, patches, tasks, stats, errors), run.address())
    _cancel_timer(turn, run)
    routes.send()


def fail(turn: Turn, run: StepRun, error: dict[str, Any], node: str, frame: Frame | None = None) -> None:
    """End a run in failure: an arc that asks for failures takes it up, or the execution fails."""
    tasks = dict(frame.results) if frame is not None else {}
    routes: Routes | None = None
    try:
        routes = Routes(turn, run, FAILED, Known(None, "error", tasks, error=error), frame)
    except ExpressionFailed as problem:
        error = {**error, "details": {**(error.get("details") or {}), "next": guard_error(problem)["message"]}}
    handled = routes is not None and bool(routes.fired)
    _cancel_timer(turn, run)
    _cancel_jobs(turn, run)
    turn.emit(StepFailed(error, handled, node, tasks), run.address())
    if routes is not None and handled:
        routes.send()
    elif turn.program.plan.on_failure == "fail_fast":
        ending.fail(turn, ExecutionFailed(error, run.step, node))


def time_out(turn: Turn, run: StepRun) -> None:
    """End a run whose time is up."""
    step = turn.program.steps[run.step]
    message = f"step '{run.step}' did not end within its timeout"
    error = {"kind": "timeout", "message": message, "retryable": True, "details": {"timeout": str(step.timeout)}}
    fail(turn, run, error, run.key)


def _cancel_timer(turn: Turn, run: StepRun) -> None:
    if run.timer is not None:
        turn.cancelled.append(run.timer)


def _cancel_jobs(turn: Turn, run: StepRun) -> None:
    for frame in run.frames.values():
        ending.cancel_frame(turn, frame)
