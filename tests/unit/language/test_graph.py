"""The picture of a playbook: what is in it, and what no text of a playbook can do to it."""

import re
from itertools import pairwise
from xml.etree import ElementTree

import pytest

from shared.language.compile import compile_playbook
from shared.language.graph import Edge, Graph, StepNode, as_json, as_mermaid, graph_of
from shared.language.graph_layout import Box, lay_out
from shared.language.graph_svg import as_svg

SVG = "{http://www.w3.org/2000/svg}"
HEAD = "apiVersion: redrive.io/v1\nkind: Playbook\nmetadata: { name: drawn }\nworkflow:\n"
HOSTILE = [
    '"]; click s0 "javascript:alert(1)"',
    "<script>alert(1)</script>",
    "a|b --> s0",
    "`code` #quot; #35; &amp; %%{init: {}}%%",
    "style x:#abc;",
    "]]></title><x/>",
    "line\nbreak\x00\x1b[31m\ufffe\ud800",
    "ﬂ°°60¶ß",
]
MERMAID_LINE = re.compile(
    r'  s\d+\["([^"`;<>|\[\]{}#]|#\d+;|<br/>)*"\](:::[a-z]+)*'
    r"|  begin\(\( \)\) --> s\d+"
    r'|  s\d+ (-->|-\.->)(\|"([^"`;<>|\[\]{}#]|#\d+;)*"\|)? s\d+'
    r"|  classDef [a-z]+ [a-z0-9:., -]+"
)


def drawn(steps: str) -> Graph:
    compiled = compile_playbook(HEAD + steps)
    assert compiled.plan is not None, compiled.errors
    return graph_of(compiled.plan)


def edges(graph: Graph) -> list[tuple[str, str, str, str]]:
    return [(edge.source, edge.target, edge.label, edge.style) for edge in graph.edges]


def hostile(text: str) -> Graph:
    nodes = (StepNode("a", (text,), entry=True), StepNode(text, reached=False))
    ways = (Edge("a", text, text, text), Edge(text, text, text, text, "jump"), Edge(text, "a", text, text, "failure"))
    return Graph(text, nodes, ways)


def test_a_step_shows_its_tools_its_loop_and_its_retries() -> None:
    graph = drawn("""
  - step: fetch
    loop: { in: [1, 2], iterator: page, mode: parallel, max_in_flight: 4 }
    tool:
      - name: get
        kind: http
        url: "http://127.0.0.1"
        retry: 5
      - { name: rest, kind: noop }
""")

    assert graph.nodes[0].lines == ("⟳ page (parallel, 4 at once)", "get: http ↻ 5×", "rest: noop")


def test_arcs_carry_their_guards_and_failures_and_else_are_told_apart() -> None:
    graph = drawn("""
  - step: a
    tool: { kind: noop }
    next:
      - { step: b, when: "{{ event.name == 'step.completed' }}" }
      - { step: c, when: "{{ event.name == 'step.failed' }}" }
      - else: a
  - { step: b, tool: { kind: noop } }
  - { step: c, tool: { kind: noop } }
""")

    assert edges(graph) == [
        ("a", "b", "event.name == 'step.completed'", "arc"),
        ("a", "c", "event.name == 'step.failed'", "failure"),
        ("a", "a", "else", "arc"),
    ]


def test_a_long_guard_is_cut_in_the_label_and_whole_beside_it() -> None:
    guard = " and ".join(f"ctx.flag_{number}" for number in range(20))
    graph = drawn(f"""
  - step: a
    tool: {{ kind: noop }}
    next: [ {{ step: b, when: "{{{{ {guard} }}}}" }} ]
  - {{ step: b, tool: {{ kind: noop }} }}
""")

    (edge,) = graph.edges
    assert len(edge.label) == 40
    assert edge.label.endswith("…")
    assert edge.guard == guard


def test_a_jump_is_a_way_from_its_step_to_itself() -> None:
    graph = drawn("""
  - step: poll
    tool:
      - { name: ask, kind: http, url: "http://127.0.0.1" }
      - name: look
        kind: noop
        eval:
          - { expr: "{{ ask.pending }}", do: jump, to: ask }
          - else: { do: continue }
""")

    assert edges(graph) == [("poll", "poll", "look ↩ ask: ask.pending", "jump")]


def test_joins_and_fan_outs_are_marked() -> None:
    graph = drawn("""
  - { step: a, tool: { kind: noop }, next: [b, c] }
  - { step: b, tool: { kind: noop }, next: d }
  - { step: c, tool: { kind: noop }, next: d }
  - { step: d, tool: { kind: noop }, join: { of: [b, c], mode: all } }
""")

    assert "then all that match" in graph.nodes[0].lines
    assert "join all of b, c" in graph.nodes[3].lines


