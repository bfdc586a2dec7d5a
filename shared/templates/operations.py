"""From an expression's syntax tree to a function of one run.

Nothing becomes Python source: every node becomes a closure, and a closure can only do what is written here.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from inspect import Signature, signature
from typing import Any, Final

from jinja2 import nodes

from shared.templates.access import MISSING, member_or_undefined
from shared.templates.analysis import label_of
from shared.templates.calls import call_method, call_object
from shared.templates.checks import CHECKS
from shared.templates.filters import FILTERS
from shared.templates.functions import FUNCTIONS
from shared.templates.limits import MAX_INT_BITS
from shared.templates.operators import COMPARISONS, affirm, arithmetic, concat, negate
from shared.templates.problems import OperationError
from shared.templates.run import Run
from shared.templates.sequences import slice_of
from shared.templates.syntax import Source
from shared.templates.undefined import Undefined

Code = Callable[[Run], object]
_MAX_CONSTANT_KEY: Final = 200
Arguments = Callable[[Run], tuple[tuple[object, ...], dict[str, object]]]
_APPLYING: Final[dict[str, tuple[int, Mapping[str, object], str]]] = {
    "map": (0, FILTERS, "filter"),
    "select": (0, CHECKS, "test"),
    "reject": (0, CHECKS, "test"),
    "selectattr": (1, CHECKS, "test"),
    "rejectattr": (1, CHECKS, "test"),
}


class Expressions:
    """Turn expressions of one template into closures."""

    def __init__(self, source: Source, bound: frozenset[str]) -> None:
        self.source = source
        self.bound = bound
        self.line = 1
        self.weight = 0

    def code(self, node: nodes.Node) -> Code:
        """Give the closure that evaluates a node; it notes the line where the line changes."""
        self.weight += 1
        compile_node = _EXPRESSIONS.get(type(node))
        if compile_node is None:
            raise self.source.problem(f"{type(node).__name__} is not available in expressions", node.lineno)
        outer = self.line
        self.line = node.lineno or outer
        code = compile_node(self, node)
        inner, self.line = self.line, outer
        return code if inner == outer else _at_line(code, inner)

    def codes(self, children: Sequence[nodes.Node]) -> tuple[Code, ...]:
        """Give the closures of several nodes."""
        return tuple(self.code(child) for child in children)

    def filter(self, node: nodes.Filter, subject: Code) -> Code:
        """Give the closure that applies a filter to what another one gives."""
        apply = FILTERS.get(node.name)
        if apply is None:
            self.source.unknown("filter", node.name, node.lineno, FILTERS)
        self._check_applied(node)
        return self._applied("filter", apply, node, subject)

    def constant(self, node: nodes.Const) -> Code:
        value = node.value
        if isinstance(value, int) and value.bit_length() > MAX_INT_BITS:
            raise self.source.problem("this whole number is too large", node.lineno)
        return lambda run: value

    def name(self, node: nodes.Name) -> Code:
        name = node.name

        def read(run: Run) -> object:
            found = run.scope.get(name, MISSING)
            return run.undefined(name) if found is MISSING else found

        def read_bound(run: Run) -> object:
            for frame in reversed(run.frames):
                if name in frame:
                    return frame[name]
            return read(run)

        return read_bound if name in self.bound else read

    def attribute(self, node: nodes.Getattr) -> Code:
        return self._member(node.node, node.attr)

    def item(self, node: nodes.Getitem) -> Code:
        if isinstance(node.arg, nodes.Const) and len(str(node.arg.value)) <= _MAX_CONSTANT_KEY:
            return self._member(node.node, node.arg.value)
        base, label = self.code(node.node), label_of(node.node)
        if isinstance(node.arg, nodes.Slice):
            parts = [part and self.code(part) for part in (node.arg.start, node.arg.stop, node.arg.step)]
            return lambda run: slice_of(run, base(run), [part and part(run) for part in parts])
        key = self.code(node.arg)
        return lambda run: member_or_undefined(run, base(run), key(run), label)

    def both(self, node: nodes.And) -> Code:
        left, right = self.code(node.left), self.code(node.right)
        return lambda run: left(run) and right(run)

    def either(self, node: nodes.Or) -> Code:
        left, right = self.code(node.left), self.code(node.right)
        return lambda run: left(run) or right(run)

    def negation(self, node: nodes.Not) -> Code:
        inner = self.code(node.node)
        return lambda run: not inner(run)

    def choice(self, node: nodes.CondExpr) -> Code:
        test, chosen = self.code(node.test), self.code(node.expr1)
        other: Code = self.code(node.expr2) if node.expr2 is not None else lambda run: run.undefined("")
        return lambda run: chosen(run) if test(run) else other(run)

    def comparison(self, node: nodes.Compare) -> Code:
        left = self.code(node.expr)
        operands = [(COMPARISONS[operand.op], self._operand(operand)) for operand in node.ops]
        if len(operands) == 1:
            compare, right = operands[0]
            return lambda run: compare(run, left(run), right(run))

        def chain(run: Run) -> object:
            value = left(run)
            for compare, right in operands:
                other = right(run)
                if not compare(run, value, other):
                    return False
                value = other
            return True

        return chain

    def binary(self, node: nodes.BinExpr) -> Code:
        apply = arithmetic(node.operator)
        left, right = self.code(node.left), self.code(node.right)
        return lambda run: apply(run, left(run), right(run))

    def negative(self, node: nodes.Neg) -> Code:
        inner = self.code(node.node)
        return lambda run: negate(inner(run))

    def positive(self, node: nodes.Pos) -> Code:
        inner = self.code(node.node)
        return lambda run: affirm(inner(run))

    def concatenation(self, node: nodes.Concat) -> Code:
        parts = self.codes(node.nodes)
        return lambda run: concat(run, [part(run) for part in parts])

    def sequence(self, node: nodes.List) -> Code:
        parts = self.codes(node.items)
        return lambda run: [part(run) for part in parts]

    def tuple(self, node: nodes.Tuple) -> Code:
        parts = self.codes(node.items)
        return lambda run: tuple([part(run) for part in parts])

    def mapping(self, node: nodes.Dict) -> Code:
        pairs = [(self.code(pair.key), self.code(pair.value)) for pair in node.items]
        return lambda run: {_key(key(run)): value(run) for key, value in pairs}

    def filtered(self, node: nodes.Filter) -> Code:
        if node.node is None:
            raise self.source.problem("a filter needs a value", node.lineno)
        return self.filter(node, self.code(node.node))

    def check(self, node: nodes.Test) -> Code:
        check = CHECKS.get(node.name)
        if check is None:
            self.source.unknown("test", node.name, node.lineno, CHECKS)
        return self._applied("test", check, node, self.code(node.node))

    def call(self, node: nodes.Call) -> Code:
        arguments = self._arguments(node)
        callee = node.node
        if isinstance(callee, nodes.Name):
            return self._call_name(callee, node, arguments)
        name = _method_name(callee)
        if name is None:
            raise self.source.problem("only functions and methods can be called", node.lineno)
        base, label = self.code(callee.node), label_of(callee.node)  # type: ignore[attr-defined]

        def call(run: Run) -> object:
            value = base(run)
            args, kwargs = arguments(run)
            return call_method(run, value, name, args, kwargs, label)

        return call

    def _call_name(self, callee: nodes.Name, node: nodes.Call, arguments: Arguments) -> Code:
        if callee.name in self.bound:
            value = self.code(callee)
            return lambda run: call_object(run, value(run), *arguments(run), callee.name)
        function = FUNCTIONS.get(callee.name)
        if function is None:
            self.source.unknown("function", callee.name, node.lineno, FUNCTIONS)
        self._check_arguments("function", callee.name, function, node, given=1)

        def call(run: Run) -> object:
            run.charge(1)
            args, kwargs = arguments(run)
            return function(run, *args, **kwargs)

        return call

    def _member(self, base_node: nodes.Node, key: object) -> Code:
        base, label = self.code(base_node), label_of(base_node)

        def read(run: Run) -> object:
            value = base(run)
            if type(value) is dict:
                found: object = value.get(key, MISSING)
                if found is not MISSING:
                    return found
            return member_or_undefined(run, value, key, label)

        return read

    def _operand(self, operand: nodes.Operand) -> Code:
        """Give the right side of a comparison; a list of constants after `in` is made once."""
        if operand.op in ("in", "notin") and isinstance(operand.expr, nodes.List | nodes.Tuple):
            self.codes(operand.expr.items)
            if all(isinstance(item, nodes.Const) for item in operand.expr.items):
                constants = tuple([item.value for item in operand.expr.items])  # type: ignore[attr-defined]
                return lambda run: constants
        return self.code(operand.expr)

    def _applied(self, what: str, apply: Callable[..., object], node: nodes.Filter | nodes.Test, subject: Code) -> Code:
        arguments = self._arguments(node)
        self._check_arguments(what, node.name, apply, node, given=2)

        def run_it(run: Run) -> object:
            run.charge(1)
            value = subject(run)
            args, kwargs = arguments(run)
            return apply(run, value, *args, **kwargs)

        def run_plainly(run: Run) -> object:
            run.charge(1)
            return apply(run, subject(run))

        return run_it if node.args or node.kwargs else run_plainly

    def _arguments(self, node: nodes.Call | nodes.Filter | nodes.Test) -> Arguments:
        if node.dyn_args is not None or node.dyn_kwargs is not None:
            raise self.source.problem("arguments cannot be unpacked with * or **", node.lineno, "*")
        args = self.codes(node.args)
        kwargs = [(str(pair.key), self.code(pair.value)) for pair in node.kwargs]
        if not kwargs:
            return lambda run: (tuple([arg(run) for arg in args]), {})
        return lambda run: (tuple([arg(run) for arg in args]), {key: value(run) for key, value in kwargs})

    def _check_arguments(
        self, what: str, name: str, function: Callable[..., object], node: nodes.Expr, given: int
    ) -> None:
        count = given + len(node.args)  # type: ignore[attr-defined]
        keywords = [str(pair.key) for pair in node.kwargs]  # type: ignore[attr-defined]
        if len(set(keywords)) != len(keywords):
            raise self.source.problem(f"{what} '{name}': a name is given twice", node.lineno, name)
        try:
            _signature(function).bind(*range(count), **dict.fromkeys(keywords))
        except TypeError as error:
            raise self.source.problem(f"{what} '{name}': {error}", node.lineno, name) from None

    def _check_applied(self, node: nodes.Filter) -> None:
        position, table, what = _APPLYING.get(node.name, (0, {}, ""))
        if what and len(node.args) > position and isinstance(node.args[position], nodes.Const):
            name = node.args[position].value  # type: ignore[attr-defined]
            if isinstance(name, str) and name not in table:
                self.source.unknown(what, name, node.lineno, table)


_EXPRESSIONS: Final[dict[type[nodes.Node], Callable[[Expressions, Any], Code]]] = {
    nodes.Const: Expressions.constant,
    nodes.Name: Expressions.name,
    nodes.Getattr: Expressions.attribute,
    nodes.Getitem: Expressions.item,
    nodes.And: Expressions.both,
    nodes.Or: Expressions.either,
    nodes.Not: Expressions.negation,
    nodes.CondExpr: Expressions.choice,
    nodes.Compare: Expressions.comparison,
    nodes.Neg: Expressions.negative,
    nodes.Pos: Expressions.positive,
    nodes.Concat: Expressions.concatenation,
    nodes.List: Expressions.sequence,
    nodes.Tuple: Expressions.tuple,
    nodes.Dict: Expressions.mapping,
    nodes.Filter: Expressions.filtered,
    nodes.Test: Expressions.check,
    nodes.Call: Expressions.call,
    **dict.fromkeys(
        (nodes.Add, nodes.Sub, nodes.Mul, nodes.Div, nodes.FloorDiv, nodes.Mod, nodes.Pow), Expressions.binary
    ),
}


@cache
def _signature(function: Callable[..., object]) -> Signature:
    return signature(function)


def _at_line(code: Code, line: int) -> Code:
    def located(run: Run) -> object:
        outer, run.line = run.line, line
        value = code(run)
        run.line = outer
        return value

    return located


def _method_name(callee: nodes.Node) -> str | None:
    match callee:
        case nodes.Getattr():
            return callee.attr
        case nodes.Getitem(arg=nodes.Const(value=str() as name)):
            return name
        case _:
            return None


def _key(key: object) -> object:
    if isinstance(key, Undefined):
        raise key.needed("a key needs a value")
    if isinstance(key, str):
        return str.__str__(key)
    if key is None or isinstance(key, int | float):
        return key
    raise OperationError("type", f"a value of type {type(key).__name__} cannot be a key")
