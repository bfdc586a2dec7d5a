"""Where the steps of a graph stand when they are drawn: in layers, from the entry downwards."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TypeAlias

SWEEPS = 4

Ways: TypeAlias = Mapping[str, Sequence[str]]


@dataclass(frozen=True, slots=True)
class Box:
    """The room a node needs: its own width, and what must stay free to its left and right."""

    width: float
    left: float = 0
    right: float = 0


@dataclass(frozen=True, slots=True)
class Layout:
    """The layers from top to bottom, each from left to right, and the middle of every node."""

    layers: tuple[tuple[str, ...], ...]
    x: Mapping[str, float]


def lay_out(ways: Ways, boxes: Mapping[str, Box], spacing: float) -> Layout:
    """Place nodes so that most ways lead down, few cross and no boxes overlap; the first of `ways` is the entry."""
    forward = _without_cycles(ways)
    depth = _longest_paths(forward)
    layers: list[list[str]] = [[] for _ in range(max(depth.values(), default=-1) + 1)]
    for name in ways:
        layers[depth[name]].append(name)
    below = {name: [to for to in forward[name] if depth[to] == depth[name] + 1] for name in ways}
    above = _turned(below)
    for _ in range(SWEEPS):
        _order(layers, above)
        _order(layers[::-1], below)
    _order(layers, above)
    x = _packed(layers, boxes, spacing)
    for _ in range(SWEEPS):
        _move(layers[::-1], below, x, boxes, spacing)
        _move(layers, above, x, boxes, spacing)
    return Layout(tuple(map(tuple, layers)), x)


def _without_cycles(ways: Ways) -> dict[str, list[str]]:
    """Return the ways but those that a depth-first walk finds leading back to where it came from."""
    forward: dict[str, list[str]] = {name: [] for name in ways}
    entered: set[str] = set()
    on_path: set[str] = set()
    for root in ways:
        stack = [] if root in entered else [(root, iter(ways[root]))]
        entered.add(root)
        on_path.add(root)
        while stack:
            name, targets = stack[-1]
            target = next(targets, None)
            if target is None:
                on_path.discard(name)
                stack.pop()
            elif target not in on_path:
                forward[name].append(target)
                if target not in entered:
                    entered.add(target)
                    on_path.add(target)
                    stack.append((target, iter(ways[target])))
        on_path.clear()
    return forward


def _longest_paths(forward: Ways) -> dict[str, int]:
    """Return for every node the length of the longest way that leads to it."""
    waiting = dict.fromkeys(forward, 0)
    for targets in forward.values():
        for target in targets:
            waiting[target] += 1
    depth = dict.fromkeys(forward, 0)
    ready = [name for name, count in waiting.items() if count == 0]
    while ready:
        name = ready.pop()
        for target in forward[name]:
            depth[target] = max(depth[target], depth[name] + 1)
            waiting[target] -= 1
            if waiting[target] == 0:
                ready.append(target)
    return depth


def _turned(ways: Ways) -> dict[str, list[str]]:
    turned: dict[str, list[str]] = {name: [] for name in ways}
    for name, targets in ways.items():
        for target in targets:
            turned[target].append(name)
    return turned


def _order(layers: Sequence[list[str]], neighbours: Ways) -> None:
    """Sort each layer by where the neighbours in the layer before stand on average."""
    rank: dict[str, float] = {}
    for layer in layers:
        own = {name: float(index) for index, name in enumerate(layer)}
        layer.sort(key=lambda name: _mean([rank[other] for other in neighbours[name]], own[name]))
        rank |= {name: float(index) for index, name in enumerate(layer)}


def _mean(numbers: Sequence[float], default: float) -> float:
    return sum(numbers) / len(numbers) if numbers else default


def _packed(layers: Sequence[Sequence[str]], boxes: Mapping[str, Box], spacing: float) -> dict[str, float]:
    x: dict[str, float] = {}
    for layer in layers:
        offsets = _offsets(layer, boxes, spacing)
        x |= {name: offset - offsets[-1] / 2 for name, offset in zip(layer, offsets, strict=True)}
    return x


def _offsets(layer: Sequence[str], boxes: Mapping[str, Box], spacing: float) -> list[float]:
    """Return how far each node of a layer is at least from its first."""
    out = [0.0]
    for one, other in pairwise(layer):
        left, right = boxes[one], boxes[other]
        out.append(out[-1] + left.width / 2 + left.right + spacing + right.left + right.width / 2)
    return out


def _move(
    layers: Sequence[Sequence[str]],
    neighbours: Ways,
    x: dict[str, float],
    boxes: Mapping[str, Box],
    spacing: float,
) -> None:
    """Bring each node as near to the middle of its neighbours as those beside it allow."""
    for layer in layers:
        offsets = _offsets(layer, boxes, spacing)
        wanted = [
            _mean([x[other] for other in neighbours[name]], x[name]) - offset
            for name, offset in zip(layer, offsets, strict=True)
        ]
        for name, base, offset in zip(layer, _rising(wanted), offsets, strict=True):
            x[name] = base + offset


def _rising(wanted: Sequence[float]) -> list[float]:
    """Return the numbers that never fall and are nearest to those wanted: neighbours that clash share their mean."""
    blocks: list[tuple[float, int]] = []
    for number in wanted:
        total, count = number, 1
        while blocks and blocks[-1][0] / blocks[-1][1] > total / count:
            other, size = blocks.pop()
            total, count = total + other, count + size
        blocks.append((total, count))
    return [total / count for total, count in blocks for _ in range(count)]
