"""Templates of the playbook language: compile a text once, evaluate it on many scopes.

A text that is exactly one `{{ … }}` gives a value of its own type; every other text gives text, in which null
and undefined are empty, lists and mappings are JSON, and everything else is what Python's str() says.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache

from jinja2 import nodes

from shared.templates.access import MISSING, Listed, follow, look_up
from shared.templates.analysis import Condition, Readings, bound_names, condition_of, path_of
from shared.templates.limits import CACHED_TEMPLATES, MAX_CACHED_SOURCE
from shared.templates.names import Path, dotted
from shared.templates.operations import Code, Expressions
from shared.templates.plain import Budget, to_plain
from shared.templates.problems import EvaluationError, OperationError, Reason, TemplateSyntaxProblem
from shared.templates.run import NO_HELPERS, Helpers, Run
from shared.templates.statements import text_program
from shared.templates.syntax import Source, parse
from shared.templates.truth import truthy

__all__ = [
    "MISSING",
    "NO_HELPERS",
    "Condition",
    "Evaluation",
    "EvaluationError",
    "Helpers",
    "Listed",
    "Path",
    "Template",
    "TemplateSyntaxProblem",
    "compile_template",
    "look_up",
]

_FAILURES = (TypeError, ValueError, ArithmeticError, LookupError, AttributeError, RecursionError, MemoryError)


@dataclass(frozen=True, slots=True)
class Evaluation:
    """A value of plain JSON data, and the dotted names that were undefined where they were used.

    The value may share lists and mappings with the scope; treat both as read-only.
    """

    value: object
    missing: tuple[str, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Template:
    """A compiled template; immutable, and safe to share between threads."""

    text: str
    is_constant: bool
    is_expression: bool
    names: frozenset[str]
    reads: tuple[Path, ...]
    functions: frozenset[str]
    pure_path: Path | None
    condition: Condition | None
    _code: Code

    def evaluate(self, scope: Mapping[str, object], helpers: Helpers = NO_HELPERS) -> Evaluation:
        """Evaluate on a scope; the same scope and helpers give the same value. Raises EvaluationError."""
        if self.is_constant:
            return Evaluation(self.text, ())
        run = Run(scope, helpers)
        try:
            if self.pure_path is not None:
                value = follow(scope, self.pure_path)
                if value is MISSING:
                    return Evaluation(None, (dotted(self.pure_path),))
            else:
                value = self._code(run)
            plain = to_plain(value, Budget())
        except OperationError as error:
            raise self._failed(run, error.reason, error.message) from None
        except _FAILURES as error:
            raise self._failed(run, _reason(error), _message(error)) from error
        return Evaluation(plain, tuple(run.missing))

    def _failed(self, run: Run, reason: Reason, message: str) -> EvaluationError:
        names = tuple(sorted(str(name) for name in run.scope))
        return EvaluationError(message, self.text, run.line, reason, names)


def compile_template(text: str) -> Template:
    """Compile a text, or give the template compiled from it before. Raises TemplateSyntaxProblem."""
    text = str.__str__(text)  # a subclass may call different texts equal, the cache must not
    return _compile_cached(text) if len(text) <= MAX_CACHED_SOURCE else _compile(text)


def _compile(text: str) -> Template:
    if "{{" not in text and "{%" not in text and "{#" not in text:
        return _constant(text)
    source = Source(text)
    tree = parse(source)
    expression = _sole_expression(tree)
    if expression is None:
        code = text_program(source, tree, bound_names(tree))
        return _template(text, code, tree)
    code = Expressions(source, frozenset()).code(expression)
    return _template(text, code, expression, is_expression=True)


_compile_cached: Callable[[str], Template] = lru_cache(maxsize=CACHED_TEMPLATES)(_compile)


def _constant(text: str) -> Template:
    return Template(
        text=text,
        is_constant=True,
        is_expression=False,
        names=frozenset(),
        reads=(),
        functions=frozenset(),
        pure_path=None,
        condition="always" if truthy(text) else "never",
        _code=lambda run: text,
    )


def _template(text: str, code: Code, node: nodes.Node, is_expression: bool = False) -> Template:
    readings = Readings()
    readings.visit(node, set())
    return Template(
        text=text,
        is_constant=False,
        is_expression=is_expression,
        names=frozenset(str(path[0]) for path in readings.paths),
        reads=tuple(sorted(readings.paths, key=_sortable)),
        functions=frozenset(readings.functions),
        pure_path=path_of(node) if is_expression else None,
        condition=condition_of(node) if isinstance(node, nodes.Expr) else None,
        _code=code,
    )


def _sortable(path: Path) -> tuple[tuple[bool, str | int], ...]:
    return tuple((isinstance(key, str), key) for key in path)


def _sole_expression(tree: nodes.Template) -> nodes.Expr | None:
    """Give the expression of a template that is one `{{ … }}` and blanks."""
    if len(tree.body) != 1 or not isinstance(tree.body[0], nodes.Output):
        return None
    pieces = tree.body[0].nodes
    inner = [piece for piece in pieces if not (isinstance(piece, nodes.TemplateData) and not piece.data.strip())]
    return inner[0] if len(inner) == 1 and not isinstance(inner[0], nodes.TemplateData) else None


def _reason(error: Exception) -> Reason:
    match error:
        case RecursionError() | MemoryError():
            return "limit"
        case TypeError() | AttributeError():
            return "type"
        case _:
            return "value"


def _message(error: Exception) -> str:
    match error:
        case RecursionError() | MemoryError():
            return "the template is too expensive: it nests too deeply"
        case ZeroDivisionError():
            return "division by zero"
        case KeyError() | IndexError():
            return "there is no such element"
        case _:
            return str(error)[:300]
