"""A small interpreter of the language: what a Plan says, told by plain recursion on simulated time.

It knows no events, no log and no decisions. A run of a step is a generator that yields how long it sleeps.
"""

from __future__ import annotations

import heapq
import json
import math
from collections import Counter
from collections.abc import Callable, Generator
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from shared.language.plan import (
    Arc,
    Array,
    Assignment,
    Break,
    Condition,
    Constant,
    Continue,
    Expression,
    Fail,
    Gather,
    Jump,
    Loop,
    Number,
    Object,
    Plan,
    Repeat,
    Retry,
    Rule,
    Step,
    Task,
    Value,
)
from shared.templates.durations import parse_duration
from shared.templates.expressions import compile_template
from shared.templates.truth import truthy

SECOND_US = 1_000_000
PARKED = None
MAX_TURNS = 100_000

Answer: TypeAlias = Callable[[str, int, int | None, str, int], tuple[dict[str, Any], int]]
Process: TypeAlias = Generator[int | None, Any, "Ended"]


@dataclass(frozen=True)
class Ended:
    """How a pipeline, an iteration or a step ended; `failed` for one that did not end well."""

    failed: bool
    result: Any = None


@dataclass(frozen=True)
class Run:
    """One call of a tool: what was asked, when, and how long it was put off."""

    node: str
    at_us: int
    delay_us: int
    config: Any
    input: Any


@dataclass
class Account:
    """What became of an execution."""

    status: str = "running"
    result: Any = None
    ctx: dict[str, Any] = field(default_factory=dict)
    failed_step: str | None = None
    runs: list[Run] = field(default_factory=list)
    visits: list[tuple[str, str]] = field(default_factory=list)
    iterations: dict[str, Any] = field(default_factory=dict)


@dataclass
class Frame:
    """One pass through a pipeline, with the names that live as long as it."""

    step: Step
    visit: int
    args: dict[str, Any]
    index: int | None = None
    figures: dict[str, Any] = field(default_factory=dict)
    iter: dict[str, Any] = field(default_factory=dict)
    names: dict[str, Any] = field(default_factory=dict)
    entries: Counter[str] = field(default_factory=Counter)
    calls: Counter[str] = field(default_factory=Counter)
    jumps: Counter[tuple[str, str]] = field(default_factory=Counter)
    written: dict[str, dict[int, Any]] | None = None

    @property
    def name(self) -> str:
        """Return its place as one text."""
        run = f"{self.step.name}~{self.visit}"
        return run if self.index is None else f"{run}[{self.index}]"


@dataclass
class Live:
    """A process that is asleep or waits for those it started; a dead one never wakes."""

    process: Process
    on_end: Callable[[Ended], None]
    inner: list[Live] = field(default_factory=list)
    dead: bool = False

    def kill(self) -> None:
        """Never let it, or what it started, go on."""
        self.dead = True
        for live in self.inner:
            live.kill()


def interpret(plan: Plan, answer: Answer) -> Account:
    """Return what becomes of an execution whose tools answer as given."""
    return _Model(plan, answer).run()


