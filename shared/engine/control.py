"""What people ask of an execution: to cancel, pause, resume or redrive it."""

from __future__ import annotations

from typing import Any

from shared.contracts import payloads as p
from shared.engine import ending, steps
from shared.engine.stimuli import Cancel, Command, NotPossibleError, Pause, Redrive, Resume
from shared.engine.turn import Turn
from shared.language.plan import Cursor


def command_of(said: p.ControlRequested) -> Command:
    """Return the command that a request states."""
    match said.command:
        case "cancel":
            return Cancel(said.by, said.reason)
        case "pause":
            return Pause(said.by, said.reason)
        case "resume":
            return Resume(said.by, said.reason)
        case "redrive":
            mode: Any = "step" if said.step is not None else "failed"
            return Redrive(mode, said.step, said.by, said.reason, said.workload, said.plan)
        case word:
            raise NotPossibleError(f"unknown command '{word}'")


def check(turn: Turn, command: Command) -> None:
    """Raise NotPossibleError, with the reason, if the execution's state does not allow the command."""
    state = turn.state
    match command:
        case Cancel() if state.is_over:
            raise NotPossibleError(f"the execution is {state.status} already")
        case Pause() if state.status != "running":
            raise NotPossibleError(f"an execution that is {state.status} cannot be paused")
        case Resume() if state.status != "paused":
            raise NotPossibleError(f"an execution that is {state.status} cannot be resumed")
        case Redrive():
            _check_redrive(turn, command)


def _check_redrive(turn: Turn, command: Redrive) -> None:
    state = turn.state
    if not state.is_over:
        raise NotPossibleError(f"an execution that is {state.status} cannot be redriven; cancel it first")
    if command.mode == "step":
        if command.step not in turn.program.steps:
            raise NotPossibleError(f"no step '{command.step}'")
    elif not state.suspended and not state.tokens:
        raise NotPossibleError("nothing failed or was cut off; name the step to run again")
    else:
        _check_plan(turn)


def _check_plan(turn: Turn) -> None:
    """Raise NotPossibleError if the Plan, which may be another than before, has no place for what is to go on."""
    state, known = turn.state, turn.program.steps
    named = {run.step for run in state.suspended.values()} | {token.step for token in state.tokens.values()}
    named |= {name for group in state.groups.values() for name in (group.fan, *group.heads)}
    if gone := sorted(named - set(known)):
        raise NotPossibleError(f"the playbook has no step '{gone[0]}' any more; name the step to run again")
    for run in state.suspended.values():
        if run.loop is not None and known[run.step].loop is None:
            raise NotPossibleError(f"step '{run.step}' has no loop any more; name the step to run again")
        if run.loop is not None and (run.loop.claims is None) != (_cursor(turn, run.step) is None):
            raise NotPossibleError(f"the loop of step '{run.step}' is of another kind now; name the step to run again")


def _cursor(turn: Turn, step: str) -> Cursor | None:
    loop = turn.program.steps[step].loop
    return None if loop is None else loop.cursor


def obey(turn: Turn, command: Command) -> None:
    """Do what a command says; it has been checked."""
    match command:
        case Cancel(by=by, reason=reason):
            ending.cancel(turn, p.ExecutionCancelled(by, reason))
        case Pause(by=by, reason=reason):
            turn.emit(p.ExecutionPaused(by, reason))
        case Resume(by=by, reason=reason):
            turn.emit(p.ExecutionResumed(by, reason))
        case Redrive():
            _redrive(turn, command)


def _redrive(turn: Turn, command: Redrive) -> None:
    state = turn.state
    names = (command.step,) if command.mode == "step" else tuple(sorted({r.step for r in state.suspended.values()}))
    said = p.ExecutionRedriven(
        mode=command.mode,
        steps=tuple(name for name in names if name is not None),
        by=command.by,
        reason=command.reason,
        workload=command.workload,
        plan=command.plan,
        timer=ending.time_limit(turn),
    )
    turn.emit(said)
    if command.mode == "failed":
        for run in list(state.suspended.values()):
            if state.status == "running":
                steps.resume(turn, run)
