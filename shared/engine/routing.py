"""Ways out of a step: guards evaluated, tokens sent on."""

from __future__ import annotations

from functools import cached_property
from typing import Any

from shared.contracts.ids import Address
from shared.contracts.payloads import NextEvaluated
from shared.engine.patches import written
from shared.engine.render import ExpressionFailed
from shared.engine.rules import add_reads, looked_at
from shared.engine.scope import Scope
from shared.engine.state import Frame, Known, StepRun
from shared.engine.turn import Turn
from shared.language.plan import ALWAYS, EMPTY_OBJECT, Arc, Step

COMPLETED, FAILED, SKIPPED = "step.completed", "step.failed", "step.skipped"


class Routes:
    """The arcs of a step with the value of each guard and what they carry, before anything is written down."""

    def __init__(
        self,
        turn: Turn,
        run: StepRun,
        about: str,
        known: Known,
        frame: Frame | None = None,
        patches: dict[str, Any] | None = None,
    ) -> None:
        self._turn = turn
        self._run = run
        self._about = about
        self._step: Step = turn.program.steps[run.step]
        self._known = known
        self._frame = frame
        self._written = patches["ctx"] if patches and "ctx" in patches else None
        self.fired: list[Arc] = []
        self._looked_at: list[dict[str, Any]] = []
        self._fired_entries: list[dict[str, Any]] = []
        self._patches: dict[str, Any] = {}
        self._look()
        self._load()

    @cached_property
    def _scope(self) -> Scope:
        run, known = self._run, self._known
        return self._turn.scope(
            run,
            self._frame,
            event={"name": self._about, "step": run.step, "status": known.status},
            outcome={"status": known.status, "result": known.value, "error": known.error, "meta": {}},
            purpose=f"{run.key}|next",
            ended={run.step: known} if self._about != SKIPPED else {},
            ctx=None if self._written is None else written(self._turn.state.ctx, self._written),
        )

    def _look(self) -> None:
        """Evaluate the guards in order, as far as the mode asks for."""
        arcs = self._step.next.arcs
        for arc in arcs:
            if not arc.is_else and self._note(arc, self._holds(arc)) and self._step.next.mode == "exclusive":
                return
        otherwise = not self.fired and self._about != FAILED
        for arc in arcs:
            if arc.is_else:
                self._note(arc, otherwise)

    def _holds(self, arc: Arc) -> bool:
        if self._about == FAILED and not arc.takes_failures:
            return False
        if arc.when == ALWAYS:
            return True
        return self._turn.renderer(self._scope).holds(arc.when)

    def _note(self, arc: Arc, value: bool) -> bool:
        entry: dict[str, Any] = {"step": arc.step, "value": value}
        if arc.is_else:
            entry["else"] = True
            if arc.place.line:
                entry["line"] = arc.place.line
        else:
            entry.update(looked_at(arc.when, arc.place.line))
            if arc.when != ALWAYS:
                add_reads(entry, arc.when, self._scope)
        self._looked_at.append(entry)
        if value:
            self.fired.append(arc)
            self._fired_entries.append(entry)
        return value

    def _load(self) -> None:
        """Evaluate what the arcs that fire carry and write."""
        for arc, entry in zip(self.fired, self._fired_entries, strict=True):
            if arc.args == EMPTY_OBJECT and not arc.set:
                continue
            renderer = self._turn.renderer(self._scope)
            if arc.args != EMPTY_OBJECT:
                args = renderer.value(arc.args)
                args = args if isinstance(args, dict) else {"value": args}
                entry["args"] = {key: self._turn.keep(value) for key, value in args.items()}
            if arc.set:
                self._patches.setdefault("ctx", {}).update(renderer.patches(arc.set).get("ctx", {}))

    def send(self) -> None:
        """Write down what was evaluated, and put a token on every arc that fired."""
        turn, run = self._turn, self._run
        if not self._step.next.arcs:
            return
        for number, entry in enumerate(self._fired_entries, start=turn.state.next_token):
            entry["token"] = number
        group = turn.state.next_group if len(self.fired) > 1 else None
        outer = tuple(found for found in run.groups if self._matters(found))
        groups = outer if group is None else (*outer, group)
        said = NextEvaluated(self._about, self._step.next.mode, tuple(self._looked_at), group, groups, self._patches)
        turn.emit(said, Address(run.step, run.visit))

    def _matters(self, group: int) -> bool:
        """Say whether a fan-out has anyone left to meet, or to be absorbed by."""
        state = self._turn.state
        return (
            any(group in token.groups for token in state.tokens.values())
            or any(group in run.groups for run in state.runs.values())
            or any(group == fired for _, fired in state.fired_joins)
        )


def guard_error(problem: ExpressionFailed) -> dict[str, Any]:
    """Return the error of a guard or argument that could not be evaluated."""
    return {**problem.error, "message": f"next: {problem.error['message']}"[:500]}
