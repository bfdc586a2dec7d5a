"""How each event changes the state; no expression is ever evaluated here, for events hold evaluated values."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from shared.contracts import payloads as p
from shared.contracts.events import Event
from shared.engine import evolve_claims
from shared.engine.patches import combined, read, write
from shared.engine.ranges import Ranges
from shared.engine.state import NO_LOOP, Frame, Group, Known, LoopRun, State, StepRun, Token

MAX_INLINE_RESULTS = 1000
MAX_INLINE_RESULT_BYTES = 64 * 1024
MAX_KEPT_ERRORS = 100
MAX_BUFFERED_SIGNALS = 100
SEVERAL = -1


def evolve(state: State, event: Event) -> State:
    """Apply an event to a state that the caller owns, and return it."""
    apply = _HANDLERS.get(type(event.payload))
    if apply is not None:
        apply(state, event, event.payload)
    if event.seq is not None:
        state.seq = event.seq
    return state


def _run(state: State, event: Event) -> StepRun:
    assert event.address is not None
    return state.runs[f"{event.address.step}~{event.address.visit}"]


def _frame(state: State, event: Event) -> Frame:
    assert event.address is not None
    iteration = event.address.iteration
    return _run(state, event).frames[NO_LOOP if iteration is None else iteration]


def _execution_requested(state: State, event: Event, said: p.ExecutionRequested) -> None:
    state.status = "requested"
    state.workload = said.workload if said.workload is not None else {}
    state.parent = said.parent


def _execution_started(state: State, event: Event, said: p.ExecutionStarted) -> None:
    state.status, state.timer = "running", said.timer
    _put_token(state, Token(state.next_token, said.entry))


def _put_token(state: State, token: Token) -> None:
    state.tokens[token.id] = token
    state.next_token = max(state.next_token, token.id + 1)


def _step_started(state: State, event: Event, said: p.StepStarted) -> None:
    assert event.address is not None
    step, visit = event.address.step, event.address.visit
    origins = [state.tokens.pop(token).origin for token in said.tokens if token in state.tokens]
    resumed = state.suspended.pop(said.resumes, None) if said.resumes else None
    origin = origins[-1] if origins else state.last_completed
    run = StepRun(step, visit, dict(said.args or {}), tuple(said.groups), origin)
    if resumed is not None:
        run.origin = resumed.origin
        run.loop = _resumed_loop(resumed)
    if run.loop is None:
        run.frames[NO_LOOP] = Frame()
    elif run.loop.claims is not None:
        evolve_claims.renew_frame(state, run, run.loop.claims)
    run.timer = said.timer
    if said.joins is not None:
        state.fired_joins.add((step, said.joins))
    state.visits[step] = visit
    state.runs[run.key] = run


def _resumed_loop(run: StepRun) -> LoopRun | None:
    """Return a loop's progress with what failed, and what was under way, to be done again."""
    loop = run.loop
    if loop is None:
        return None
    if loop.claims is not None:
        evolve_claims.take_up_again(run, loop.claims)
    else:
        for index in (*loop.failed, *run.frames):
            loop.redo.add(index)
    loop.failed = Ranges()
    loop.errors = []
    loop.ctx_writes = {}
    return loop


def _step_skipped(state: State, event: Event, said: p.StepSkipped) -> None:
    assert event.address is not None
    for token in said.tokens:
        state.tokens.pop(token, None)
    if said.joins is not None:
        state.fired_joins.add((event.address.step, said.joins))
    if said.reason != "absorbed":
        state.visits[event.address.step] = event.address.visit


def _task_scheduled(state: State, event: Event, said: p.TaskScheduled) -> None:
    frame = _frame(state, event)
    address = event.address
    assert address is not None
    assert address.task is not None
    assert event.occurred_at is not None
    _aim(frame, said.job_id, said.kind, said.signal)
    frame.task, frame.page, frame.attempt = address.task, address.page, address.attempt or 1
    frame.tries, frame.calls = 1, 1
    frame.since = event.occurred_at.timestamp()
    frame.gathered, frame.next_call = [], None
    frame.entries[address.task] = address.page


def _aim(frame: Frame, job_id: str, kind: str | None, signal: str | None = None) -> None:
    frame.job_id, frame.kind, frame.signal, frame.started = job_id, kind, signal, False
    frame.cause, frame.outcome, frame.outcome_id = frame.outcome_id, None, None


def _task_started(state: State, event: Event, said: p.TaskStarted) -> None:
    _frame(state, event).started = True


def _task_processed(state: State, event: Event, said: p.TaskProcessed) -> None:
    frame = _frame(state, event)
    frame.outcome = said.outcome
    frame.outcome_id = event.identity
    if frame.signal is not None and "signal" in said.outcome:
        _signal_taken(state, frame.signal)
    frame.job_id = frame.signal = None


