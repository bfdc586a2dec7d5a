"""A graph of steps as one SVG file that needs nothing else."""

from __future__ import annotations

import heapq
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape

from shared.language.graph import Edge, Graph, StepNode, short
from shared.language.graph_layout import Box, Layout, lay_out

CHAR, LINE, PADDING = 7.3, 18.0, 12.0
MARGIN, SPACING = 28.0, 36.0
LABEL_ROW, MAX_LABEL_ROWS = 16.0, 12
LANE, LANES_PER_GAP = 9.0, 6
GAP = 30.0
LOOP_WIDTH, LOOP_HEIGHT = 26.0, 20.0
ENTRY_ROOM = 40.0
MAX_LOOP_LABELS = 4
MAX_TITLE = 600

STYLE = """
.redrive text{font-family:ui-monospace,Menlo,Consolas,'DejaVu Sans Mono',monospace;font-size:12px;fill:#1f2933}
.redrive .paper{fill:#ffffff}
.redrive .step rect{fill:#f5f7fa;stroke:#52606d;stroke-width:1.2}
.redrive .step .name{font-weight:bold}
.redrive .entry rect{stroke:#0b69a3;stroke-width:2.6}
.redrive .unreached rect{stroke-dasharray:6 4}
.redrive .unreached text{opacity:.65}
.redrive path{fill:none;stroke:#52606d;stroke-width:1.3}
.redrive path.failure{stroke:#ba2525;stroke-dasharray:6 4}
.redrive path.jump{stroke:#0b69a3}
.redrive .tip,.redrive .begin{fill:#52606d;stroke:none}
.redrive .tip.failure{fill:#ba2525}
.redrive .tip.jump{fill:#0b69a3}
.redrive .label{font-size:11px;stroke:#ffffff;stroke-width:4px;stroke-linejoin:round;paint-order:stroke}
.redrive .label.failure{fill:#ba2525}
.redrive .label.jump{fill:#0b69a3}
@media (prefers-color-scheme: dark){
.redrive text{fill:#e4e7eb}
.redrive .paper{fill:#15191f}
.redrive .step rect{fill:#222933;stroke:#9aa5b1}
.redrive .entry rect{stroke:#5ba4d9}
.redrive path{stroke:#9aa5b1}
.redrive path.failure{stroke:#ef7a7a}
.redrive path.jump{stroke:#5ba4d9}
.redrive .tip,.redrive .begin{fill:#9aa5b1}
.redrive .tip.failure{fill:#ef7a7a}
.redrive .tip.jump{fill:#5ba4d9}
.redrive .label{stroke:#15191f}
.redrive .label.failure{fill:#ef7a7a}
.redrive .label.jump{fill:#5ba4d9}
}
""".strip()


@dataclass(frozen=True, slots=True)
class _Way:
    """An edge with the place where it leaves its step and the row of its label."""

    edge: Edge
    port: float
    row: int


@dataclass(slots=True)
class _Drawing:
    """The graph with everything that has been measured of it."""

    graph: Graph
    layout: Layout
    boxes: Mapping[str, Box]
    ways: Sequence[_Way]
    loops: Mapping[str, Sequence[Edge]]
    depth: dict[str, int] = field(default_factory=dict)
    top: list[float] = field(default_factory=list)
    bottom: list[float] = field(default_factory=list)
    exit: list[float] = field(default_factory=list)
    lanes: dict[str, int] = field(default_factory=dict)
    left: float = 0
    right: float = 0
    height: float = 0


def as_svg(graph: Graph) -> str:
    """Return the graph as a picture: light or dark as the reader's system is, with a title for those who listen."""
    drawing = _measured(graph)
    lanes = max(drawing.lanes.values(), default=-1) + 1
    left, right = drawing.left - MARGIN, drawing.right + lanes * LANE + MARGIN
    width, height = right - left, drawing.height
    about = f"{len(graph.nodes)} steps, {sum(edge.style != 'jump' for edge in graph.edges)} arcs"
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" class="redrive" role="img" '
        f'aria-labelledby="redrive-title redrive-about" width="{_n(width)}" height="{_n(height)}" '
        f'viewBox="{_n(left)} 0 {_n(width)} {_n(height)}">',
        f'<title id="redrive-title">{_text(f"Steps of playbook {graph.name}")}</title>',
        f'<desc id="redrive-about">{_text(about)}</desc>',
        f"<style>{STYLE}</style>",
        f'<rect class="paper" x="{_n(left)}" y="0" width="{_n(width)}" height="{_n(height)}"/>',
        *(_way(way, drawing) for way in drawing.ways),
        *(line for node in graph.nodes for line in _node(node, drawing)),
        *(_way_label(way, drawing) for way in drawing.ways if way.edge.label),
        "</svg>",
    ]
    return "\n".join(out)


