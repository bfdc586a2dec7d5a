"""The names an expression can read, found in the state when they are asked for and not before."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

from shared.contracts.ids import Address, job_id
from shared.contracts.references import fetched, is_reference
from shared.engine.deferred import meets_deferred
from shared.engine.program import Program
from shared.engine.state import Frame, Known, State, StepRun
from shared.engine.views import MISSING, EventName, Extras, http_body, is_http_result, opened, paths_below
from shared.engine.world import World
from shared.language.plan import Dialect
from shared.templates.expressions import Evaluation, Helpers, Listed, Path, Template
from shared.templates.truth import StatusText

LEGACY: Final = frozenset({"result", "status_code", "error", "success", "data", "attempt", "node_id", "response"})
_OF_A_STEP: Final = frozenset({"results", "status", "error", "stats", "errors"})


@dataclass(slots=True)
class Scope:
    """Where an expression stands: in an execution, a run of a step, a frame, after an outcome, at an event.

    `has_deferred` says that some of the arguments are left to the worker, so that nothing here can be made of them.
    """

    program: Program
    state: State
    world: World
    run: StepRun | None = None
    frame: Frame | None = None
    args: dict[str, Any] = field(default_factory=dict)
    event: dict[str, Any] | None = None
    outcome: dict[str, Any] | None = None
    purpose: str = ""
    address: Address | None = None
    ended: dict[str, Known] = field(default_factory=dict)
    ctx: dict[str, Any] | None = None
    has_deferred: bool = False
    _drawn: int = 0

    @property
    def _written(self) -> dict[str, Any]:
        return self.state.ctx if self.ctx is None else self.ctx

    def evaluate(self, template: Template, dialect: Dialect) -> Evaluation:
        """Evaluate a template here; raises EvaluationError."""
        return template.evaluate(self.bound(template, dialect), Helpers(self.world.now, self._random))

    def handed_over(self, template: Template, dialect: Dialect, later: frozenset[str]) -> dict[str, Any]:
        """Return what a template reads besides the names that come later, and no more of each than it reads."""
        out: dict[str, Any] = {}
        for name in sorted(template.names - later):
            value = self.resolve(name, template, dialect)
            if value is not MISSING:
                out[name] = _as_read(value, paths_below(template).get(name, ()))
        return out

    def reads_deferred(self, path: Path, dialect: Dialect) -> bool:
        """Say whether a path leads to an argument that is left to the worker."""
        name = path[0]
        if not self.has_deferred or (dialect == "legacy" and name in LEGACY and self.outcome is not None):
            return False
        if name == "args":
            return meets_deferred(self.args, path[1:])
        return name not in _FIXED and name in self.args and meets_deferred(self.args[str(name)], path[1:])

    def bound(self, template: Template, dialect: str = "canonical") -> dict[str, Any]:
        """Return the names a template reads, as far as they are defined."""
        out: dict[str, Any] = {}
        for name in template.names:
            value = self.resolve(name, template, dialect)
            if value is not MISSING:
                out[name] = value
        return out

    def resolve(self, name: str, template: Template, dialect: str = "canonical") -> Any:
        """Return what a name means here, with everything at hand that the template reads of it."""
        if dialect == "legacy" and name in LEGACY and self.outcome is not None:
            return self._legacy(name)
        if name == "output":
            return self._output(template)
        known = self._known(name)
        if known is not None:
            return self._step(known, name, template)
        value = self.raw(name)
        if value is MISSING:
            return MISSING
        extras: Extras = {}
        if name == "_prev" or (self.frame is not None and name in self.frame.results):
            extras = {"data": lambda: http_body(self._loaded(value))}
        found = opened(value, paths_below(template).get(name, ()), self.world.values, extras)
        return _FACES[name](found) if name in _FACES else found

    def raw(self, name: str) -> Any:
        """Return what a name means, without loading what is stored elsewhere."""
        fixed = _FIXED.get(name)
        if fixed is not None:
            return fixed(self)
        if name in self.args:
            return self.args[name]
        frame = self.frame
        if frame is not None:
            iteration = self.iteration()
            if name in iteration:
                return iteration[name]
        if name in self._written:
            return self._written[name]
        if frame is not None:
            if name in frame.names:
                return frame.names[name]
            if name in frame.results:
                return frame.results[name]
        known = self.ended.get(name) or self.state.known.get(name)
        if known is not None:
            return known.value
        workload = self._loaded(self.state.workload)
        return workload.get(name, MISSING) if isinstance(workload, dict) else MISSING

    def way_in(self, path: tuple[str | int, ...], dialect: str) -> tuple[Any, tuple[str | int, ...]]:
        """Return a value that a path starts from and the rest of the path; MISSING where the path must be evaluated."""
        name = path[0]
        if not isinstance(name, str) or (dialect == "legacy" and name in LEGACY and self.outcome is not None):
            return MISSING, ()
        if name == "output":
            inside = self.outcome is not None and len(path) > 1 and path[1] not in self.outcome
            return (self.outcome["result"], path[1:]) if inside and self.outcome is not None else (MISSING, ())
        known = self._known(name)
        if known is None:
            return self.raw(name), path[1:]
        if known.stats is not None and len(path) > 1 and path[1] in ("results", "data"):
            return known.value, path[2:]
        if len(path) > 1 and path[1] == "results" and known.tasks and not is_reference(known.value):
            own = isinstance(known.value, dict) and "results" in known.value
            return (MISSING, ()) if own else (known.tasks, path[2:])
        return (MISSING, ()) if len(path) > 1 and path[1] in _OF_A_STEP else (known.value, path[1:])

    def iteration(self) -> dict[str, Any]:
        """Return the names of the iteration: the element and what was written to `iter`."""
        frame = self.frame
        if frame is None:
            return {}
        if self.run is None or self.run.loop is None or frame.iteration is None:
            return frame.iter
        return {self.run.loop.iterator: frame.element, **frame.iter}

    def iteration_view(self) -> dict[str, Any]:
        """Return `iter` as expressions see it: the element, its figures, what was written, the outer scope."""
        out = dict(self.iteration())
        run, frame = self.run, self.frame
        if run is not None and run.loop is not None and frame is not None and frame.iteration is not None:
            index, total = frame.iteration, run.loop.size
            source = frame.source_index if frame.source_index is not None else index
            last = None if total is None else index == total - 1
            figures = {"index": index, "total": total, "first": index == 0, "last": last}
            out = {**figures, "source_index": source, **out}
        if self.state.parent is not None and "iter" in self.state.parent:
            out.setdefault("parent", self.state.parent["iter"])
        return out

    def _known(self, name: str) -> Known | None:
        """Return the step that a name means, if it means one."""
        known = self.ended.get(name) or self.state.known.get(name)
        if known is None or name in _FIXED or name in self.args or name in self._written:
            return None
        frame = self.frame
        if frame is None:
            return known
        own = self.run is not None and name == self.run.step and (self.event is not None or name in self.ended)
        hidden = name in self.iteration() or name in frame.names or (name in frame.results and not own)
        return None if hidden else known

    def _step(self, known: Known, name: str, template: Template) -> Any:
        value, is_loop = known.value, known.stats is not None
        extras: Extras = {
            "results": lambda: value if is_loop else known.tasks,
            "data": lambda: value if is_loop else http_body(self._loaded(value)),
            "status": lambda: StatusText(known.status),
            "error": lambda: known.error,
            "stats": lambda: known.stats or {},
            "errors": lambda: self._loaded(known.errors) or [],
        }
        paths = paths_below(template).get(name, ())
        return opened(value, paths, self.world.values, extras, is_list=is_loop)

    def _loaded(self, value: Any) -> Any:
        return fetched(value, self.world.values.load) if is_reference(value) else value

    def _output(self, template: Template) -> Any:
        outcome = self.outcome
        if outcome is None:
            return MISSING
        over = {key: value for key, value in outcome.items() if key != "result"}
        over["status"] = StatusText(str(outcome["status"]))
        paths = paths_below(template).get("output", ())
        if all(path and path[0] in over for path in paths):
            return over
        result = self._loaded(outcome.get("result"))
        base = opened(result, paths, self.world.values) if isinstance(result, dict) else {}
        return {"data": http_body(result), **base, **over}

    def _job(self) -> Any:
        if self.address is not None:
            return {"uuid": job_id(self.state.execution_id, self.address)}
        return {"uuid": self.frame.job_id} if self.frame is not None else MISSING

    def _previous(self) -> Any:
        """Return the result of the task before, or of the step before where there is none."""
        frame = self.frame
        if frame is not None and frame.results:
            return next(reversed(frame.results.values()))
        return self._result()

    def _result(self) -> Any:
        name = self.run.origin if self.run is not None else self.state.last_completed
        known = self.state.known.get(name) if name is not None else None
        return MISSING if known is None else known.value

    def _legacy(self, name: str) -> Any:
        outcome = self.outcome or {}
        result = self._loaded(outcome.get("result"))
        match name:
            case "result":
                return result
            case "status_code":
                return _status_code(outcome, result)
            case "error":
                return (outcome.get("error") or {}).get("message") if outcome.get("status") == "error" else None
            case "success":
                return outcome.get("status") == "success"
            case "data":
                return http_body(result)
            case "response":
                return result["body"] if is_http_result(result) else result
            case "attempt":
                return self.frame.tries if self.frame is not None else 1
            case _:
                return self.run.step if self.run is not None else None

    def _random(self) -> float:
        self._drawn += 1
        return self.world.chance.draw(f"{self.purpose}|rand|{self._drawn}")


def _as_read(value: Any, paths: tuple[Path, ...]) -> Any:
    """Return a value without the members that no path leads into, as data that can be sent."""
    keys = {path[0] for path in paths if path}
    if () in paths or not all(isinstance(key, str) for key in keys):
        return value
    if isinstance(value, Listed):
        return {key: item for key, item in value.beside.items() if key in keys}
    return {key: item for key, item in value.items() if key in keys} if type(value) is dict else value


def _status_code(outcome: dict[str, Any], result: Any) -> Any:
    http = outcome.get("http") or {}
    if "status" in http:
        return http["status"]
    return result.get("status_code") if isinstance(result, dict) else None


def _given(value: Any) -> Any:
    return MISSING if value is None else value


def _place(scope: Scope) -> Address | Frame | None:
    return scope.address or scope.frame


_FIXED: Final[dict[str, Callable[[Scope], Any]]] = {
    "workload": lambda scope: scope._loaded(scope.state.workload) or {},
    "ctx": lambda scope: scope._written,
    "vars": lambda scope: scope._written,
    "iter": Scope.iteration_view,
    "args": lambda scope: scope.args,
    "event": lambda scope: _given(scope.event),
    "outcome": lambda scope: _given(scope.outcome),
    "output": lambda scope: MISSING,
    "execution_id": lambda scope: scope.state.execution_id,
    "job": Scope._job,
    "env": lambda scope: dict(scope.world.env),
    "_prev": Scope._previous,
    "_task": lambda scope: MISSING if (place := _place(scope)) is None else place.task,
    "_attempt": lambda scope: MISSING if (place := _place(scope)) is None else place.attempt,
    "result": Scope._result,
}
_FACES: Final[dict[str, Callable[[Any], Any]]] = {
    "event": lambda event: {**event, "name": EventName(event["name"])},
    "outcome": lambda outcome: {**outcome, "status": StatusText(str(outcome["status"]))},
}