def test_the_entry_and_steps_out_of_reach_are_marked() -> None:
    graph = drawn("""
  - { step: lost, tool: { kind: noop } }
  - { step: start, tool: { kind: noop } }
""")

    assert [(node.entry, node.reached) for node in graph.nodes] == [(False, False), (True, True)]
    assert ":::entry" in as_mermaid(graph)
    assert ":::unreached" in as_mermaid(graph)
    classes = [group.get("class") for group in ElementTree.fromstring(as_svg(graph)).iter(f"{SVG}g")]
    assert classes == ["step unreached", "step entry"]


def test_mermaid_draws_failures_dashed_and_writes_else() -> None:
    nodes = (StepNode("a", entry=True), StepNode("b"))
    graph = Graph("p", nodes, (Edge("a", "b", "failed", "failed", "failure"), Edge("a", "b", "else")))

    lines = as_mermaid(graph).splitlines()

    assert '  s0 -.->|"failed"| s1' in lines
    assert '  s0 -->|"else"| s1' in lines


def test_svg_draws_failures_dashed() -> None:
    graph = Graph("p", (StepNode("a", entry=True), StepNode("b")), (Edge("a", "b", "x", "x", "failure"),))

    assert '<path class="failure"' in as_svg(graph)
    assert "path.failure{stroke:#ba2525;stroke-dasharray" in as_svg(graph)


@pytest.mark.parametrize("text", HOSTILE)
def test_no_text_breaks_out_of_mermaid(text: str) -> None:
    first, title, last, kind, *lines = as_mermaid(hostile(text)).split("\n")

    assert (first, last, kind) == ("---", "---", "flowchart TD")
    assert re.fullmatch(r'title: "[^%<>`{}\n]*"', title)
    assert [line for line in lines if not MERMAID_LINE.fullmatch(line)] == []
    assert len(lines) == 2 + 1 + 3 + 2


@pytest.mark.parametrize("text", HOSTILE)
def test_no_text_breaks_out_of_svg(text: str) -> None:
    picture = as_svg(hostile(text))

    picture.encode("utf-8")
    tags = {element.tag.removeprefix(SVG) for element in ElementTree.fromstring(picture).iter()}
    assert tags <= {"svg", "title", "desc", "style", "rect", "g", "path", "polygon", "circle", "text"}


def test_svg_has_a_title_for_those_who_listen_and_colours_for_the_dark() -> None:
    root = ElementTree.fromstring(as_svg(Graph("hello", (StepNode("a", entry=True),), ())))

    assert root.get("role") == "img"
    assert root.findtext(f"{SVG}title") == "Steps of playbook hello"
    assert "prefers-color-scheme: dark" in (root.findtext(f"{SVG}style") or "")


def test_a_playbook_without_steps_is_an_empty_picture() -> None:
    ElementTree.fromstring(as_svg(Graph("empty", (), ())))
    assert as_mermaid(Graph("empty", (), ())).count("\n") == 5


def test_plain_data_has_every_node_and_edge() -> None:
    data = as_json(Graph("p", (StepNode("a", entry=True),), (Edge("a", "a"),)))

    assert data == {
        "name": "p",
        "nodes": ({"name": "a", "lines": (), "entry": True, "reached": True},),
        "edges": ({"source": "a", "target": "a", "label": "", "guard": "", "style": "arc"},),
    }


def test_layers_follow_the_longest_way_and_cycles_are_cut() -> None:
    ways = {"a": ["b", "c"], "b": ["c"], "c": ["a", "c"], "d": ["b"]}

    layout = lay_out(ways, {name: Box(100) for name in ways}, 20)

    assert [set(layer) for layer in layout.layers] == [{"a", "d"}, {"b"}, {"c"}]


def test_ways_that_need_not_cross_do_not() -> None:
    ways = {"start": ["left", "right"], "left": ["x"], "right": ["y"], "y": [], "x": []}

    layout = lay_out(ways, {name: Box(100) for name in ways}, 20)

    assert (layout.x["left"] < layout.x["right"]) == (layout.x["x"] < layout.x["y"])


def test_no_two_boxes_of_a_layer_overlap() -> None:
    names = [f"n{number}" for number in range(40)]
    ways = {name: [names[(number * 7) % 40], names[(number * 3 + 1) % 40]] for number, name in enumerate(names)}
    boxes = {name: Box(60 + number, left=number % 3, right=number % 5) for number, name in enumerate(names)}

    layout = lay_out(ways, boxes, 10)

    for layer in layout.layers:
        for one, other in pairwise(layer):
            right = layout.x[one] + boxes[one].width / 2 + boxes[one].right
            assert layout.x[other] - boxes[other].width / 2 - boxes[other].left >= right + 10 - 1e-6


def test_thousands_of_steps_that_all_lead_to_one_are_drawn() -> None:
    names = [f"s{number}" for number in range(2000)]
    nodes = tuple(StepNode(name, entry=name == "s0") for name in names)
    chain = tuple(Edge(one, other) for one, other in pairwise(names))
    failures = tuple(Edge(name, "s1999", "failed", "failed", "failure") for name in names[:-1])

    graph = Graph("long", nodes, chain + failures)

    assert as_svg(graph).count("<rect") == 2001
    assert as_mermaid(graph).count("-.->") == 1999