def _measured(graph: Graph) -> _Drawing:
    loops: dict[str, list[Edge]] = {}
    outgoing: dict[str, list[Edge]] = {node.name: [] for node in graph.nodes}
    for edge in graph.edges:
        (loops.setdefault(edge.source, []) if edge.source == edge.target else outgoing[edge.source]).append(edge)
    first = sorted(graph.nodes, key=lambda node: not node.entry)
    boxes = {node.name: _box(node, outgoing[node.name], loops.get(node.name, ())) for node in first}
    ways = {node.name: list(dict.fromkeys(edge.target for edge in outgoing[node.name])) for node in first}
    layout = lay_out(ways, boxes, SPACING)
    depth = {name: index for index, layer in enumerate(layout.layers) for name in layer}
    drawing = _Drawing(graph, layout, boxes, _ways(outgoing, layout, boxes, depth), loops, depth)
    drawing.lanes = _lanes(drawing)
    _measure_layers(drawing)
    drawing.left = min((layout.x[name] - box.width / 2 - box.left for name, box in boxes.items()), default=0)
    drawing.right = max((layout.x[name] + box.width / 2 + box.right for name, box in boxes.items()), default=0)
    return drawing


def _box(node: StepNode, outgoing: Sequence[Edge], loops: Sequence[Edge]) -> Box:
    widest = max(_width(line) for line in (short(node.name), *node.lines))
    width = max(120.0, widest + 2 * PADDING)
    labels = (
        _port(index, len(outgoing), width) + _width(edge.label) - width / 2 for index, edge in enumerate(outgoing)
    )
    beside = LOOP_WIDTH + max(_width(label) for label in _loop_labels(loops)) if loops else 0.0
    return Box(width, ENTRY_ROOM if node.entry else 0.0, max(0.0, beside, *labels, 0.0))


def _port(index: int, count: int, width: float) -> float:
    """Return where the way with this number leaves a step, from the middle of its lower side."""
    return width * ((index + 1) / (count + 1) - 0.5)


def _ways(
    outgoing: Mapping[str, Sequence[Edge]], layout: Layout, boxes: Mapping[str, Box], depth: Mapping[str, int]
) -> list[_Way]:
    """Return every edge with its port: those to the next layer from left to right, then those through a lane."""
    out = []
    for name, edges in outgoing.items():
        ordered = sorted(edges, key=lambda edge: (depth[edge.target] != depth[name] + 1, layout.x[edge.target]))
        row = 0
        for index, edge in enumerate(ordered):
            port = layout.x[name] + _port(index, len(ordered), boxes[name].width)
            out.append(_Way(edge, port, row % MAX_LABEL_ROWS))
            row += bool(edge.label)
    return out


def _through_lane(way: _Way, depth: Mapping[str, int]) -> bool:
    return depth[way.edge.target] != depth[way.edge.source] + 1


def _lanes(drawing: _Drawing) -> dict[str, int]:
    """Give every step that is reached from afar a lane beside the picture; lanes are shared where they are free."""
    spans: dict[str, tuple[int, int]] = {}
    for way in drawing.ways:
        if _through_lane(way, drawing.depth):
            leaves, arrives = drawing.depth[way.edge.source] + 1, drawing.depth[way.edge.target]
            low, high = spans.get(way.edge.target, (arrives, arrives))
            spans[way.edge.target] = min(low, leaves), max(high, leaves)
    lanes: dict[str, int] = {}
    busy: list[tuple[int, int]] = []
    free: list[int] = []
    for target, (low, high) in sorted(spans.items(), key=lambda item: item[1]):
        while busy and busy[0][0] < low:
            heapq.heappush(free, heapq.heappop(busy)[1])
        lane = heapq.heappop(free) if free else len(busy)
        lanes[target] = lane
        heapq.heappush(busy, (high, lane))
    return lanes


def _measure_layers(drawing: _Drawing) -> None:
    """Say where every layer begins and ends, with room below it for labels and for lines to and from the lanes."""
    layers = drawing.layout.layers
    rows = [0] * len(layers)
    for way in drawing.ways:
        if way.edge.label:
            depth = drawing.depth[way.edge.source]
            rows[depth] = max(rows[depth], way.row + 1)
    nodes = {node.name: node for node in drawing.graph.nodes}
    lane_room = LANE * min(LANES_PER_GAP, len(set(drawing.lanes.values())))
    y = MARGIN + lane_room
    for index, layer in enumerate(layers):
        tallest = max(_height(nodes[name], drawing.loops.get(name, ())) for name in layer)
        drawing.top.append(y)
        drawing.bottom.append(y + tallest)
        drawing.exit.append(y + tallest + 8 + rows[index] * LABEL_ROW)
        y = drawing.exit[-1] + GAP + 2 * lane_room
    drawing.height = (drawing.exit[-1] + lane_room if layers else 0) + MARGIN


def _height(node: StepNode, loops: Sequence[Edge]) -> float:
    lines = max(1 + len(node.lines), len(_loop_labels(loops)))
    return lines * LINE + PADDING


