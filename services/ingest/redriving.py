"""Whether an execution can be redriven as was asked, judged by the decider's own rule before it is accepted."""

from __future__ import annotations

from services.ingest.parts import Parts
from services.ingest.problems import Problem
from shared.contracts.payloads import ControlRequested
from shared.engine.chance import SeededChance
from shared.engine.control import check, command_of
from shared.engine.evolve import evolve
from shared.engine.program import Program
from shared.engine.snapshot import restore
from shared.engine.state import State
from shared.engine.stimuli import NotPossibleError
from shared.engine.turn import Turn
from shared.engine.world import World
from shared.store.records import ExecutionRow, History


async def check_redrive(parts: Parts, row: ExecutionRow, said: ControlRequested) -> None:
    """Raise the problem, with the reason, that the decider would have with a redrive; nothing is changed."""
    async with parts.store.deciding([row.execution_id]) as batch:
        if row.execution_id not in batch.executions:
            return
        history = (await batch.histories([row.execution_id]))[row.execution_id]
        now = batch.now
    program = Program(await parts.plans.of(said.plan or row.plan_digest))
    turn = Turn(program, _state(row.execution_id, history), World(now, SeededChance(row.execution_id)))
    try:
        check(turn, command_of(said))
    except NotPossibleError as problem:
        raise Problem(409, f"it cannot be redriven: {problem}", execution_status=turn.state.status) from None


def _state(execution_id: str, history: History) -> State:
    state = State(execution_id) if history.snapshot is None else restore(history.snapshot)
    for event in history.events:
        evolve(state, event)
    return state
