"""From a template's body to the steps that render its text."""

from collections.abc import Callable, Sequence
from typing import Any, Final

from jinja2 import nodes

from shared.templates.access import Namespace
from shared.templates.loops import Loop
from shared.templates.macros import Macro
from shared.templates.operations import Code, Expressions
from shared.templates.plain import to_text
from shared.templates.problems import OperationError
from shared.templates.run import Run
from shared.templates.sequences import elements
from shared.templates.syntax import TAGS, Source

Step = Callable[[Run], None]
Assign = Callable[[Run, object], None]


def text_program(source: Source, tree: nodes.Template, bound: frozenset[str]) -> Code:
    """Give the closure that renders a whole template to text."""
    body = Statements(source, bound).block(tree.body)

    def render(run: Run) -> str:
        run.frames.append({})
        return run.capture(body)

    return render


class Statements:
    """Turn the statements of one template into steps."""

    def __init__(self, source: Source, bound: frozenset[str]) -> None:
        self.source = source
        self.expressions = Expressions(source, bound)

    def block(self, body: Sequence[nodes.Node]) -> Step:
        """Give the step that does several statements one after the other."""
        steps = [self._step(node) for node in body]
        if len(steps) == 1:
            return steps[0]

        def run_all(run: Run) -> None:
            for step in steps:
                step(run)

        return run_all

    def output(self, node: nodes.Output) -> Step:
        pieces = [self._piece(child) for child in node.nodes]

        def emit_all(run: Run) -> None:
            for piece in pieces:
                run.emit(piece if isinstance(piece, str) else to_text(run, piece(run)))

        return emit_all

    def condition(self, node: nodes.If) -> Step:
        branches = [(self._code(branch.test), self.block(branch.body)) for branch in (node, *node.elif_)]
        otherwise = self.block(node.else_)

        def choose(run: Run) -> None:
            for test, body in branches:
                if test(run):
                    return body(run)
            return otherwise(run)

        return choose

    def loop(self, node: nodes.For) -> Step:
        iterable, target = self._code(node.iter), self._target(node.target)
        test = None if node.test is None else self._code(node.test)
        body, weight, levels = self._measured(node.body)
        otherwise = self.block(node.else_)

        def walk(run: Run, value: object, depth0: int) -> None:
            items = _kept(run, elements(run, value), target, test)
            if not items:
                return otherwise(run)
            loop = Loop(run, items, depth0, recurse if node.recursive else None)
            for position, item in enumerate(items):
                run.charge(weight)
                loop.index0 = position
                run.frames.append({"loop": loop})
                target(run, item)
                body(run)
                run.frames.pop()
            return None

        def recurse(run: Run, value: object, depth0: int) -> str:
            run.descend(levels)
            text = run.capture(lambda inner: walk(inner, value, depth0))
            run.ascend(levels)
            return text

        return lambda run: walk(run, iterable(run), 0)

    def assignment(self, node: nodes.Assign) -> Step:
        value, target = self._code(node.node), self._target(node.target)
        return lambda run: target(run, value(run))

    def assigned_block(self, node: nodes.AssignBlock) -> Step:
        body, target = self._scoped(node.body), self._target(node.target)
        value = self._filtered(node.filter, body)
        return lambda run: target(run, value(run))

    def filtered_block(self, node: nodes.FilterBlock) -> Step:
        value = self._filtered(node.filter, self._scoped(node.body))
        return lambda run: run.emit(to_text(run, value(run)))

    def with_block(self, node: nodes.With) -> Step:
        values = self.expressions.codes(node.values)
        targets = [self._target(target) for target in node.targets]
        body = self.block(node.body)

        def scoped(run: Run) -> None:
            found = [value(run) for value in values]
            run.frames.append({})
            for target, value in zip(targets, found, strict=True):
                target(run, value)
            body(run)
            run.frames.pop()

        return scoped

    def macro(self, node: nodes.Macro) -> Step:
        defaults = self.expressions.codes(node.defaults)
        body, weight, levels = self._measured(node.body)
        parameters = tuple(argument.name for argument in node.args)

        def define(run: Run) -> None:
            frames = list(run.frames)
            run.frames[-1][node.name] = Macro(node.name, parameters, defaults, body, frames, weight, levels)

        return define

    def _step(self, node: nodes.Node) -> Step:
        self.expressions.weight += 1
        compile_node = _STATEMENTS.get(type(node))
        if compile_node is None:
            tag = _TAG_NAMES.get(type(node), type(node).__name__.lower())
            raise self.source.problem(
                f"'{tag}' cannot be used in a playbook", node.lineno, tag, f"available are {', '.join(TAGS)}"
            )
        return compile_node(self, node)

    def _code(self, node: nodes.Node) -> Code:
        return self.expressions.code(node)

    def _piece(self, node: nodes.Node) -> str | Code:
        return node.data if isinstance(node, nodes.TemplateData) else self._code(node)

    def _measured(self, body: Sequence[nodes.Node]) -> tuple[Step, int, int]:
        """Give a block, how much one pass of it costs, and how deep it nests."""
        before = self.expressions.weight
        step = self.block(body)
        return step, 1 + self.expressions.weight - before, 2 + max(map(_depth, body), default=0)

    def _scoped(self, body: Sequence[nodes.Node]) -> Code:
        step = self.block(body)

        def capture(run: Run) -> object:
            run.frames.append({})
            text = run.capture(step)
            run.frames.pop()
            return text

        return capture

    def _filtered(self, node: nodes.Filter | None, value: Code) -> Code:
        if node is None:
            return value
        inner = node.node if isinstance(node.node, nodes.Filter) else None
        return self.expressions.filter(node, self._filtered(inner, value))

    def _target(self, node: nodes.Node) -> Assign:
        match node:
            case nodes.Name():
                return _assign_name(node.name)
            case nodes.Tuple():
                return _assign_all([self._target(item) for item in node.items])
            case nodes.NSRef():
                namespace = self._code(nodes.Name(node.name, "load", lineno=node.lineno))
                return _assign_member(namespace, node.attr)
            case _:
                raise self.source.problem("this cannot be assigned to", node.lineno)


