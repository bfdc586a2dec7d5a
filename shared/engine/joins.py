"""Where tokens meet: which of them may run their step now, which wait for others, which come too late."""

from __future__ import annotations

from collections.abc import Iterator

from shared.engine import steps
from shared.engine.state import StepRun, Token
from shared.engine.turn import Turn
from shared.language.plan import Join


def place_next(turn: Turn) -> bool:
    """Start, skip or absorb the first token that need not wait; say whether there was one."""
    waiting: set[tuple[str, tuple[int, ...]]] = set()
    for token in list(turn.state.tokens.values()):
        if (token.step, token.groups) in waiting:
            continue
        waiting.add((token.step, token.groups))
        if _place(turn, token, _meeting(turn, token, turn.program.steps[token.step].join), forced=False):
            return True
    if not turn.state.runs and not turn.ready and turn.state.tokens:
        token = next(iter(turn.state.tokens.values()))
        return _place(turn, token, _meeting(turn, token, turn.program.steps[token.step].join), forced=True)
    return False


def _place(turn: Turn, token: Token, group: int | None, *, forced: bool) -> bool:
    join = turn.program.steps[token.step].join
    if group is None:
        steps.start(turn, [token], token.groups)
        return True
    if (token.step, group) in turn.state.fired_joins:
        visit = turn.state.visits.get(token.step, 1)
        steps.skip(turn, StepRun(token.step, visit, groups=token.groups), (token.id,), "absorbed")
        return True
    here = [item for item in turn.state.tokens.values() if item.step == token.step and group in item.groups]
    awaited = not forced and _someone_may_come(turn, token.step, group, here)
    if join.mode in ("any", "count"):
        return _place_counted(turn, join, group, here, awaited)
    if join.mode == "all" and join.of and {item.origin for item in here} >= set(join.of):
        awaited = False
    if awaited:
        return False
    steps.start(turn, here, _groups_after(turn, group, here), group if join.mode == "all" else None)
    return True


def _place_counted(turn: Turn, join: Join, group: int, here: list[Token], awaited: bool) -> bool:
    wanted = 1 if join.mode == "any" else join.count
    arrived = [item for item in here if not join.of or item.origin in join.of]
    if len(arrived) >= wanted:
        steps.start(turn, here, _groups_after(turn, group, here), group)
        return True
    if awaited:
        return False
    visit = turn.state.visits.get(here[0].step, 0) + 1
    run = StepRun(here[0].step, visit, groups=_groups_after(turn, group, here))
    steps.skip(turn, run, tuple(item.id for item in here), "join", joins=group)
    return True


def _meeting(turn: Turn, token: Token, join: Join) -> int | None:
    """Return the fan-out whose tokens meet at this step, the outermost if there are several."""
    if join.mode == "none" or not token.groups:
        return None
    alive = [group for group in token.groups if group in turn.state.groups]
    for group in alive:
        found = turn.state.groups[group]
        if turn.program.merges_at(found.fan, found.heads, token.step):
            return group
    return alive[0] if alive and join.mode != "merge" else None


def _someone_may_come(turn: Turn, step: str, group: int, here: list[Token]) -> bool:
    fan, heads = turn.state.groups[group].fan, turn.state.groups[group].heads
    ids = {token.id for token in here}
    for token in turn.state.tokens.values():
        if token.id not in ids and group in token.groups and turn.program.can_reach(token.step, step, fan, heads):
            return True
    return any(turn.program.can_come_back(run.step, step, fan, heads) for run in _runs_of(turn, group))


def _runs_of(turn: Turn, group: int) -> Iterator[StepRun]:
    return (run for run in turn.state.runs.values() if group in run.groups)


def _groups_after(turn: Turn, group: int, here: list[Token]) -> tuple[int, ...]:
    """Return the fan-outs that the merged token still belongs to."""
    outer = here[0].groups[: here[0].groups.index(group)]
    ids = {token.id for token in here}
    others = any(group in token.groups for token in turn.state.tokens.values() if token.id not in ids)
    alive = others or any(True for _ in _runs_of(turn, group))
    return (*outer, group) if alive else outer