def _retry_scheduled(state: State, event: Event, said: p.TaskRetryScheduled) -> None:
    frame = _frame(state, event)
    _apply_patches(state, event, said.patches)
    _aim(frame, said.job_id, said.kind or frame.kind, said.signal)
    frame.attempt = said.next_attempt
    if said.retry_type == "on_success":
        frame.tries = 1
        frame.calls += 1
        frame.gathered.append(said.gathered)
        if said.strategy == "replace":
            frame.gathered = frame.gathered[-1:]
        frame.next_call = said.next_call
    else:
        frame.tries += 1


def _task_advanced(state: State, event: Event, said: p.TaskAdvanced) -> None:
    frame = _frame(state, event)
    assert frame.task is not None
    if said.directive != "fail":
        outcome = frame.outcome or {}
        frame.results.pop(frame.task, None)
        frame.results[frame.task] = frame.sequence["result"] if frame.sequence else outcome.get("result")
        frame.sequence = None
    _apply_patches(state, event, said.patches)
    if said.rule is not None and said.directive == "jump":
        frame.jumps[said.rule] = frame.jumps.get(said.rule, 0) + 1


def _sequence_completed(state: State, event: Event, said: p.TaskSequenceCompleted) -> None:
    frame = _frame(state, event)
    frame.sequence = {"result": said.aggregated_result}
    if said.into:
        frame.names[said.into] = said.aggregated_result


def _apply_patches(state: State, event: Event, patches: dict[str, Any]) -> None:
    if not patches:
        return
    write(state.ctx, patches.get("ctx", {}))
    for key, change in patches.get("reduce", {}).items():
        write(state.ctx, {key: combined(change["by"], read(state.ctx, key), change["value"])})
    if event.address is None or (event.address.task is None and event.address.iteration is None):
        return
    apply_patches(state, _frame(state, event), patches)
    loop = _run(state, event).loop
    if loop is not None and loop.parallel:
        for key, value in patches.get("ctx", {}).items():
            before = loop.ctx_writes.get(key)
            is_alone = before is None or before[0] == event.address.iteration
            loop.ctx_writes[key] = [event.address.iteration if is_alone else SEVERAL, value]


def apply_patches(state: State, frame: Frame, patches: dict[str, Any]) -> None:
    """Write what a rule said in a frame; to write it again changes nothing."""
    write(state.ctx, patches.get("ctx", {}))
    write(frame.iter, patches.get("iter", {}))
    write(frame.names, patches.get("local", {}))


def _loop_started(state: State, event: Event, said: p.LoopStarted) -> None:
    run = _run(state, event)
    run.frames.pop(NO_LOOP, None)
    run.loop = LoopRun(
        iterator=said.iterator_name,
        total=said.collection_size or 0,
        concurrency=said.concurrency,
        collection=said.collection,
        sources=said.sources,
        tolerate=said.tolerate,
        parallel=said.mode == "parallel",
        collect=said.collect,
    )
    if run.loop.total > MAX_INLINE_RESULTS or said.collect != "all":
        run.loop.results = None
    if said.cursor is not None:
        evolve_claims.begin(state, run, said.cursor)


def _loop_claimed(state: State, event: Event, said: p.LoopClaimed) -> None:
    evolve_claims.receive(state, _run(state, event), said)


def _iteration_started(state: State, event: Event, said: p.IterationStarted) -> None:
    run = _run(state, event)
    loop = run.loop
    assert loop is not None
    if loop.claims is not None:
        evolve_claims.take_next(loop.claims)
    elif len(loop.redo):
        loop.redo.take_first()
    else:
        loop.next = said.index + 1
    run.frames[said.index] = Frame(iteration=said.index, element=said.element, source_index=said.source_index)


def _iteration_completed(state: State, event: Event, said: p.IterationCompleted) -> None:
    run = _run(state, event)
    loop = run.loop
    assert loop is not None
    run.frames.pop(said.index, None)
    loop.succeeded += 1
    if loop.results is None:
        return
    loop.result_bytes += len(json.dumps(said.result)) if isinstance(said.result, dict | list | str) else 8
    loop.results[said.index] = said.result
    if loop.result_bytes > MAX_INLINE_RESULT_BYTES or len(loop.results) > MAX_INLINE_RESULTS:
        loop.results = None


def _iteration_failed(state: State, event: Event, said: p.IterationFailed) -> None:
    run = _run(state, event)
    loop = run.loop
    assert loop is not None
    frame = run.frames.pop(said.index, None)
    loop.failed.add(said.index)
    if loop.claims is not None and frame is not None:
        evolve_claims.put_aside(loop.claims, frame, said)
    if len(loop.errors) < MAX_KEPT_ERRORS:
        loop.errors.append({"index": said.index, **said.error})


def _step_completed(state: State, event: Event, said: p.StepCompleted) -> None:
    run = _run(state, event)
    _apply_patches(state, event, said.patches)
    del state.runs[run.key]
    state.known[run.step] = Known(said.result, "success", said.tasks, said.stats, said.errors)
    state.last_completed = run.step


