"""Going through a pipeline: what each directive does to the frame it was given in."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from typing import Any

from shared.contracts.ids import Address
from shared.contracts.payloads import TaskAdvanced, TaskRetryExhausted, TaskRetryScheduled, TaskSequenceCompleted
from shared.engine import cursors, loops, steps
from shared.engine.backoff import Backoff, Delay, NotADelayError, delay_before_next
from shared.engine.evolve import apply_patches
from shared.engine.gather import gathered_result, piece_of
from shared.engine.render import WORKER_NAMES, ExpressionFailed, Renderer, expression_error
from shared.engine.rules import Verdict, failed_by, judge
from shared.engine.state import Frame, StepRun
from shared.engine.tasks import dispatch, give_arguments, prepare, schedule
from shared.engine.turn import Turn
from shared.engine.writes import WriteConflictError, checked_patches
from shared.language.plan import Break, Continue, Directive, Fail, Jump, Repeat, Retry, Task

PIECE_BYTES = 4096


def begin(turn: Turn, run: StepRun, frame: Frame) -> None:
    """Start the first task of a pipeline, or complete it at once if it has none."""
    tasks = turn.program.steps[run.step].tasks
    if tasks:
        schedule(turn, run, frame, tasks[0])
    else:
        complete(turn, run, frame, None)


def proceed(turn: Turn, run: StepRun, frame: Frame) -> None:
    """Judge the outcome that a frame has, and do what the matched rule says."""
    assert frame.task is not None
    task = turn.program.task(run.step, frame.task)
    address = run.address(frame, task=True)
    scope = turn.scope(run, frame, outcome=frame.outcome, purpose=f"{address.node}|rules", address=address)
    if turn.program.judges_by_arguments(run.step, task.name):
        with suppress(ExpressionFailed):
            give_arguments(turn, run, task, scope, turn.renderer(scope, WORKER_NAMES))
    verdict = judge(turn, task, scope)
    try:
        verdict.patches = checked_patches(turn, run, frame, verdict.patches)
        _obey(turn, run, frame, task, verdict, verdict.directive)
    except ExpressionFailed as problem:
        fail(turn, run, frame, failed_by(verdict, problem))
    except WriteConflictError as problem:
        verdict.error, verdict.patches = problem.error, {}
        fail(turn, run, frame, verdict)


def _obey(turn: Turn, run: StepRun, frame: Frame, task: Task, verdict: Verdict, directive: Directive) -> None:
    match directive:
        case Continue():
            _go_on(turn, run, frame, task, verdict)
        case Break():
            result = _advance(turn, run, frame, task, verdict, "break")
            complete(turn, run, frame, result)
        case Fail():
            fail(turn, run, frame, verdict)
        case Jump():
            _jump(turn, run, frame, task, verdict, directive)
        case Retry():
            _retry(turn, run, frame, task, verdict, directive)
        case Repeat():
            _repeat(turn, run, frame, task, verdict, directive)


def _advance(turn: Turn, run: StepRun, frame: Frame, task: Task, verdict: Verdict, word: str, **more: Any) -> Any:
    """Record that a task ended and return its result, gathered if it was called repeatedly."""
    address = run.address(frame, task=True)
    repeat = next((rule.then for rule in task.rules if isinstance(rule.then, Repeat)), None)
    if repeat is not None and (frame.gathered or (frame.outcome or {}).get("status") == "success"):
        _close_sequence(turn, frame, repeat, address)
    patches = dict(verdict.patches)
    if task.set:
        patches = _with_task_set(turn, run, frame, task, patches)
    said = TaskAdvanced(word, patches, decision=verdict.record, **more)
    turn.emit(said, address, parent=frame.outcome_id)
    return frame.results.get(task.name)


def _with_task_set(turn: Turn, run: StepRun, frame: Frame, task: Task, patches: dict[str, Any]) -> dict[str, Any]:
    """Return the patches with what the task's own `set` writes beneath them; it sees the task's result."""
    result = frame.sequence["result"] if frame.sequence else (frame.outcome or {}).get("result")
    seen = replace(frame, results={**frame.results, task.name: result})
    address = run.address(frame, task=True)
    scope = turn.scope(run, seen, outcome=frame.outcome, purpose=f"{address.node}|set", address=address)
    more = checked_patches(turn, run, frame, turn.renderer(scope).patches(task.set))
    return {key: {**more.get(key, {}), **patches.get(key, {})} for key in {*more, *patches}}


def _close_sequence(turn: Turn, frame: Frame, repeat: Repeat, address: Address) -> None:
    result = gathered_result(frame, repeat.gather, turn.world.values)
    said = TaskSequenceCompleted(
        total_attempts=frame.attempt,
        pages=frame.calls,
        strategy=repeat.gather.strategy,
        aggregated_result=turn.keep(result),
        into=repeat.gather.into,
    )
    turn.emit(said, address)


def _go_on(turn: Turn, run: StepRun, frame: Frame, task: Task, verdict: Verdict) -> None:
    result = _advance(turn, run, frame, task, verdict, "continue")
    following = turn.program.following(run.step, task.name)
    if following is None:
        complete(turn, run, frame, result)
    else:
        schedule(turn, run, frame, following)


def _jump(turn: Turn, run: StepRun, frame: Frame, task: Task, verdict: Verdict, directive: Jump) -> None:
    renderer = _renderer(turn, verdict)
    limit = int(renderer.number(directive.max_jumps, "max_jumps", whole=True))
    rule = f"{task.name}:{verdict.rule.label}"
    made = frame.jumps.get(rule, 0)
    if made >= limit:
        message = f"{verdict.rule.label} jumped {made} times to '{directive.to}', its limit"
        verdict.error = {"kind": "limit", "message": message, "retryable": False}
        fail(turn, run, frame, verdict)
        return
    delay = renderer.number(directive.delay, "delay")
    verdict.record["jump"] = {"to": directive.to, "number": made + 1, "of": limit, "delay_s": delay}
    _advance(turn, run, frame, task, verdict, "jump", to=directive.to, rule=rule)
    schedule(turn, run, frame, turn.program.task(run.step, directive.to), delay)


def _retry(turn: Turn, run: StepRun, frame: Frame, task: Task, verdict: Verdict, directive: Retry) -> None:
    renderer = _renderer(turn, verdict)
    allowed = int(renderer.number(directive.attempts, "attempts", whole=True))
    verdict.record["attempts"] = {"used": frame.tries, "allowed": allowed}
    if frame.tries >= allowed:
        _exhausted(turn, run, frame, task, verdict, directive, "attempts", allowed)
        return
    delay = _delay(turn, run, frame, renderer, directive)
    verdict.record["delay"] = delay.as_json()
    if directive.budget is not None:
        budget = renderer.number(directive.budget, "budget")
        elapsed = turn.world.now.timestamp() - frame.since
        verdict.record["budget"] = {"budget_s": budget, "elapsed_s": round(elapsed, 6)}
        if elapsed + delay.seconds > budget:
            _exhausted(turn, run, frame, task, verdict, directive, "budget", allowed)
            return
    _again(turn, run, frame, task, verdict, delay.seconds, allowed)


def _delay(turn: Turn, run: StepRun, frame: Frame, renderer: Renderer, directive: Retry) -> Delay:
    backoff = Backoff(
        kind=directive.backoff,
        delay_s=renderer.number(directive.delay, "delay"),
        multiplier=renderer.number(directive.multiplier, "multiplier"),
        max_delay_s=None if directive.max_delay is None else renderer.number(directive.max_delay, "max_delay"),
        jitter=directive.jitter,
    )
    chance = 0.0
    if directive.jitter != "none":
        chance = turn.world.chance.draw(f"{run.address(frame, task=True).node}|jitter")
    try:
        return delay_before_next(backoff, frame.tries, chance)
    except NotADelayError as problem:
        raise ExpressionFailed(expression_error(str(problem))) from None


def _again(
    turn: Turn, run: StepRun, frame: Frame, task: Task, verdict: Verdict, delay_s: float, allowed: int, **more: Any
) -> None:
    """Schedule the next attempt of the same task."""
    address = run.address(frame, task=True)
    following = Address(address.step, address.visit, address.iteration, task.name, address.page, frame.attempt + 1)
    next_call = more.get("next_call", frame.next_call)
    apply_patches(turn.state, frame, verdict.patches)  # the call that follows reads what its rule wrote
    prepared = prepare(turn, run, frame, task, following, delay_s, next_call, allowed)
    error = (frame.outcome or {}).get("error") or {}
    kind = more.get("retry_type", "on_error")
    prepared.job.meta["retry"] = {
        "type": kind,
        "attempt_number": frame.attempt + 1,
        "max_attempts": allowed,
        "parent_event_id": frame.outcome_id,
        **({"backoff_seconds": delay_s, "scheduled_at": turn.later(delay_s).isoformat()} if kind == "on_error" else {}),
        **({"continuation": "pagination"} if kind == "on_success" else {}),
    }
    said = TaskRetryScheduled(
        job_id=prepared.job.job_id,
        failed_attempt=frame.attempt,
        next_attempt=frame.attempt + 1,
        max_attempts=allowed,
        delay_s=delay_s,
        delay=verdict.record.get("delay", {"seconds": delay_s}),
        available_at=(prepared.job.available_at or turn.later(delay_s)).isoformat(),
        last_error=str(error.get("message"))[:500] if error else None,
        kind=prepared.job.kind,
        signal=prepared.signal,
        patches=verdict.patches,
        decision=verdict.record,
        **more,
    )
    turn.emit(said, following, parent=frame.outcome_id)
    dispatch(turn, prepared)


def _repeat(turn: Turn, run: StepRun, frame: Frame, task: Task, verdict: Verdict, directive: Repeat) -> None:
    renderer = _renderer(turn, verdict)
    allowed = int(renderer.number(directive.max_attempts, "max_attempts", whole=True))
    verdict.record["attempts"] = {"used": frame.calls, "allowed": allowed}
    if frame.calls >= allowed:
        verdict.record["directive"] = "continue"
        verdict.record["stopped"] = f"{allowed} calls, the most that are allowed"
        _go_on(turn, run, frame, task, verdict)
        return
    next_call = renderer.value(directive.next_call)
    delay = renderer.number(directive.delay, "delay")
    piece = turn.keep(piece_of(frame.outcome, directive.gather, turn.world.values), PIECE_BYTES)
    _again(
        turn, run, frame, task, verdict, delay, allowed,
        retry_type="on_success", strategy=directive.gather.strategy, gathered=piece, next_call=next_call,
    )  # fmt: skip


def _exhausted(
    turn: Turn, run: StepRun, frame: Frame, task: Task, verdict: Verdict, directive: Retry, reason: str, allowed: int
) -> None:
    follows = directive.on_exhausted
    word = type(follows).__name__.lower()
    error = (frame.outcome or {}).get("error") or {}
    budget = verdict.record.get("budget", {})
    said = TaskRetryExhausted(
        attempts=frame.tries,
        max_attempts=allowed,
        reason=reason,
        follows=word,
        budget_s=budget.get("budget_s"),
        elapsed_s=budget.get("elapsed_s"),
        last_error=str(error.get("message"))[:500] if error else None,
        decision=verdict.record,
    )
    address = run.address(frame, task=True)
    turn.emit(said, address, parent=frame.outcome_id)
    if isinstance(follows, Fail):
        end(turn, run, frame, error or _not_satisfied(verdict, frame.tries))
        return
    verdict.record = {**verdict.record, "follows": "retry_exhausted", "directive": word}
    _obey(turn, run, frame, task, verdict, follows)


def _not_satisfied(verdict: Verdict, tries: int) -> dict[str, Any]:
    message = f"{verdict.rule.label} still asked for another attempt after {tries}"
    return {"kind": "exhausted", "message": message, "retryable": False}


def _renderer(turn: Turn, verdict: Verdict) -> Renderer:
    assert verdict.renderer is not None
    return verdict.renderer


def complete(turn: Turn, run: StepRun, frame: Frame, result: Any) -> None:
    """End a frame well: its step completes, or its iteration does, or a claim has brought what it could."""
    if run.is_claim(frame):
        cursors.claimed(turn, run, frame, result)
    elif frame.iteration is None:
        steps.complete(turn, run, result, frame)
    else:
        loops.iteration_completed(turn, run, frame, result)


def fail(turn: Turn, run: StepRun, frame: Frame, verdict: Verdict) -> None:
    """Record that a rule ended a task in failure, and end the frame."""
    error = verdict.error or (frame.outcome or {}).get("error")
    if error is None:
        error = {"kind": "failed_by_rule", "message": f"{verdict.rule.label} says fail", "retryable": False}
    address = run.address(frame, task=True)
    said = TaskAdvanced("fail", verdict.patches, error=error, decision=verdict.record)
    turn.emit(said, address, parent=frame.outcome_id)
    end(turn, run, frame, error)


def end(turn: Turn, run: StepRun, frame: Frame, error: dict[str, Any]) -> None:
    """End a frame in failure: its step fails, or its iteration does; a claim that fails ends the whole loop."""
    node = run.address(frame, task=True).node if frame.task else run.address(frame).node
    if run.is_claim(frame):
        loops.stop(turn, run)
        steps.fail(turn, run, error, node)
    elif frame.iteration is None:
        steps.fail(turn, run, error, node, frame)
    else:
        loops.iteration_failed(turn, run, frame, {**error, "node": node})
