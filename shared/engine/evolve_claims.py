"""How events change what a cursor has claimed for its loop."""

from __future__ import annotations

import json
from typing import Any

from shared.contracts import payloads as p
from shared.contracts.ids import derived
from shared.engine.state import NO_LOOP, Batch, Claims, Frame, State, StepRun
from shared.language.claims import CLAIM


def begin(state: State, run: StepRun, cursor: dict[str, Any]) -> None:
    """Make a loop that has just started one that claims its elements."""
    assert run.loop is not None
    run.loop.claims = Claims(cursor["max_rows"], cursor["process"], cursor["tolerate_percent"])
    renew_frame(state, run, run.loop.claims)


def renew_frame(state: State, run: StepRun, claims: Claims) -> None:
    """Give the next claim a frame of its own; its names say how much to take, and as whom over all attempts."""
    before = run.frames.get(NO_LOOP)
    made = before.entries.get(CLAIM, 0) if before is not None else 0
    names = {"max_rows": claims.max_rows, "claim_id": derived("claim", state.execution_id, run.key, made + 1)}
    run.frames[NO_LOOP] = Frame(iter=names, entries={CLAIM: made} if made else {})


def receive(state: State, run: StepRun, said: p.LoopClaimed) -> None:
    """Let what a claim brought wait for its iterations."""
    loop = run.loop
    assert loop is not None
    assert loop.claims is not None
    loop.total = said.first + said.iterations
    loop.claims.is_exhausted = not said.rows
    if said.iterations:
        loop.claims.waiting.append(Batch(said.elements, said.iterations, said.first))
    renew_frame(state, run, loop.claims)


def take_next(claims: Claims) -> None:
    """Take the element away whose iteration began."""
    batch = claims.waiting[0]
    batch.taken += 1
    if batch.taken == batch.size:
        claims.waiting.pop(0)


def put_aside(claims: Claims, frame: Frame, said: p.IterationFailed) -> None:
    """Keep the element of an iteration that failed, for no claim will bring it again."""
    if said.set_aside is not None:
        claims.set_aside.append(Batch(said.set_aside, len(claims.failed) + 1))
        claims.failed, claims.failed_bytes = [], 0
        return
    claims.failed.append([said.index, frame.element])
    claims.failed_bytes += len(json.dumps(frame.element))


def take_up_again(run: StepRun, claims: Claims) -> None:
    """Let the elements wait again whose iterations failed or were cut off, before those that never began."""
    cut_off = [[index, frame.element] for index, frame in run.frames.items() if index != NO_LOOP]
    again = [*claims.failed, *cut_off]
    claims.waiting = [*claims.set_aside, *([Batch(again, len(again))] if again else []), *claims.waiting]
    claims.set_aside, claims.failed, claims.failed_bytes = [], [], 0
    claims.is_exhausted = False
