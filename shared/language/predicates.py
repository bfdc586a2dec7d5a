"""Questions about a node that decide which shape applies, each with the JSON Schema that asks the same."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from shared.language.nodes import Mapping, Node, Scalar, Sequence


@dataclass(frozen=True, slots=True)
class Predicate:
    """A question about a node, in Python and as a JSON Schema."""

    holds: Callable[[Node], bool]
    json: dict[str, Any]

    def __call__(self, node: Node) -> bool:
        """Say whether it holds for this node."""
        return self.holds(node)


def _is_number(node: Node) -> bool:
    return isinstance(node, Scalar) and isinstance(node.value, int | float) and not isinstance(node.value, bool)


is_text = Predicate(lambda node: isinstance(node, Scalar) and isinstance(node.value, str), {"type": "string"})
is_number = Predicate(_is_number, {"type": "number"})
is_scalar = Predicate(lambda node: isinstance(node, Scalar), {"type": ["string", "number", "boolean", "null"]})
is_list = Predicate(lambda node: isinstance(node, Sequence), {"type": "array"})
is_mapping = Predicate(lambda node: isinstance(node, Mapping), {"type": "object"})


def has_key(*names: str) -> Predicate:
    """Return the question whether a node is a mapping that has one of these keys."""
    return Predicate(
        lambda node: isinstance(node, Mapping) and any(entry.key in names for entry in node.entries),
        {"type": "object", "anyOf": [{"required": [name]} for name in names]},
    )