def _step_failed(state: State, event: Event, said: p.StepFailed) -> None:
    run = _run(state, event)
    del state.runs[run.key]
    stats = run.loop and {"total": run.loop.total, "failed": len(run.loop.failed), "succeeded": run.loop.succeeded}
    state.known[run.step] = Known(None, "error", said.tasks, stats or None, error=said.error)
    if not said.handled:
        run.failed = True
        state.suspended[run.key] = run
        state.failure = state.failure or {"error": said.error, "step": run.step, "node": said.node}


def _next_evaluated(state: State, event: Event, said: p.NextEvaluated) -> None:
    assert event.address is not None
    _apply_patches(state, event, said.patches)
    fired = [arc for arc in said.arcs if arc.get("token") is not None]
    if said.group is not None:
        state.groups[said.group] = Group(event.address.step, tuple(arc["step"] for arc in fired))
        state.next_group = max(state.next_group, said.group + 1)
    for arc in fired:
        token = Token(arc["token"], arc["step"], dict(arc.get("args") or {}), tuple(said.groups), event.address.step)
        _put_token(state, token)
    _forget_groups(state)


def _forget_groups(state: State) -> None:
    """Drop fan-outs of which nothing lives any more."""
    if not state.groups:
        return
    alive = {group for token in state.tokens.values() for group in token.groups}
    alive |= {group for run in state.runs.values() for group in run.groups}
    alive |= {group for run in state.suspended.values() for group in run.groups}
    for group in [group for group in state.groups if group not in alive]:
        del state.groups[group]
    state.fired_joins = {(step, group) for step, group in state.fired_joins if group in state.groups}


def _suspend_everything(state: State) -> None:
    for key, run in state.runs.items():
        state.suspended[key] = run
    state.runs = {}


def _execution_completed(state: State, event: Event, said: p.ExecutionCompleted) -> None:
    state.status, state.result = "completed", said.result


def _execution_failed(state: State, event: Event, said: p.ExecutionFailed) -> None:
    state.status = "failed"
    state.failure = {"error": said.error, "step": said.step, "node": said.node}
    _suspend_everything(state)


def _execution_cancelled(state: State, event: Event, said: p.ExecutionCancelled) -> None:
    state.status = "cancelled"
    _suspend_everything(state)


def _execution_paused(state: State, event: Event, said: p.ExecutionPaused) -> None:
    state.status = "paused"


def _execution_resumed(state: State, event: Event, said: p.ExecutionResumed) -> None:
    state.status = "running"


def _execution_redriven(state: State, event: Event, said: p.ExecutionRedriven) -> None:
    state.status, state.failure, state.result, state.timer = "running", None, None, said.timer
    if said.workload is not None:
        state.workload = said.workload
    if said.mode == "step":
        cut_off = {run.step: run for run in state.suspended.values()}
        state.suspended, state.tokens, state.groups, state.fired_joins = {}, {}, {}, set()
        for step in said.steps:
            before = cut_off.get(step)
            args, origin = (before.args, before.origin) if before else ({}, None)
            _put_token(state, Token(state.next_token, step, args, origin=origin))


def _signal_received(state: State, event: Event, said: p.SignalReceived) -> None:
    waiting = state.signals.setdefault(said.name, [])
    if len(waiting) < MAX_BUFFERED_SIGNALS:
        waiting.append(said.payload)


def _signal_taken(state: State, name: str) -> None:
    waiting = state.signals.get(name)
    if waiting:
        waiting.pop(0)
    if not waiting:
        state.signals.pop(name, None)


_HANDLERS: dict[type, Callable[[State, Event, Any], None]] = {
    p.ExecutionRequested: _execution_requested,
    p.ExecutionStarted: _execution_started,
    p.StepStarted: _step_started,
    p.StepSkipped: _step_skipped,
    p.TaskScheduled: _task_scheduled,
    p.TaskStarted: _task_started,
    p.TaskProcessed: _task_processed,
    p.TaskRetryScheduled: _retry_scheduled,
    p.TaskAdvanced: _task_advanced,
    p.TaskSequenceCompleted: _sequence_completed,
    p.LoopStarted: _loop_started,
    p.LoopClaimed: _loop_claimed,
    p.IterationStarted: _iteration_started,
    p.IterationCompleted: _iteration_completed,
    p.IterationFailed: _iteration_failed,
    p.StepCompleted: _step_completed,
    p.StepFailed: _step_failed,
    p.NextEvaluated: _next_evaluated,
    p.ExecutionCompleted: _execution_completed,
    p.ExecutionFailed: _execution_failed,
    p.ExecutionCancelled: _execution_cancelled,
    p.ExecutionPaused: _execution_paused,
    p.ExecutionResumed: _execution_resumed,
    p.ExecutionRedriven: _execution_redriven,
    p.SignalReceived: _signal_received,
}