_STATEMENTS: Final[dict[type[nodes.Node], Callable[[Statements, Any], Step]]] = {
    nodes.Output: Statements.output,
    nodes.If: Statements.condition,
    nodes.For: Statements.loop,
    nodes.Assign: Statements.assignment,
    nodes.AssignBlock: Statements.assigned_block,
    nodes.FilterBlock: Statements.filtered_block,
    nodes.With: Statements.with_block,
    nodes.Macro: Statements.macro,
}
_TAG_NAMES: Final[dict[type[nodes.Node], str]] = {
    nodes.FromImport: "from",
    nodes.CallBlock: "call",
    nodes.Scope: "autoescape",
}


def _kept(run: Run, items: Sequence[object], target: Assign, test: Code | None) -> Sequence[object]:
    if test is None:
        return items
    kept: list[object] = []
    for item in items:
        run.charge(1)
        run.frames.append({})
        target(run, item)
        if test(run):
            kept.append(item)
        run.frames.pop()
    return kept


def _assign_name(name: str) -> Assign:
    def assign(run: Run, value: object) -> None:
        run.frames[-1][name] = value

    return assign


def _assign_all(targets: list[Assign]) -> Assign:
    def assign(run: Run, value: object) -> None:
        items = elements(run, value)
        if len(items) != len(targets):
            raise OperationError("value", f"{len(items)} values cannot be assigned to {len(targets)} names")
        for target, item in zip(targets, items, strict=True):
            target(run, item)

    return assign


def _assign_member(namespace: Code, attribute: str) -> Assign:
    def assign(run: Run, value: object) -> None:
        found = namespace(run)
        if not isinstance(found, Namespace):
            raise OperationError("type", f"only a namespace() has members to set, such as '{attribute}'")
        found[attribute] = value

    return assign


def _depth(node: nodes.Node) -> int:
    return 1 + max(map(_depth, node.iter_child_nodes()), default=0)
