"""The steps of a Plan as a graph of nodes and edges, and that graph as Mermaid text or JSON."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Literal, TypeAlias

from shared.language.lint.reach import reachable
from shared.language.plan import (
    Admission,
    Arc,
    Condition,
    Join,
    Jump,
    Loop,
    Number,
    Plan,
    Repeat,
    Retry,
    Step,
    Task,
)

MAX_LABEL = 40
MAX_TASKS_SHOWN = 6

EdgeStyle: TypeAlias = Literal["arc", "failure", "jump"]


@dataclass(frozen=True, slots=True)
class StepNode:
    """A step: its name, a line for each thing worth knowing of it, and how it is marked."""

    name: str
    lines: tuple[str, ...] = ()
    entry: bool = False
    reached: bool = True


@dataclass(frozen=True, slots=True)
class Edge:
    """A way from step to step, or a jump inside one; the label is short, the guard is whole."""

    source: str
    target: str
    label: str = ""
    guard: str = ""
    style: EdgeStyle = "arc"


@dataclass(frozen=True, slots=True)
class Graph:
    """What there is to draw of a playbook."""

    name: str
    nodes: tuple[StepNode, ...]
    edges: tuple[Edge, ...]


def graph_of(plan: Plan) -> Graph:
    """Return the steps of a Plan, their arcs and the jumps inside them."""
    reached = reachable(plan)
    nodes = tuple(
        StepNode(step.name, tuple(_lines(step)), step.name == plan.entry, step.name in reached) for step in plan.steps
    )
    edges = tuple(edge for step in plan.steps for edge in (*_jumps(step), *_arcs(step)))
    return Graph(plan.name, nodes, edges)


def as_json(graph: Graph) -> dict[str, object]:
    """Return the graph as plain data."""
    return asdict(graph)


def as_mermaid(graph: Graph) -> str:
    """Return the graph as a Mermaid flowchart that no text of the playbook can break out of."""
    ids = {node.name: f"s{index}" for index, node in enumerate(graph.nodes)}
    out = ["---", f"title: {_quoted(graph.name)}", "---", "flowchart TD"]
    out += [_mermaid_node(node, ids[node.name]) for node in graph.nodes]
    out += [f"  begin(( )) --> {ids[node.name]}" for node in graph.nodes if node.entry]
    out += [_mermaid_edge(edge, ids) for edge in graph.edges]
    out.append("  classDef entry stroke-width:3px")
    out.append("  classDef unreached stroke-dasharray:5 4,opacity:0.7")
    return "\n".join(out)


def short(text: str, limit: int = MAX_LABEL) -> str:
    """Return a text on one line, cut where it is too long for a label."""
    line = " ".join(text.split())
    return line if len(line) <= limit else f"{line[: limit - 1]}…"


def _lines(step: Step) -> Iterator[str]:
    if step.admit:
        yield f"when {short(_admitted(step.admit))}"
    if step.loop is not None:
        yield _loop_line(step.loop)
    for task in step.tasks[:MAX_TASKS_SHOWN]:
        yield _task_line(step, task)
    if len(step.tasks) > MAX_TASKS_SHOWN:
        yield f"+ {len(step.tasks) - MAX_TASKS_SHOWN} more tasks"
    if step.join.mode != "merge":
        yield _join_line(step.join)
    if step.next.mode == "inclusive" and len(step.next.arcs) > 1:
        yield "then all that match"


def _admitted(rules: tuple[Admission, ...]) -> str:
    return _guard(next((rule.when for rule in rules if rule.allow), rules[0].when)) or "admitted"


def _loop_line(loop: Loop) -> str:
    width = "" if loop.max_in_flight is None else f", {_count(loop.max_in_flight)} at once"
    claimed = "" if loop.cursor is None else f", claimed from {loop.cursor.kind}"
    return f"⟳ {short(loop.iterator)} ({loop.mode}{width}{claimed})"


def _task_line(step: Step, task: Task) -> str:
    parts = [task.kind if len(step.tasks) == 1 and task.name == step.name else f"{short(task.name)}: {task.kind}"]
    retries = [rule.then.attempts for rule in task.rules if isinstance(rule.then, Retry)]
    if retries:
        known = [attempts for attempts in retries if isinstance(attempts, int | float)]
        parts.append(f"↻ {_count(max(known))}×" if len(known) == len(retries) else "↻")
    if any(isinstance(rule.then, Repeat) for rule in task.rules):
        parts.append("↻ pages")
    if task.sink is not None:
        parts.append(f"→ {task.sink.kind}")
    return " ".join(parts)


def _join_line(join: Join) -> str:
    of = f" of {short(', '.join(join.of))}" if join.of else ""
    return f"join {join.count if join.mode == 'count' else join.mode}{of}"


def _count(number: Number) -> str:
    return f"{number:g}" if isinstance(number, int | float) else "?"


def _jumps(step: Step) -> Iterator[Edge]:
    """Yield every jump between tasks of a step, once."""
    seen: set[Edge] = set()
    for task in step.tasks:
        for rule in task.rules:
            then = rule.then.on_exhausted if isinstance(rule.then, Retry) else rule.then
            if not isinstance(then, Jump):
                continue
            way = f"{short(task.name)} ↩ {short(then.to)}"
            guard = "attempts spent" if isinstance(rule.then, Retry) else _guard(rule.when)
            label = f"{way}: {short(guard)}" if guard else way
            edge = Edge(step.name, step.name, label, guard, "jump")
            if edge not in seen:
                seen.add(edge)
                yield edge


def _arcs(step: Step) -> Iterator[Edge]:
    for arc in step.next.arcs:
        guard = _guard(arc.when)
        label = "else" if arc.is_else else short(guard)
        yield Edge(step.name, arc.step, label, guard, "failure" if _on_failure(arc) else "arc")


def _on_failure(arc: Arc) -> bool:
    """Say whether an arc is there for failures: it can take one up, and does not ask for success alone."""
    if not arc.takes_failures or arc.when.on == "success":
        return False
    return bool(_FAILURE.search(arc.when.text)) or not _SUCCESS.search(arc.when.text)


_FAILURE = re.compile(r"fail|error|cancel|timeout|timed_out", re.IGNORECASE)
_SUCCESS = re.compile(r"success|complete|done|skipped|\bok\b", re.IGNORECASE)
_BRACES = re.compile(r"\s*\{\{-?\s*((?:(?!\}\}).)*?)\s*-?\}\}\s*", re.DOTALL)


def _guard(when: Condition) -> str:
    """Return what a condition asks, without the braces of a lone expression."""
    text = when.text or ("" if when.on == "any" else when.on)
    alone = _BRACES.fullmatch(text)
    return alone.group(1) if alone else text


def _mermaid_node(node: StepNode, name: str) -> str:
    marks = "".join(f":::{mark}" for mark, holds in (("entry", node.entry), ("unreached", not node.reached)) if holds)
    label = "<br/>".join(_mermaid_text(line) for line in (short(node.name), *node.lines))
    return f'  {name}["{label}"]{marks}'


def _mermaid_edge(edge: Edge, ids: dict[str, str]) -> str:
    line = "-.->" if edge.style == "failure" else "-->"
    label = f'|"{_mermaid_text(edge.label)}"|' if edge.label else ""
    return f"  {ids[edge.source]} {line}{label} {ids[edge.target]}"


def _mermaid_text(text: str) -> str:
    """Return a text in which everything that Mermaid or a browser could act on is an entity code."""
    return "".join(_mermaid_char(char) for char in text)


# Mermaid writes these in place of its entity codes while it parses.
_MERMAID_OWN = "°¶"


def _mermaid_char(char: str) -> str:
    if not char.isprintable():
        return " "
    harmless = char.isalnum() or char in " _.,-+=/()'!?" or (char > "\x7f" and char not in _MERMAID_OWN)
    return char if harmless else f"#{ord(char)};"


def _quoted(text: str) -> str:
    """Return a text as a quoted scalar of the YAML header, without a letter that Mermaid looks for."""
    return re.sub(r"[%<>`{}]", lambda found: f"\\u{ord(found.group()):04x}", json.dumps(text))
