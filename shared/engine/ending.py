"""How an execution ends: completed, failed or cancelled, and who is told."""

from __future__ import annotations

from typing import Any

from shared.contracts.events import Event
from shared.contracts.ids import Address, child_execution_id, derived, fact_id, parse_node
from shared.contracts.payloads import (
    ControlRequested,
    ExecutionCancelled,
    ExecutionCompleted,
    ExecutionFailed,
    Payload,
    TaskProcessed,
    TaskStarted,
)
from shared.engine import steps
from shared.engine.render import ExpressionFailed
from shared.engine.state import Frame, Token
from shared.engine.turn import Turn


def fail(turn: Turn, said: ExecutionFailed) -> None:
    """Fail the execution, cancel what is under way, and tell the parent."""
    if turn.state.is_over:
        return
    _cancel_everything(turn)
    turn.emit(said)
    inner = {"kind": said.error.get("kind"), "step": said.step, "node": said.node}
    error = {"kind": "child", "message": said.error["message"], "retryable": False, "details": inner}
    _tell_parent(turn, "error", None, error)


def cancel(turn: Turn, said: ExecutionCancelled) -> None:
    """Cancel the execution and everything under way in it."""
    _cancel_everything(turn)
    turn.emit(said)
    message = "the child execution was cancelled"
    _tell_parent(turn, "error", None, {"kind": "cancelled", "message": message, "retryable": False})


def finish_if_idle(turn: Turn) -> bool:
    """End the execution when nothing is left to do in it; where the language asks for it, its `end` step runs first."""
    state, plan = turn.state, turn.program.plan
    if state.status != "running" or state.runs or state.tokens or turn.ready:
        return False
    if state.failure is not None:
        fail(turn, ExecutionFailed(state.failure["error"], state.failure["step"], state.failure["node"]))
        return False
    if plan.end_step is not None and not state.visits.get(plan.end_step):
        steps.start(turn, [Token(0, plan.end_step, origin=state.last_completed)], ())
        return True
    try:
        result = _result(turn)
    except ExpressionFailed as problem:
        fail(turn, ExecutionFailed(problem.error))
        return False
    _cancel_everything(turn)
    turn.emit(ExecutionCompleted(result))
    _tell_parent(turn, "success", _returned(turn, result), None)
    return False


def time_limit(turn: Turn) -> str | None:
    """Set the timer of the whole execution, where it has a limit, and return its identity."""
    seconds = turn.program.plan.limits.timeout
    if seconds is None:
        return None
    identity = derived("timer", turn.state.execution_id, turn.state.seq)
    turn.jobs.append(turn.timer(identity, Address(turn.program.plan.entry), seconds))
    return identity


def time_out(turn: Turn) -> None:
    """Fail an execution whose time is up."""
    seconds = turn.program.plan.limits.timeout
    message = "the execution did not end within its timeout"
    error = {"kind": "timeout", "message": message, "retryable": True, "details": {"timeout": str(seconds)}}
    fail(turn, ExecutionFailed(error))


def _result(turn: Turn) -> Any:
    if turn.program.plan.result is not None:
        return turn.keep(turn.renderer(turn.scope()).value(turn.program.plan.result))
    last = turn.state.last_completed
    known = turn.state.known.get(last) if last is not None else None
    return known.value if known is not None else None


def _returned(turn: Turn, result: Any) -> Any:
    step = (turn.state.parent or {}).get("return_step")
    known = turn.state.known.get(step) if step else None
    return known.value if known is not None else result


def tell_parent_of_start(turn: Turn) -> None:
    """Leave a fact for the job that asked for this execution: its attempt has begun."""
    parent = turn.state.parent
    if parent is None:
        return
    attempt = _node(parent).attempt or 1
    retry = {"attempt": attempt, "max_attempts": parent.get("max_attempts", 1), "is_retry": attempt > 1}
    _tell(turn, parent, TaskStarted(parent["job_id"], turn.state.execution_id, retry=retry), "started")


def _tell_parent(turn: Turn, status: str, result: Any, error: dict[str, Any] | None) -> None:
    """Leave the outcome of this execution as a fact for the job that asked for it."""
    parent = turn.state.parent
    if parent is None:
        return
    child = {"execution_id": turn.state.execution_id, "status": turn.state.status}
    outcome = {"status": status, "result": result, "error": error, "meta": {}, "child": child}
    _tell(turn, parent, TaskProcessed(parent["job_id"], outcome), f"processed:{turn.state.seq}")


def _tell(turn: Turn, parent: dict[str, Any], said: Payload, kind: str) -> None:
    turn.facts.append(
        Event(
            execution_id=parent["execution_id"],
            payload=said,
            address=_node(parent),
            event_id=fact_id(parent["job_id"], kind),
            occurred_at=turn.world.now,
            source=f"child:{turn.state.execution_id}",
        )
    )


def _node(parent: dict[str, Any]) -> Address:
    found = parse_node(parent["node"])
    assert found is not None
    return found


def _cancel_everything(turn: Turn) -> None:
    if turn.state.timer is not None:
        turn.cancelled.append(turn.state.timer)
    for run in turn.state.runs.values():
        if run.timer is not None:
            turn.cancelled.append(run.timer)
    for _, frame in turn.state.frames():
        cancel_frame(turn, frame)
    turn.ready.clear()


def cancel_frame(turn: Turn, frame: Frame) -> None:
    """Cancel the attempt that a frame waits for."""
    if frame.job_id is None:
        return
    turn.cancelled.append(frame.job_id)
    if frame.kind == "playbook":
        child = child_execution_id(frame.job_id)
        origin = f"parent:{turn.state.execution_id}"
        said = ControlRequested("cancel", by="parent", reason="the parent no longer waits for it")
        turn.facts.append(
            Event(child, said, event_id=fact_id(frame.job_id, "cancel"), occurred_at=turn.world.now, source=origin)
        )