class _Model:
    def __init__(self, plan: Plan, answer: Answer) -> None:
        self.plan, self.answer = plan, answer
        self.workload = json.loads(plan.workload)
        self.account = Account()
        self.ctx = self.account.ctx
        self.known: dict[str, Any] = {}
        self.last: str | None = None
        self.visits: Counter[str] = Counter()
        self.tokens: dict[str, list[dict[str, Any]]] = {plan.entry: [{}]}
        self.under_way: dict[str, Live] = {}
        self.now = 0
        self.asleep: list[tuple[int, int, Live]] = []
        self.turns = 0
        self.current: Live | None = None
        self.reach = _reach(plan)

    def run(self) -> Account:
        self.settle()
        while self.asleep and self.account.status == "running":
            self.now, _, live = heapq.heappop(self.asleep)
            if not live.dead:
                self.wake(live, None)
                self.settle()
        return self.account

    def start(self, process: Process, on_end: Callable[[Ended], None]) -> Live:
        live = Live(process, on_end)
        self.sleep(live, 0)
        return live

    def sleep(self, live: Live, pause_us: int) -> None:
        self.turns += 1
        assert self.turns < MAX_TURNS, "the playbook does not end"
        heapq.heappush(self.asleep, (self.now + pause_us, self.turns, live))

    def wake(self, live: Live, said: Any) -> None:
        outer, self.current = self.current, live
        try:
            pause = live.process.send(said)
        except StopIteration as end:
            live.dead = True
            live.on_end(end.value)
        else:
            if pause is not PARKED:
                self.sleep(live, pause)
        finally:
            self.current = outer

    def settle(self) -> None:
        """Run every step whose tokens need not wait for others, and end when nothing is left."""
        while self.account.status == "running":
            step = next((name for name in self.tokens if not self.is_awaited(name)), None)
            if step is None:
                break
            args: dict[str, Any] = {}
            for carried in self.tokens.pop(step):
                args |= carried
            self.arrive(self.step(step), args)
        if self.account.status == "running" and not self.under_way and not self.tokens:
            self.finish()

    def is_awaited(self, step: str) -> bool:
        """Say whether another token could still come to a step, going forward."""
        others = [*self.under_way, *(name for name in self.tokens if name != step)]
        return any(step in self.reach[name] for name in others)

    def arrive(self, step: Step, args: dict[str, Any]) -> None:
        self.visits[step.name] += 1
        frame = Frame(step, self.visits[step.name], args)
        for rule in step.admit:
            if self.holds(rule.when, self.scope(frame)):
                if rule.allow:
                    break
                self.account.visits.append((step.name, "skipped"))
                self.leave(frame, "step.skipped", {"status": "skipped", "result": None, "error": None})
                return
        work = self.loop(frame, step.loop) if step.loop is not None else self.pipeline(frame)
        live = self.under_way[step.name] = self.start(work, lambda ended: self.end_step(frame, ended))
        if step.timeout is not None:
            pause = self.number(step.timeout, self.scope(frame))
            self.start(_alarm(pause), lambda ended: self.time_out(frame, live))

    def time_out(self, frame: Frame, live: Live) -> None:
        if not live.dead:
            live.kill()
            self.end_step(frame, Ended(True))

    def end_step(self, frame: Frame, ended: Ended) -> None:
        name = frame.step.name
        del self.under_way[name]
        self.known[name] = None if ended.failed else ended.result
        if not ended.failed:
            self.last = name
            self.write(frame, frame.step.set, self.scope(frame))
            self.account.visits.append((name, "completed"))
            self.leave(frame, "step.completed", {"status": "success", "result": ended.result, "error": None})
            return
        self.account.visits.append((name, "failed"))
        if self.leave(frame, "step.failed", {"status": "error", "result": None, "error": {"kind": "any"}}):
            return
        self.account.failed_step = self.account.failed_step or name
        if self.plan.on_failure == "fail_fast":
            self.account.status = "failed"
            for live in self.under_way.values():
                live.kill()

    def leave(self, frame: Frame, about: str, outcome: dict[str, Any]) -> bool:
        """Send tokens over the arcs that fire, and say whether there was one."""
        scope = {**self.scope(frame), "event": {"name": about}, "outcome": outcome}
        failed = about == "step.failed"
        fired: list[Arc] = []
        for arc in frame.step.next.arcs:
            if arc.is_else or (failed and not arc.takes_failures) or not self.holds(arc.when, scope):
                continue
            fired.append(arc)
            if frame.step.next.mode == "exclusive":
                break
        if not fired and not failed:
            fired = [arc for arc in frame.step.next.arcs if arc.is_else]
        carried = [self.value(arc.args, scope) for arc in fired]
        for arc in fired:
            self.write(frame, arc.set, scope)
        for arc, args in zip(fired, carried, strict=True):
            self.tokens.setdefault(arc.step, []).append(args)
        return bool(fired)

    def finish(self) -> None:
        self.account.status = "failed" if self.account.failed_step is not None else "completed"
        if self.account.status == "failed":
            return
        if self.plan.result is not None:
            self.account.result = self.value(self.plan.result, {"workload": self.workload, **self.known})
        elif self.last is not None:
            self.account.result = self.known[self.last]

    def loop(self, outer: Frame, loop: Loop) -> Process:
        """Run the pipeline once per element; more failures than are tolerated end it at once."""
        elements = self.elements(outer, loop)
        total = len(elements)
        allowed = self.number(loop.tolerate, self.scope(outer))
        if loop.tolerate_percent:
            allowed = math.floor(total * allowed / 100)
        at_once = 1 if loop.mode == "sequential" else 100
        if loop.mode == "parallel" and loop.max_in_flight is not None:
            at_once = int(self.number(loop.max_in_flight, self.scope(outer)))
        results: list[Any] = [None] * total
        me = self.current
        assert me is not None
        failures, begun = 0, 0
        running: dict[int, Live] = {}
        written: dict[str, dict[int, Any]] | None = {} if loop.mode == "parallel" else None
        while failures <= allowed:
            while begun < total and len(running) < at_once:
                source, element = elements[begun]
                frame = Frame(outer.step, outer.visit, outer.args, begun, written=written)
                frame.figures = _figures(loop, begun, total, source, element)
                running[begun] = self.start(self.pipeline(frame), _teller(self, me, begun))
                me.inner.append(running[begun])
                begun += 1
            if not running:
                return Ended(False, results if loop.collect == "all" else None)
            index, ended = yield PARKED
            del running[index]
            self.account.iterations[f"{outer.name}[{index}]"] = "failed" if ended.failed else ended.result
            results[index] = ended.result
            failures += ended.failed
        for live in running.values():
            live.kill()
        return Ended(True)

    def elements(self, outer: Frame, loop: Loop) -> list[tuple[int, Any]]:
        found = self.value(loop.source, self.scope(outer))
        listed = list(range(found)) if isinstance(found, int) else list(found)
        kept = []
        for index, element in enumerate(listed):
            at = {"index": index, loop.iterator: element}
            scope = {**self.scope(outer), loop.iterator: element, "iter": at}
            if loop.where is None or self.holds(loop.where, scope):
                kept.append((index, element))
        if loop.chunk_size is None:
            return kept
        size = int(self.number(loop.chunk_size, self.scope(outer)))
        return [(at, [element for _, element in kept[at : at + size]]) for at in range(0, len(kept), size)]

    def pipeline(self, frame: Frame) -> Process:
        """Go from task to task as the rules say."""
        tasks = frame.step.tasks
        at, delay, result = 0, 0.0, None
        while at < len(tasks):
            said = yield from self.task(frame, tasks[at], delay)
            if said is None:
                return Ended(True)
            directive, result = said
            if isinstance(directive, Break):
                break
            at, delay = at + 1, 0.0
            if isinstance(directive, Jump):
                at = [task.name for task in tasks].index(directive.to)
                delay = self.number(directive.delay, self.scope(frame))
        return Ended(False, result)

    def task(
        self, frame: Frame, task: Task, delay: float
    ) -> Generator[int | None, Any, tuple[Continue | Break | Jump, Any] | None]:
        """Call a tool until no rule asks for another attempt or page; return where to go, or None for failure."""
        frame.entries[task.name] += 1
        began, tries, page, attempt = self.now, 1, 1, 1
        pieces: list[Any] = []
        change: Any = {}
        while True:
            outcome = yield from self.call(frame, task, attempt, delay, change)
            scope = {**self.scope(frame), "outcome": outcome, **_legacy(outcome)}
            rule = next(rule for rule in task.rules if self.holds(rule.when, scope))
            then = rule.then
            patches = self.patches(frame, rule, scope)
            if patches is None:
                return None
            if isinstance(then, Retry):
                delay = self.backoff(then, tries, scope)
                if tries < self.number(then.attempts, scope) and self.is_affordable(then, began, delay, scope):
                    self.apply(frame, patches)
                    tries, attempt = tries + 1, attempt + 1
                    continue
                then = then.on_exhausted
                if isinstance(then, Fail):
                    return None  # what the rule would have written is left out: it did not get its attempt
            if isinstance(then, Repeat):
                if page < self.number(then.max_attempts, scope):
                    pieces.append(_piece(outcome, then.gather))
                    change, delay = self.value(then.next_call, scope), self.number(then.delay, scope)
                    page, tries, attempt = page + 1, 1, attempt + 1
                    continue
                then = Continue()
            self.apply(frame, patches)
            if isinstance(then, Fail) or (isinstance(then, Jump) and not self.may_jump(frame, task, rule, then)):
                return None
            result = _gathered(task, outcome, pieces)
            self.write(frame, task.set, scope)
            return then, result

    def call(
        self, frame: Frame, task: Task, attempt: int, delay: float, change: Any
    ) -> Generator[int | None, Any, dict[str, Any]]:
        """Ask the tool once, after a pause."""
        scope = {**self.scope(frame), "_task": task.name, "_attempt": attempt}
        given = {**frame.args, **self.value(frame.step.args, scope)}
        scope["args"] = given
        given = {**given, **self.value(task.input, scope)}
        config = _laid_over(self.value(task.config, {**scope, **given}), change)
        yield _us(delay)
        page = frame.entries[task.name]
        sequence = f"{frame.name}.{task.name}" + (f"@{page}" if page > 1 else "")
        self.account.runs.append(Run(f"{sequence}#{attempt}", self.now, _us(delay), config, given))
        number = frame.calls[task.name]
        frame.calls[task.name] += 1
        outcome, duration_us = self.answer(frame.step.name, frame.visit, frame.index, task.name, number)
        yield duration_us
        return outcome

    def backoff(self, retry: Retry, tries: int, scope: dict[str, Any]) -> float:
        base = self.number(retry.delay, scope)
        factor = {"fixed": 1.0, "linear": float(tries), "exponential": 0.0}[retry.backoff]
        if retry.backoff == "exponential":
            factor = self.number(retry.multiplier, scope) ** (tries - 1)
        cap = math.inf if retry.max_delay is None else self.number(retry.max_delay, scope)
        return min(base * factor, cap)

    def is_affordable(self, retry: Retry, began_us: int, delay: float, scope: dict[str, Any]) -> bool:
        if retry.budget is None:
            return True
        return (self.now - began_us) / SECOND_US + delay <= self.number(retry.budget, scope)

    def may_jump(self, frame: Frame, task: Task, rule: Rule, jump: Jump) -> bool:
        frame.jumps[task.name, rule.label] += 1
        return frame.jumps[task.name, rule.label] <= self.number(jump.max_jumps, {})

    def scope(self, frame: Frame) -> dict[str, Any]:
        """Return the names that are readable in a frame; what stands later goes first."""
        iteration = {**frame.figures, **frame.iter}
        return {
            **self.workload,
            **self.known,
            **frame.names,
            **self.ctx,
            **iteration,
            **frame.args,
            "workload": self.workload,
            "ctx": dict(self.ctx),
            "iter": iteration,
            "args": frame.args,
        }

    def patches(self, frame: Frame, rule: Rule, scope: dict[str, Any]) -> list[tuple[Assignment, Any]] | None:
        """Return what a rule writes, or None if another iteration of a parallel loop wrote something else there."""
        found = [(item, self.value(item.value, scope)) for item in rule.set]
        for item, value in found:
            if item.target == "ctx" and frame.written is not None and frame.index is not None:
                writers = frame.written.setdefault(item.path[0], {})
                if any(other != value for index, other in writers.items() if index != frame.index):
                    return None
        return found

    def write(self, frame: Frame, items: tuple[Assignment, ...], scope: dict[str, Any]) -> None:
        self.apply(frame, [(item, self.value(item.value, scope)) for item in items])

    def apply(self, frame: Frame, patches: list[tuple[Assignment, Any]]) -> None:
        for item, value in patches:
            {"ctx": self.ctx, "iter": frame.iter, "local": frame.names}[item.target][item.path[0]] = value
            if item.target == "ctx" and frame.written is not None and frame.index is not None:
                frame.written.setdefault(item.path[0], {})[frame.index] = value

    def value(self, value: Value, scope: dict[str, Any]) -> Any:
        match value:
            case Constant(json=text):
                return json.loads(text)
            case Expression(text=text):
                return compile_template(text).evaluate(scope).value
            case Array(items=items):
                return [self.value(item, scope) for item in items]
            case Object(items=pairs):
                return {key: self.value(item, scope) for key, item in pairs}

    def number(self, number: Number, scope: dict[str, Any]) -> float:
        return parse_duration(self.value(number, scope)) if isinstance(number, Expression) else float(number)

    def holds(self, condition: Condition, scope: dict[str, Any]) -> bool:
        if condition.on != "any" and condition.on != scope["outcome"]["status"]:
            return False
        return condition.expression is None or truthy(self.value(condition.expression, scope))

    def step(self, name: str) -> Step:
        found = self.plan.step(name)
        assert found is not None
        return found