def _way(way: _Way, drawing: _Drawing) -> str:
    edge, depth = way.edge, drawing.depth
    x, leaves = drawing.layout.x[edge.target], drawing.exit[depth[edge.source]]
    start = drawing.bottom[depth[edge.source]]
    end = drawing.top[depth[edge.target]]
    stop = end - 7
    if _through_lane(way, depth):
        lane = drawing.lanes[edge.target]
        shift = (lane % LANES_PER_GAP) * LANE
        beside = drawing.right + (lane + 1) * LANE
        line = f"V{_n(leaves + shift)}H{_n(beside)}V{_n(end - 14 - shift)}H{_n(x)}V{_n(stop)}"
    else:
        middle = (leaves + stop) / 2
        curve = f"{_n(way.port)} {_n(middle)} {_n(x)} {_n(middle)} {_n(x)} {_n(stop)}"
        line = f"V{_n(leaves)}C{curve}"
    title = f"{edge.source} → {edge.target}" + (f" when {edge.guard}" if edge.guard else "")
    tip = f'<polygon class="tip {edge.style}" points="{_tip(x, end)}"/>'
    path = f'<path class="{edge.style}" d="M{_n(way.port)} {_n(start)}{line}"/>'
    return f"<g><title>{_text(title[:MAX_TITLE])}</title>{path}{tip}</g>"


def _way_label(way: _Way, drawing: _Drawing) -> str:
    y = drawing.bottom[drawing.depth[way.edge.source]] + 14 + way.row * LABEL_ROW
    return _label(way.edge, way.port + 4, y)


def _node(node: StepNode, drawing: _Drawing) -> Iterator[str]:
    layer = drawing.depth[node.name]
    width = drawing.boxes[node.name].width
    left, top = drawing.layout.x[node.name] - width / 2, drawing.top[layer]
    height = drawing.bottom[layer] - top
    marks = "step" + (" entry" if node.entry else "") + ("" if node.reached else " unreached")
    notes = "".join(f", {note}" for note, holds in (("entry", node.entry), ("unreachable", not node.reached)) if holds)
    yield f'<g class="{marks}"><title>{_text(f"step {node.name}{notes}")}</title>'
    yield f'<rect x="{_n(left)}" y="{_n(top)}" width="{_n(width)}" height="{_n(height)}" rx="6"/>'
    for index, line in enumerate((short(node.name), *node.lines)):
        name = ' class="name"' if index == 0 else ""
        yield f'<text{name} x="{_n(left + PADDING)}" y="{_n(top + 20 + index * LINE)}">{_text(line)}</text>'
    yield "</g>"
    if node.entry:
        yield from _begin(left, top + LINE)
    if node.name in drawing.loops:
        yield from _loop(drawing.loops[node.name], left + width, top)


def _begin(left: float, y: float) -> Iterator[str]:
    yield f'<circle class="begin" cx="{_n(left - 30)}" cy="{_n(y)}" r="5"/>'
    yield f'<path class="arc" d="M{_n(left - 25)} {_n(y)}H{_n(left - 7)}"/>'
    yield f'<polygon class="tip arc" points="{_side_tip(left, y, -8)}"/>'


def _loop(edges: Sequence[Edge], x: float, top: float) -> Iterator[str]:
    """Draw one line from a step back to itself, with what takes it written beside."""
    high, low = top + 8, top + 8 + LOOP_HEIGHT
    style = edges[0].style
    title = "\n".join(edge.label or "again" for edge in edges)
    out = x + LOOP_WIDTH - 8
    yield f"<g><title>{_text(title[:MAX_TITLE])}</title>"
    yield f'<path class="{style}" d="M{_n(x)} {_n(low)}H{_n(out)}V{_n(high)}H{_n(x + 7)}"/>'
    yield f'<polygon class="tip {style}" points="{_side_tip(x, high, 8)}"/>'
    yield "</g>"
    for index, label in enumerate(_loop_labels(edges)):
        yield _label(Edge("", "", label, "", style), x + LOOP_WIDTH, top + 15 + index * LINE)


def _loop_labels(edges: Sequence[Edge]) -> list[str]:
    labels = [edge.label or "again" for edge in edges]
    rest = len(labels) - MAX_LOOP_LABELS
    return labels if rest <= 0 else [*labels[:MAX_LOOP_LABELS], f"+ {rest} more"]


def _label(edge: Edge, x: float, y: float) -> str:
    return f'<text class="label {edge.style}" x="{_n(x)}" y="{_n(y)}">{_text(edge.label)}</text>'


def _tip(x: float, y: float) -> str:
    return f"{_n(x)},{_n(y)} {_n(x - 4)},{_n(y - 8)} {_n(x + 4)},{_n(y - 8)}"


def _side_tip(x: float, y: float, length: float) -> str:
    return f"{_n(x)},{_n(y)} {_n(x + length)},{_n(y - 4)} {_n(x + length)},{_n(y + 4)}"


def _width(text: str) -> float:
    wide = sum(unicodedata.east_asian_width(char) in "WF" for char in text)
    return CHAR * (len(text) + wide)


def _n(number: float) -> str:
    return f"{number:.1f}".removesuffix(".0")


def _text(text: str) -> str:
    """Return a text that is safe in XML: escaped, and without the characters XML cannot hold."""
    kept = "".join(char for char in text if char.isprintable() or char == "\n")
    return escape(kept.replace("\ufffe", "").replace("\uffff", ""))
