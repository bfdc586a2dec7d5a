"""The tables of the language reference: every record of the language with its keys, from the shapes that check it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache

from shared.language.document import StepShape, WorkbookShape, playbook_shape
from shared.language.kinds import BUILT_IN, Kind
from shared.language.rule_shapes import POLICY, THEN, ElseRule
from shared.language.shapes import Choice, Either, Field, Groups, ListOf, MapOf, Record, Shape
from shared.language.task_shapes import LabelledShape, SinkShape, TaskShape, spec_fields, task_fields
from tests.support.reference.tables import code, table

# Records that stand for others under another name, or whose keys a sentence of the page says.
SAID_IN_WORDS = frozenset(
    {"admission", "admission rule", "else admission", "admit", "else", "else arc", "else rule", "rule with then",
     "next spec", "retry by outcome", "step policy", "executor", "workbook entry", "on_exhausted"}
)  # fmt: skip


def parts() -> dict[str, str]:
    """Return every generated part by the name that pages call it by."""
    found = {f"keys: {name}": _keys(record.fields, record.one_of) for name, record in records().items()}
    found["keys: task"] = _keys({**task_fields(BUILT_IN)})
    found["keys: policy"] = _keys(POLICY.fields)
    found["keys: spec"] = _keys(_only_of_spec())
    for kind in BUILT_IN.tools.values():
        found[f"keys: tool {kind.name}"] = _kind(kind)
    for kind in BUILT_IN.sinks.values():
        found[f"keys: sink {kind.name}"] = _kind(kind)
    found["kinds"] = _kinds("tools", BUILT_IN.tools)
    found["sinks"] = _kinds("sinks", BUILT_IN.sinks)
    return found


@cache
def records() -> Mapping[str, Record]:
    """Return every record that can stand in a playbook outside a tool's own fields, by name."""
    found: dict[str, Record] = {}
    for record in _records(playbook_shape(BUILT_IN), set()):
        found.setdefault(record.name, record)
    return found


def _records(shape: Shape, seen: set[int]) -> Iterator[Record]:
    if id(shape) in seen:
        return
    seen.add(id(shape))
    if isinstance(shape, Record):
        yield shape
    for inner in _inside(shape):
        yield from _records(inner, seen)


def _inside(shape: Shape) -> list[Shape]:
    """Return the shapes that stand within one; what a task's or a sink's kind adds has tables of its own."""
    match shape:
        case Record():
            return [item.shape for item in shape.fields.values()]
        case Either():
            return [case.shape for case in shape.cases]
        case ListOf():
            return [shape.item]
        case MapOf():
            return [shape.value]
        case StepShape():
            return [shape._pipeline]
        case WorkbookShape():
            return [shape._nested]
        case LabelledShape():
            return [shape.task]
        case TaskShape():
            return [item.shape for item in task_fields(shape.kinds).values()]
        case ElseRule():
            return [THEN]
    return []


def _keys(fields: Mapping[str, Field], one_of: Groups = ()) -> str:
    needed = {group[0] for group in one_of if len(group) == 1}
    rows = [
        (
            code(name) + "".join(f", {code(alias)}" for alias in item.aliases),
            _value(item.shape) + (", **needed**" if item.required or name in needed else ""),
            item.doc,
        )
        for name, item in fields.items()
    ]
    return table(("key", "value", "meaning"), rows)


def _kind(kind: Kind) -> str:
    if not kind.fields:
        return f"{kind.doc} It has no fields of its own."
    notes = ["One of " + " and ".join(map(code, group)) + " is needed." for group in kind.one_of if len(group) > 1]
    notes += [" and ".join(map(code, group)) + " exclude one another." for group in kind.exclusive]
    return "\n\n".join([kind.doc, _keys(kind.fields, kind.one_of), *([" ".join(notes)] if notes else [])])


def _kinds(folder: str, kinds: Mapping[str, Kind]) -> str:
    return table(("kind", ""), [(f"[{code(name)}](../{folder}/{name}.md)", kind.doc) for name, kind in kinds.items()])


def _only_of_spec() -> dict[str, Field]:
    noop = BUILT_IN.tools["noop"]
    return {name: item for name, item in spec_fields(noop).items() if name not in noop.fields}


def _value(shape: Shape) -> str:
    match shape:
        case Choice():
            return " · ".join(code(word) for word in shape._names)
        case Record():
            return (
                f"a mapping, see [{shape.name}](#{shape.name.replace(' ', '-')})" if _has_table(shape) else "a mapping"
            )
        case ListOf(item=Record() as record) if _has_table(record):
            return f"a list, each {_link(record)}"
        case SinkShape():
            return "a mapping, see [sinks](#sinks)"
        case ListOf() | MapOf() if shape.expected in ("a list", "a mapping"):
            return f"{shape.expected} of {_plural(shape.item if isinstance(shape, ListOf) else shape.value)}"
    return shape.expected


def _link(record: Record) -> str:
    return f"[{record.name}](#{record.name.replace(' ', '-')})"


def _plural(shape: Shape) -> str:
    return {"any value": "any values", "a text": "texts"}.get(shape.expected, f"elements: {_value(shape)}")


def _has_table(record: Record) -> bool:
    return record.name in records() and record.name not in SAID_IN_WORDS
