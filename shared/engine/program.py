"""A Plan made ready for deciding: steps by name, templates compiled once, ways between steps known."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from shared.contracts.ids import Address
from shared.language.claims import tasks_of
from shared.language.expressions import expressions_in
from shared.language.plan import Constant, Object, Plan, Step, Task, Value
from shared.templates.expressions import compile_template


class Program:
    """What decisions look up in a Plan, each in constant time."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.steps: dict[str, Step] = {step.name: step for step in plan.steps}
        self.workload: dict[str, Any] = json.loads(plan.workload)
        self._tasks: dict[str, dict[str, Task]] = {s.name: {t.name: t for t in tasks_of(s)} for s in plan.steps}
        self._order: dict[str, dict[str, int]] = {
            s.name: {t.name: i for i, t in enumerate(s.tasks)} for s in plan.steps
        }
        self._bits = {step.name: 1 << index for index, step in enumerate(plan.steps)}
        self._ways = {s.name: tuple(dict.fromkeys(arc.step for arc in s.next.arcs)) for s in plan.steps}
        self._reach_cache: dict[tuple[str, str], int] = {}
        self._merge_cache: dict[tuple[str, tuple[str, ...]], int] = {}
        self._way_cache: dict[tuple[str, str, str, tuple[str, ...]], bool] = {}
        self._argument_cache: dict[tuple[str, str], bool] = {}

    def task(self, step: str, name: str) -> Task:
        """Return a task of a step, the claim of its loop included."""
        return self._tasks[step][name]

    def is_claim(self, address: Address) -> bool:
        """Say whether an attempt claims elements for a loop."""
        return address.task is not None and address.iteration is None and self.steps[address.step].loop is not None

    def judges_by_arguments(self, step: str, name: str) -> bool:
        """Say whether the rules of a task read arguments that are given to its step or to itself."""
        key = (step, name)
        if key not in self._argument_cache:
            self._argument_cache[key] = _rules_read_arguments(self.steps[step], self._tasks[step][name])
        return self._argument_cache[key]

    def following(self, step: str, task: str) -> Task | None:
        """Return the task after this one, if it is not the last; nothing follows a claim in its frame."""
        tasks = self.steps[step].tasks
        index = self._order[step].get(task, len(tasks)) + 1
        return tasks[index] if index < len(tasks) else None

    def merges_at(self, fan: str, heads: tuple[str, ...], step: str) -> bool:
        """Say whether branches that began with these steps can meet at a step without passing the fan-out again."""
        return bool(self._merge_points(fan, heads) & self._bits[step])

    def _merge_points(self, fan: str, heads: tuple[str, ...]) -> int:
        key = (fan, heads)
        if key not in self._merge_cache:
            seen = twice = 0
            for head in heads:
                reach = self._reach(head, fan)
                twice |= seen & reach
                seen |= reach
            self._merge_cache[key] = twice
        return self._merge_cache[key]

    def can_reach(self, start: str, goal: str, fan: str, heads: tuple[str, ...]) -> bool:
        """Say whether a token at one step can come to another, without passing the fan-out or one that waits for it."""
        key = (start, goal, fan, heads)
        if key not in self._way_cache:
            waits_there = self._merge_points(fan, heads) & self._reach(goal, fan) & ~self._bits[goal]
            self._way_cache[key] = self._is_way(start, goal, fan, waits_there)
        return self._way_cache[key]

    def can_come_back(self, start: str, goal: str, fan: str, heads: tuple[str, ...]) -> bool:
        """Say whether a run of a step can send a token to another without passing the fan-out."""
        return any(self.can_reach(way, goal, fan, heads) for way in self._ways[start] if way != fan)

    def _is_way(self, start: str, goal: str, without: str, closed: int) -> bool:
        seen = 0
        waiting = [] if start == without else [start]
        while waiting:
            name = waiting.pop()
            if name == goal:
                return True
            bit = self._bits[name]
            if not seen & bit:
                seen |= bit
                if name == start or not closed & bit:
                    waiting.extend(way for way in self._ways[name] if way != without)
        return False

    def _reach(self, start: str, without: str) -> int:
        key = (start, without)
        if key in self._reach_cache:
            return self._reach_cache[key]
        found = 0
        waiting = [] if start == without else [start]
        while waiting:
            name = waiting.pop()
            bit = self._bits[name]
            if not found & bit:
                found |= bit
                waiting.extend(way for way in self._ways[name] if way != without)
        self._reach_cache[key] = found
        return found


def _rules_read_arguments(step: Step, task: Task) -> bool:
    given = {key for value in (step.args, task.input) for key in _keys_of(value)}
    if not given:
        return False
    names = {name for part in (task.rules, task.set) for name in _names_read(part)}
    return not names.isdisjoint(given | {"args"})


def _keys_of(value: Value) -> set[str]:
    match value:
        case Constant(json=text):
            return set(json.loads(text) or ())
        case Object(items=items):
            return {key for key, _ in items}
        case _:
            return {"args"}


def _names_read(part: object) -> Iterator[str]:
    for expression in expressions_in(part):
        yield from compile_template(expression.text).names
