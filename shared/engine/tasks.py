"""Making an attempt ready: the call rendered, the job addressed, waits and children arranged."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from shared.contracts.ids import Address, child_execution_id, job_id
from shared.contracts.jobs import DEFAULT_POOL, Job
from shared.contracts.payloads import TaskScheduled
from shared.contracts.pools import pool_problem
from shared.contracts.references import fetched, is_reference
from shared.engine.deferred import Deferred
from shared.engine.job_parts import Parts, checked_select, fitted, pool_named
from shared.engine.render import NO_NAMES, SINK_NAMES, WORKER_NAMES, ExpressionFailed, Renderer, expression_error
from shared.engine.scope import Scope
from shared.engine.state import Frame, StepRun
from shared.engine.turn import TIMER_POOL, Child, Turn
from shared.engine.world import LostValueError
from shared.language.plan import EMPTY_OBJECT, Number, Repeat, Retry, Task
from shared.templates.durations import parse_duration

ERROR_KIND = "error"
CHILD_KIND = "playbook"
WAIT_KIND = "wait"
ENGINE_KINDS = frozenset({CHILD_KIND, WAIT_KIND})
"""Tasks whose own fields the engine acts upon, so that nothing in them can be left to a worker."""


@dataclass(frozen=True, slots=True)
class Prepared:
    """A job, and what the log says of it."""

    job: Job
    signal: str | None = None
    child: Child | None = None
    warnings: tuple[str, ...] = ()


def schedule(turn: Turn, run: StepRun, frame: Frame, task: Task, delay_s: float = 0.0) -> None:
    """Make the first attempt of a task ready, now or after a pause."""
    page = frame.entries.get(task.name, 0) + 1
    address = Address(run.step, run.visit, frame.iteration, task.name, page, 1)
    prepared = prepare(turn, run, frame, task, address, delay_s)
    job = prepared.job
    said = TaskScheduled(
        job_id=job.job_id,
        kind=job.kind,
        pool=job.pool,
        available_at=job.available_at.isoformat() if job.available_at else None,
        delay_s=job.delay_s,
        max_attempts=job.max_attempts,
        signal=prepared.signal,
        warnings=prepared.warnings,
    )
    turn.emit(said, address)
    dispatch(turn, prepared)


def dispatch(turn: Turn, prepared: Prepared) -> None:
    """Send a prepared attempt on its way: to a worker, or to a child execution, which waits for its time here."""
    job = prepared.job
    if prepared.child is None:
        turn.jobs.append(job)
    elif job.delay_s > 0:
        timer = replace(job, config=None, input=None, sink=None, deferred=(), pool=TIMER_POOL, role="timer")
        turn.jobs.append(timer)
    else:
        turn.children.append(prepared.child)


def start_child(turn: Turn, run: StepRun, frame: Frame) -> None:
    """Start the child execution whose time has come."""
    assert frame.task is not None
    task = turn.program.task(run.step, frame.task)
    address = run.address(frame, task=True)
    dispatch(turn, prepare(turn, run, frame, task, address, 0.0, frame.next_call))


def prepare(
    turn: Turn, run: StepRun, frame: Frame, task: Task, address: Address, delay_s: float, next_call: Any = None,
    allowed: int | None = None,
) -> Prepared:  # fmt: skip
    """Render an attempt; if that fails, the attempt's outcome will say so."""
    identity = job_id(turn.state.execution_id, address)
    allowed = allowed or attempts_of(task)
    scope = turn.scope(run, frame, purpose=address.node, address=address)
    try:
        return _rendered(turn, run, frame, task, address, identity, scope, delay_s, next_call, allowed)
    except ExpressionFailed as problem:
        job = Job(
            job_id=identity,
            execution_id=turn.state.execution_id,
            address=address,
            kind=ERROR_KIND,
            config=problem.error,
            pool=_default_pool(turn),
            available_at=turn.later(delay_s),
            delay_s=delay_s,
            max_attempts=allowed,
            meta=_meta(turn, run, frame),
        )
        return Prepared(job)


def _rendered(
    turn: Turn, run: StepRun, frame: Frame, task: Task, address: Address, identity: str, scope: Scope,
    delay_s: float, next_call: Any, allowed: int,
) -> Prepared:  # fmt: skip
    renderer = turn.renderer(scope, NO_NAMES if task.kind == CHILD_KIND else WORKER_NAMES)
    own = give_arguments(turn, run, task, scope, renderer)
    config = renderer.settled(task.config) if task.kind in ENGINE_KINDS else renderer.value(task.config)
    if next_call:
        config = merged(config, next_call)
    sink, has_deferred = None, renderer.has_deferred
    if task.sink is not None:
        late = Renderer(scope, strict=False, later=SINK_NAMES)
        sink = {"kind": task.sink.kind, "config": late.value(task.sink.config)}
        has_deferred = has_deferred or late.has_deferred
    timeout = None if task.timeout is None else renderer.number(task.timeout, "timeout")
    wait_s, signal = _wait(turn, task, config, timeout)
    pool = turn.program.plan.pool if task.pool is None else renderer.settled(task.pool)
    pause = delay_s + (wait_s or 0.0)
    parts = fitted(turn, Parts(config, scope.args, sink), has_deferred=has_deferred)
    job = Job(
        job_id=identity,
        execution_id=turn.state.execution_id,
        address=address,
        kind=task.kind,
        config=parts.config,
        input=parts.input,
        sink=parts.sink,
        pool=pool_named(pool),
        available_at=None if signal is not None and wait_s is None else turn.later(pause),
        delay_s=pause,
        timeout_s=timeout,
        max_attempts=allowed,
        select=checked_select(task),
        meta={**_meta(turn, run, frame), **({"code_line": task.code_line} if task.code_line else {})},
        role="signal" if signal is not None else "task",
        deferred=parts.deferred,
    )
    child = _child(turn, run, frame, job, config, own) if task.kind == CHILD_KIND else None
    return Prepared(job, signal, child, tuple(renderer.warnings))