def _alarm(pause: float) -> Process:
    yield _us(pause)
    return Ended(True)


def _teller(model: _Model, parent: Live, index: int) -> Callable[[Ended], None]:
    return lambda ended: model.wake(parent, (index, ended))


def _reach(plan: Plan) -> dict[str, set[str]]:
    """Return for every step those that it leads to over arcs that go forward in the document."""
    order = {step.name: number for number, step in enumerate(plan.steps)}
    out: dict[str, set[str]] = {}
    for step in reversed(plan.steps):
        ahead = {arc.step for arc in step.next.arcs if order[arc.step] > order[step.name]}
        out[step.name] = ahead.union(*(out[name] for name in ahead))
    return out


def _figures(loop: Loop, index: int, total: int, source: int, element: Any) -> dict[str, Any]:
    figures = {"index": index, "total": total, "first": index == 0, "last": index == total - 1}
    return {**figures, "source_index": source, loop.iterator: element}


def _legacy(outcome: dict[str, Any]) -> dict[str, Any]:
    return {"response": outcome["result"], "status_code": (outcome.get("http") or {}).get("status")}


def _laid_over(config: Any, change: Any) -> Any:
    if not isinstance(config, dict) or not isinstance(change, dict):
        return change
    return {**config, **{key: _laid_over(config[key], item) if key in config else item for key, item in change.items()}}


def _piece(outcome: dict[str, Any], gather: Gather) -> Any:
    piece = outcome["result"]
    for key in gather.path if gather.strategy == "append" else ():
        piece = piece.get(key) if isinstance(piece, dict) else None
    return piece


def _gathered(task: Task, outcome: dict[str, Any], pieces: list[Any]) -> Any:
    """Return a task's result: of its last call, or of all its pages."""
    repeat = next((rule.then for rule in task.rules if isinstance(rule.then, Repeat)), None)
    if outcome["status"] == "success" and repeat is not None:
        pieces = [*pieces, _piece(outcome, repeat.gather)]
    if repeat is None or not pieces:
        return outcome["result"]
    match repeat.gather.strategy:
        case "replace":
            return pieces[-1]
        case "collect":
            return pieces
        case "append":
            return [row for piece in pieces for row in (piece or [])]


def _us(seconds: float) -> int:
    return round(seconds * SECOND_US)
