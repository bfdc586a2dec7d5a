"""What can be known of a template without evaluating it: the names it reads, its path, its condition."""

from collections.abc import Iterable
from typing import Literal

from jinja2 import nodes

from shared.templates.functions import FUNCTIONS
from shared.templates.names import Path, dotted, shown
from shared.templates.truth import truthy

Condition = Literal["always", "never", "on_error", "on_success"]

_STATUS_PATHS = (("outcome", "status"), ("output", "status"))
_WHEN_EQUAL: dict[object, Condition] = {"error": "on_error", "success": "on_success", "ok": "on_success"}
_WHEN_UNEQUAL: dict[object, Condition] = {"error": "on_success", "success": "on_error", "ok": "on_error"}


def path_of(node: nodes.Node) -> Path | None:
    """Give the path of a chain such as a.b['c'][0]; None for anything else."""
    match node:
        case nodes.Name():
            return (node.name,)
        case nodes.Getattr():
            base = path_of(node.node)
            return None if base is None else (*base, node.attr)
        case nodes.Getitem():
            base, key = path_of(node.node), _constant_key(node.arg)
            return None if base is None or key is None else (*base, key)
        case _:
            return None


def label_of(node: nodes.Node) -> str:
    """Name an expression for messages."""
    path = path_of(node)
    if path is not None:
        return dotted(path)
    match node:
        case nodes.Getattr():
            return f"{label_of(node.node)}.{shown(node.attr)}"
        case nodes.Getitem():
            return f"{label_of(node.node)}[…]"
        case nodes.Filter() if node.node is not None:
            return f"{label_of(node.node)} | {node.name}"
        case nodes.Call():
            return f"{label_of(node.node)}()"
        case _:
            return "(…)"


def condition_of(node: nodes.Expr) -> Condition | None:
    """Recognise the conditions that everybody writes."""
    match node:
        case nodes.Const():
            return "always" if truthy(node.value) else "never"
        case nodes.Compare(expr=left, ops=[nodes.Operand(op=op, expr=right)]) if op in ("eq", "ne"):
            if isinstance(left, nodes.Const):
                left, right = right, left
            if path_of(left) not in _STATUS_PATHS or not isinstance(right, nodes.Const):
                return None
            known = _WHEN_EQUAL if op == "eq" else _WHEN_UNEQUAL
            return known.get(right.value) if isinstance(right.value, str) else None
        case _:
            return None


def bound_names(tree: nodes.Template) -> frozenset[str]:
    """Collect every name the template itself gives a value to."""
    found = {name.name for name in tree.find_all(nodes.Name) if name.ctx != "load"}
    found.update(macro.name for macro in tree.find_all(nodes.Macro))
    if tree.find(nodes.For) is not None:
        found.add("loop")
    return frozenset(found)


class Readings:
    """Collect what a template reads of its scope and which functions it calls."""

    def __init__(self) -> None:
        self.paths: set[Path] = set()
        self.functions: set[str] = set()

    def visit(self, node: nodes.Node, local: set[str]) -> None:
        """Collect from a node, given the names that are local there; assignments add to these."""
        match node:
            case nodes.Name() | nodes.Getattr() | nodes.Getitem():
                self._chain(node, local)
            case nodes.Call():
                self._call(node, local)
            case nodes.For():
                self._for(node, local)
            case nodes.Assign():
                self.visit(node.node, local)
                local |= _targets(node.target)
            case nodes.AssignBlock():
                self._all(node.iter_child_nodes(exclude=("target",)), set(local))
                local |= _targets(node.target)
            case nodes.If():
                self.visit(node.test, local)
                for branch in (node.body, node.elif_, node.else_):
                    self._all(branch, set(local))
            case nodes.With():
                self._all(node.values, local)
                self._all(node.body, local.union(*map(_targets, node.targets)))
            case nodes.Macro():
                local.add(node.name)
                self._all(node.defaults, local)
                self._all(node.body, local.union(*map(_targets, node.args)))
            case nodes.FilterBlock():
                self._all(node.iter_child_nodes(), set(local))
            case _:
                self._all(node.iter_child_nodes(), local)

    def _all(self, children: Iterable[nodes.Node], local: set[str]) -> None:
        for child in children:
            self.visit(child, local)

    def _chain(self, node: nodes.Node, local: set[str]) -> None:
        path = path_of(node)
        if path is None:
            self._all(node.iter_child_nodes(), local)
        elif path[0] not in local:
            self.paths.add(path)

    def _call(self, node: nodes.Call, local: set[str]) -> None:
        callee = node.node
        if isinstance(callee, nodes.Name):
            if callee.name not in local and callee.name in FUNCTIONS:
                self.functions.add(callee.name)
        elif isinstance(callee, nodes.Getattr | nodes.Getitem):
            self.visit(callee.node, local)
        self._all(node.iter_child_nodes(exclude=("node",)), local)

    def _for(self, node: nodes.For, local: set[str]) -> None:
        self.visit(node.iter, local)
        inside = local | _targets(node.target)
        if node.test is not None:
            self.visit(node.test, inside)
        self._all(node.body, inside | {"loop"})
        self._all(node.else_, set(local))


def _constant_key(node: nodes.Node) -> str | int | None:
    match node:
        case nodes.Const(value=str() | int() as key) if not isinstance(key, bool):
            return key
        case nodes.Neg(node=nodes.Const(value=int() as number)) if not isinstance(number, bool):
            return -number
        case _:
            return None


def _targets(node: nodes.Node) -> set[str]:
    if isinstance(node, nodes.Name):
        return {node.name}
    return {name.name for name in node.find_all(nodes.Name)}