def give_arguments(turn: Turn, run: StepRun, task: Task, scope: Scope, renderer: Renderer) -> dict[str, Any]:
    """Put the arguments of step and task over those of the arc, and return them without those of the arc."""
    is_claim = scope.frame is not None and run.is_claim(scope.frame)  # the arguments of the step may read an element
    given = {} if is_claim else _mapping(turn, renderer, turn.program.steps[run.step].args)
    scope.args = {**run.args, **given}
    scope.has_deferred = renderer.has_deferred
    own = _mapping(turn, renderer, task.input)
    scope.args = {**scope.args, **own}
    scope.has_deferred = renderer.has_deferred
    return {**given, **own}


def attempts_of(task: Task) -> int:
    """Return how many attempts the first retry rule allows, or else a repetition, as far as that is known."""
    found: list[Number] = [rule.then.attempts for rule in task.rules if isinstance(rule.then, Retry)]
    found += [rule.then.max_attempts for rule in task.rules if isinstance(rule.then, Repeat)]
    return int(found[0]) if found and isinstance(found[0], int | float) else 1


def merged(config: Any, change: Any) -> Any:
    """Return a call with the next call's changes merged into it, mapping by mapping."""
    if not isinstance(config, dict) or not isinstance(change, dict):
        return change
    out = dict(config)
    for key, value in change.items():
        out[key] = merged(out[key], value) if key in out else value
    return out


def _mapping(turn: Turn, renderer: Renderer, value: Any) -> dict[str, Any]:
    if value == EMPTY_OBJECT:
        return {}
    found = renderer.value(value)
    if isinstance(found, Deferred):
        message = f"arguments that need the keychain are named one by one, not all by {found.text[:200]!r}"
        raise ExpressionFailed(expression_error(message))
    try:
        found = fetched(found, turn.world.values.load) if is_reference(found) else found
    except LostValueError as problem:
        raise ExpressionFailed(expression_error(str(problem))) from None
    if not isinstance(found, dict):
        raise ExpressionFailed(expression_error(f"arguments are a mapping, not {type(found).__name__}"))
    return found


def _wait(turn: Turn, task: Task, config: Any, timeout: float | None) -> tuple[float | None, str | None]:
    """Return how long a wait task waits, and for which signal."""
    if task.kind != WAIT_KIND:
        return None, None
    signal = config.get("signal")
    if signal is not None:
        return timeout, str(signal)
    try:
        if "for" in config:
            return parse_duration(config["for"]), None
        until = datetime.fromisoformat(str(config["until"]))
        if until.tzinfo is None:
            until = until.replace(tzinfo=turn.world.now.tzinfo)
        return max(0.0, (until - turn.world.now).total_seconds()), None
    except ValueError as problem:
        raise ExpressionFailed(expression_error(f"wait: {problem}")) from None


def _meta(turn: Turn, run: StepRun, frame: Frame) -> dict[str, Any]:
    if run.loop is None or frame.iteration is None:
        return {}
    figures = {
        "parent_execution_id": turn.state.execution_id,
        "iteration_index": frame.iteration,
        "total_iterations": run.loop.size,
        "iterator_name": run.loop.iterator,
        "mode": "parallel" if run.loop.parallel else "sequential",
    }
    return {"iterator": figures}


def _default_pool(turn: Turn) -> str:
    pool = turn.program.plan.pool or DEFAULT_POOL
    return pool if pool_problem(pool) is None else DEFAULT_POOL


def _child(turn: Turn, run: StepRun, frame: Frame, job: Job, config: Any, workload: dict[str, Any]) -> Child:
    path = config.get("path")
    if not isinstance(path, str) or not path:
        raise ExpressionFailed(expression_error(f"the path of a child playbook is a text, not {path!r}"))
    parent = {
        "execution_id": turn.state.execution_id,
        "job_id": job.job_id,
        "node": job.address.node,
        "max_attempts": job.max_attempts,
        "return_step": config.get("return_step"),
    }
    outer = turn.scope(run, frame).iteration_view()
    if outer:
        parent["iter"] = outer
    return Child(child_execution_id(job.job_id), job.job_id, path, config.get("version"), workload, parent)
