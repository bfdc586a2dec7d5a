"""Values of the Plan to data: expressions evaluated, references left where a worker can load them."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from shared.contracts.references import MISSING, into, is_reference, member
from shared.engine.deferred import Deferred
from shared.engine.scope import Scope
from shared.engine.world import LostValueError
from shared.language.plan import Array, Assignment, Condition, Constant, Expression, Number, Object, Value
from shared.templates.durations import parse_duration
from shared.templates.expressions import Evaluation, EvaluationError, Template, compile_template
from shared.templates.truth import truthy

KEYCHAIN = "keychain"
NO_NAMES: frozenset[str] = frozenset()
WORKER_NAMES = frozenset({KEYCHAIN})
SINK_NAMES = WORKER_NAMES | {"result", "outcome", "output", "response", "data"}
MAX_MESSAGE = 1000
MAX_NAME = 80


class ExpressionFailed(Exception):  # noqa: N818
    """An expression could not be evaluated; `error` is what becomes of it in an outcome."""

    def __init__(self, error: dict[str, Any]) -> None:
        super().__init__(error["message"])
        self.error = error


def failed(expression: Expression, problem: EvaluationError) -> ExpressionFailed:
    """Return the failure of an expression as an error object."""
    details = {
        "template": expression.text[:500],
        "line": expression.place.line,
        "column": expression.place.column,
        "reason": problem.reason,
        "names_in_scope": [name[:MAX_NAME] for name in problem.names_in_scope[:50]],
    }
    message = f"the expression {expression.text[:200]!r} failed: {problem.message}"
    return ExpressionFailed(expression_error(message, details))


def expression_error(message: str, details: dict[str, Any] | None = None) -> dict[str, Any]:
    """Return the error object of an expression that failed."""
    return {"kind": "expression", "message": message[:MAX_MESSAGE], "retryable": False, "details": details or {}}


class Renderer:
    """Evaluates values in one scope and remembers what was undefined.

    What reads one of the names that come `later` is left to the worker. Without such names, an expression that needs
    the worker is one that fails: nothing that the engine keeps or decides by may depend on a credential.
    """

    def __init__(
        self,
        scope: Scope,
        *,
        strict: bool = False,
        later: frozenset[str] = NO_NAMES,
        keep: Callable[[Any], Any] | None = None,
        warnings: list[str] | None = None,
    ) -> None:
        self._scope = scope
        self._strict = strict
        self._later = later
        self._not_here = later or WORKER_NAMES
        self._keep = keep
        self.warnings: list[str] = [] if warnings is None else warnings
        self.has_deferred = False

    def value(self, value: Value) -> Any:
        """Return the data of a value."""
        match value:
            case Constant(json=text):
                return json.loads(text)
            case Expression():
                return self._expression(value)
            case Array(items=items):
                return [self.value(item) for item in items]
            case Object(items=pairs):
                return {key: self.value(item) for key, item in pairs}

    def settled(self, value: Value) -> Any:
        """Return the data of a value of which nothing can be left to the worker; raises ExpressionFailed."""
        return Renderer(self._scope, strict=self._strict, keep=self._keep, warnings=self.warnings).value(value)

    def number(self, number: Number | None, name: str, *, whole: bool = False) -> float:
        """Return the number that a rule's option states; a text such as '2m' is a duration."""
        if isinstance(number, int | float):
            return number
        if number is None:
            raise ExpressionFailed(expression_error(f"{name} is missing"))
        template = compile_template(number.text)
        if self._waits(template, number):
            raise _misplaced(number)
        found = self._settled(template, number)
        try:
            seconds = parse_duration(found)
        except ValueError as problem:
            raise ExpressionFailed(expression_error(f"{name}: {problem}", {"template": number.text[:500]})) from None
        if whole and (seconds != int(seconds) or seconds < 1):
            message = f"{name} is {seconds:g}, not a whole number of at least 1"
            raise ExpressionFailed(expression_error(message, {"template": number.text[:500]}))
        return seconds

    def holds(self, condition: Condition) -> bool:
        """Say whether a condition holds here, whatever outcome it asks for."""
        if condition.on == "never":
            return False
        outcome = self._scope.outcome
        if condition.on in ("error", "success") and (outcome is None or outcome["status"] != condition.on):
            return False
        if condition.expression is None:
            return True
        template = compile_template(condition.expression.text)
        if self._waits(template, condition.expression):
            raise _misplaced(condition.expression)
        return truthy(self._evaluation(template, condition.expression).value)

    def patches(self, assignments: tuple[Assignment, ...]) -> dict[str, dict[str, Any]]:
        """Return what assignments write, evaluated; all of them read the state before any of them."""
        out: dict[str, dict[str, Any]] = {}
        for item in assignments:
            value = self.value(item.value)
            out.setdefault(item.target, {})[".".join(item.path)] = self._keep(value) if self._keep else value
        return out

    def _expression(self, expression: Expression) -> Any:
        template = compile_template(expression.text)
        if self._waits(template, expression):
            return self._deferred(template, expression)
        return self._settled(template, expression)

    def _settled(self, template: Template, expression: Expression) -> Any:
        if template.pure_path is not None:
            reference = self._reference(template.pure_path, expression)
            if reference is not None:
                return reference
        found = self._evaluation(template, expression)
        if self._strict and found.value is None and found.missing and template.is_expression:
            message = f"'{found.missing[0]}' is undefined, and the playbook is strict"
            raise ExpressionFailed(expression_error(message, _place(expression)))
        return found.value

    def _evaluation(self, template: Template, expression: Expression) -> Evaluation:
        try:
            found = self._scope.evaluate(template, expression.dialect)
        except EvaluationError as problem:
            raise failed(expression, problem) from None
        except LostValueError as problem:
            raise ExpressionFailed(expression_error(str(problem), _place(expression))) from None
        self.warnings.extend(name for name in found.missing if name not in self.warnings)
        return found

    def _waits(self, template: Template, expression: Expression) -> bool:
        """Say whether an expression reads what only the worker has, by itself or through an argument."""
        if not self._not_here.isdisjoint(template.names):
            return True
        scope = self._scope
        return scope.has_deferred and any(scope.reads_deferred(path, expression.dialect) for path in template.reads)

    def _deferred(self, template: Template, expression: Expression) -> Deferred:
        """Return an expression for the worker to finish, with the names it needs besides the worker's own."""
        if not self._later:
            raise _misplaced(expression)
        try:
            names = self._scope.handed_over(template, expression.dialect, self._later)
        except LostValueError as problem:
            raise ExpressionFailed(expression_error(str(problem), _place(expression))) from None
        self.has_deferred = True
        return Deferred(expression.text, names)

    def _reference(self, path: tuple[str | int, ...], expression: Expression) -> dict[str, Any] | None:
        """Return a reference and the path into it, where an expression is nothing but that."""
        try:
            value, rest = self._scope.way_in(path, expression.dialect)
        except LostValueError as problem:
            raise ExpressionFailed(expression_error(str(problem), _place(expression))) from None
        for index, key in enumerate(rest):
            if is_reference(value):
                return None if key in value else into(value, rest[index:])
            value = member(value, key)
            if value is MISSING:
                return None
        return dict(value) if is_reference(value) else None


def _misplaced(expression: Expression) -> ExpressionFailed:
    message = (
        f"the expression {expression.text[:200]!r} needs the {KEYCHAIN}, which only a worker has: "
        "it can stand in the fields, the input or the sink of a task that a worker runs, and nowhere else"
    )
    return ExpressionFailed(expression_error(message, _place(expression)))


def _place(expression: Expression) -> dict[str, Any]:
    return {"template": expression.text[:500], "line": expression.place.line, "column": expression.place.column}
