"""Values of the Plan to data: expressions evaluated, references left where a worker can load them."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from shared.contracts.references import MISSING, into, is_reference, member
from shared.engine.scope import Scope
from shared.engine.world import LostValueError
from shared.language.plan import Array, Assignment, Condition, Constant, Expression, Number, Object, Value
from shared.templates.durations import parse_duration
from shared.templates.expressions import Evaluation, EvaluationError, Template, compile_template
from shared.templates.truth import truthy

WORKER_NAMES = frozenset({"keychain"})
SINK_NAMES = WORKER_NAMES | {"result", "outcome", "output", "response", "data"}


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
        "names_in_scope": list(problem.names_in_scope)[:50],
    }
    message = f"the expression {expression.text[:200]!r} failed: {problem.message}"
    return ExpressionFailed(expression_error(message, details))


def expression_error(message: str, details: dict[str, Any] | None = None) -> dict[str, Any]:
    """Return the error object of an expression that failed."""
    return {"kind": "expression", "message": message, "retryable": False, "details": details or {}}


class Renderer:
    """Evaluates values in one scope and remembers what was undefined."""

    def __init__(
        self,
        scope: Scope,
        *,
        strict: bool = False,
        later: frozenset[str] = WORKER_NAMES,
        keep: Callable[[Any], Any] | None = None,
    ) -> None:
        self._scope = scope
        self._strict = strict
        self._later = later
        self._keep = keep
        self.warnings: list[str] = []

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

    def number(self, number: Number | None, name: str, *, whole: bool = False) -> float:
        """Return the number that a rule's option states; a text such as '2m' is a duration."""
        if isinstance(number, int | float):
            return number
        if number is None:
            raise ExpressionFailed(expression_error(f"{name} is missing"))
        found = self._expression(number)
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
        return truthy(self._evaluation(condition.expression).value)

    def patches(self, assignments: tuple[Assignment, ...]) -> dict[str, dict[str, Any]]:
        """Return what assignments write, evaluated; all of them read the state before any of them."""
        out: dict[str, dict[str, Any]] = {}
        for item in assignments:
            value = self.value(item.value)
            out.setdefault(item.target, {})[".".join(item.path)] = self._keep(value) if self._keep else value
        return out

    def _expression(self, expression: Expression) -> Any:
        template = compile_template(expression.text)
        if not self._later.isdisjoint(template.names):
            return self._deferred(template, expression)
        if template.pure_path is not None:
            reference = self._reference(template.pure_path, expression)
            if reference is not None:
                return reference
        found = self._evaluation(expression)
        if self._strict and found.value is None and found.missing and template.is_expression:
            message = f"'{found.missing[0]}' is undefined, and the playbook is strict"
            raise ExpressionFailed(expression_error(message, _place(expression)))
        return found.value

    def _evaluation(self, expression: Expression) -> Evaluation:
        try:
            found = self._scope.evaluate(expression)
        except EvaluationError as problem:
            raise failed(expression, problem) from None
        except LostValueError as problem:
            raise ExpressionFailed(expression_error(str(problem), _place(expression))) from None
        self.warnings.extend(name for name in found.missing if name not in self.warnings)
        return found

    def _deferred(self, template: Template, expression: Expression) -> dict[str, Any]:
        """Return an expression for the worker to finish, with the names it needs besides the worker's own."""
        names = self._scope.bound(template, expression.dialect)
        return {"$template": expression.text, "$scope": {k: v for k, v in names.items() if k not in self._later}}

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


def _place(expression: Expression) -> dict[str, Any]:
    return {"template": expression.text[:500], "line": expression.place.line, "column": expression.place.column}
