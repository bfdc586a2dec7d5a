"""Where tasks run: the pool that a playbook, a step or a task names, checked where it is written out."""

from __future__ import annotations

from shared.contracts.pools import pool_problem
from shared.language.lower.context import Lowering
from shared.language.lower.values import value_of
from shared.language.nodes import Mapping, Node, text_of
from shared.language.plan import Expression, Value


def pool_of(node: Node | None, low: Lowering) -> Value | None:
    """Return the pool that a task or a cursor names, as a name or as an expression."""
    if node is None:
        return None
    found = value_of(node, low.errors)
    if not isinstance(found, Expression):
        _check(node, low)
    return found


def playbook_pool(spec: Mapping | None, low: Lowering) -> str | None:
    """Return the pool of tasks that name none; an expression is handed down to them, for each says it anew."""
    node = spec.get("pool") if spec is not None else None
    if node is None:
        return None
    if isinstance(value_of(node, low.errors), Expression):
        low.pool = node
        return None
    _check(node, low)
    return text_of(node)


def _check(node: Node, low: Lowering) -> None:
    text = text_of(node)
    problem = None if text is None else pool_problem(text)
    if problem is not None:
        low.errors.error("pool-name", node.place, problem)
