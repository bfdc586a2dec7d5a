"""The surface of tasks and sinks: the kind says which keys they have."""

from __future__ import annotations

from collections.abc import Mapping as MappingType
from dataclasses import dataclass, field

from shared.language.diagnostics import Report, did_you_mean
from shared.language.kinds import MAPPING, TIMEOUT, Kind, Kinds
from shared.language.nodes import Entry, Mapping, Node, Scalar, text_of
from shared.language.predicates import Predicate
from shared.language.rule_shapes import POLICY, RETRY, RULES, SET
from shared.language.scalars import JITTER, NAME, TEXT, at_least
from shared.language.shapes import (
    Choice,
    Definitions,
    Field,
    ListOf,
    Record,
    Schema,
    Shape,
    check_groups,
    keys_of,
    none_together,
    wrong_type,
)

KIND_KEYS = ("kind", "tool", "type")
RETRIES = at_least(0, whole=True, templated=False)

INPUT = Field(
    MAPPING,
    "Values handed over by name.",
    aliases=("args", "with"),
)
OUTPUT = Record(
    "output",
    {
        "output_select": Field(
            ListOf(TEXT), "Fields that stay readable when the result is stored by reference.", aliases=("select",)
        )
    },
)


@dataclass(frozen=True, slots=True)
class SinkShape(Shape):
    """A sink: its kind says which keys it has."""

    kinds: Kinds
    expected: str = "a mapping with tool, table, …"
    _records: dict[str, Record] = field(default_factory=dict, compare=False, repr=False)

    def check(self, node: Node, report: Report) -> None:
        if not isinstance(node, Mapping):
            wrong_type(node, self.expected, report)
            return
        entry = node.entry(*KIND_KEYS)
        if entry is None:
            report.error("missing-key", node.place, "a sink needs 'tool'", f"one of: {', '.join(self.kinds.sinks)}")
            return
        kind = known_kind(entry, self.kinds.sinks, "sink", report)
        if kind is None:
            return
        self._record(kind).check(node, report)
        mode = node.get("mode")
        if text_of(mode) == "upsert" and mode is not None and node.get("key") is None:
            report.error("missing-key", mode.place, "a sink that upserts needs 'key'", "name the columns: key: [id]")

    def schema(self, definitions: Definitions) -> Schema:
        return definitions.named("sink", self, lambda: self._any(definitions))

    def _any(self, definitions: Definitions) -> Schema:
        upsert: Schema = {"properties": {"mode": {"const": "upsert"}}, "required": ["mode"]}
        by_kind = by_kind_schema(
            {kind.name: self._record(kind).schema(definitions) for kind in self.kinds.sinks.values()}
        )
        return {**by_kind, "if": upsert, "then": {"required": ["key"]}}

    def _record(self, kind: Kind) -> Record:
        if kind.name not in self._records:
            word = Field(Choice((kind.name,)), "The kind of sink.", required=True, aliases=("tool", "type"))
            fields = {"kind": word, **kind.fields}
            self._records[kind.name] = Record(f"{kind.name} sink", fields, kind.doc, kind.one_of, kind.exclusive)
        return self._records[kind.name]


def by_kind_schema(parts: dict[str, Schema]) -> Schema:
    """Return the schema of mappings whose kind, whichever key names it, says which part applies."""
    named = [{"required": [key], "properties": {key: {"enum": sorted(parts)}}} for key in KIND_KEYS]
    cases = [
        {
            "if": {"anyOf": [{"required": [key], "properties": {key: {"const": kind}}} for key in KIND_KEYS]},
            "then": part,
        }
        for kind, part in parts.items()
    ]
    return {"type": "object", "anyOf": named, "allOf": cases}


def task_fields(kinds: Kinds) -> dict[str, Field]:
    """Return the keys that every task has, whatever its kind."""
    return {
        "desc": Field(TEXT, "What it is for.", aliases=("description",)),
        "eval": Field(RULES, "The ordered rules that judge the outcome."),
        "retry": Field(RETRY, "The older retry block."),
        "sink": Field(SinkShape(kinds), "Where each successful result is stored."),
        "set": Field(SET, "Values for later tasks, `ctx` or `iter`."),
        "output": Field(OUTPUT, "How the result is kept."),
        "timeout": Field(TIMEOUT, "How long one attempt may take."),
        "pool": Field(TEXT, "The worker pool that runs it."),
        "input": INPUT,
    }


def spec_fields(kind: Kind) -> dict[str, Field]:
    """Return the keys that may stand under `spec:` of a task."""
    return {
        **kind.fields,
        "timeout": Field(TIMEOUT, "How long one attempt may take."),
        "pool": Field(TEXT, "The worker pool that runs it."),
        "policy": Field(POLICY, "The rules, in the newer spelling."),
        "jitter": Field(JITTER, "Jitter of retry rules that name none."),
        "retries": Field(RETRIES, "Retries of errors that are retryable."),
    }


@dataclass(frozen=True, slots=True)
class TaskShape(Shape):
    """A task as one mapping: `{kind: http, …}`; `extra` are the keys of what it stands on, such as a step."""

    kinds: Kinds
    what: str = "task"
    extra: tuple[tuple[str, Field], ...] = (("name", Field(NAME, "Its label in the pipeline.")),)
    extra_spec: tuple[tuple[str, Field], ...] = ()
    expected: str = "a task: a mapping with kind and the tool's fields"
    _records: dict[str, Record] = field(default_factory=dict, compare=False, repr=False)

    def check(self, node: Node, report: Report) -> None:
        if not isinstance(node, Mapping):
            wrong_type(node, self.expected, report)
            return
        entry = node.entry(*KIND_KEYS)
        if entry is None:
            hint = f"kinds: {', '.join(sorted(self.kinds.tools))}"
            report.error("missing-key", node.place, f"a {self.what} needs 'kind'", hint)
        self.check_entry(node, entry, report)

    def check_entry(self, node: Mapping, entry: Entry | None, report: Report) -> None:
        """Check a task whose kind this entry names; the keys that mean the same for every kind, if it does not."""
        kind = known_kind(entry, self.kinds.tools, "kind", report) if entry is not None else None
        if kind is not None:
            self._check_kind(node, kind, report)
            return
        common = Record(self.what, {**task_fields(self.kinds), **dict(self.extra)})
        common.check_entries(node, tuple(item for item in node.entries if item.key in common.known), report)

    def _check_kind(self, node: Mapping, kind: Kind, report: Report) -> None:
        own = self._record(kind)
        own.check(node, report)
        spec = node.get("spec")
        inner = spec.entries if isinstance(spec, Mapping) else ()
        outer = {own.known[entry.key][0]: entry for entry in node.entries if entry.key in own.known}
        for entry in inner:
            twin = outer.get(own.known[entry.key][0]) if entry.key in own.known else None
            if twin is not None:
                message = f"'{entry.key}' stands on the {self.what} too, in line {twin.place.line}"
                report.error("said-twice", entry.place, message, "keep one of the two")
        given = {kind.known[entry.key][0]: entry for entry in (*node.entries, *inner) if entry.key in kind.known}
        check_groups(node, f"a {self.what} of kind {kind.name}", given, kind.one_of, kind.exclusive, report)

    def _record(self, kind: Kind) -> Record:
        if kind.name not in self._records:
            self._records[kind.name] = self._new_record(kind)
        return self._records[kind.name]

    def _new_record(self, kind: Kind) -> Record:
        spec = Record(f"spec of {kind.name} {self.what}", {**spec_fields(kind), **dict(self.extra_spec)})
        word = Field(Choice((kind.name,), what="kind"), "The kind of tool.", aliases=("tool", "type"))
        common = {name: item for name, item in task_fields(self.kinds).items() if name not in kind.fields}
        fields = {
            "kind": word,
            **kind.fields,
            **common,
            **dict(self.extra),
            "spec": Field(spec, "The tool's fields and the policy may also stand here."),
        }
        return Record(f"{kind.name} {self.what}", fields, kind.doc)

    def schema(self, definitions: Definitions) -> Schema:
        return definitions.named(f"any {self.what}", self, lambda: self._any(definitions))

    def _any(self, definitions: Definitions) -> Schema:
        return by_kind_schema({kind.name: self._schema_of(kind, definitions) for kind in self.kinds.tools.values()})

    def _schema_of(self, kind: Kind, definitions: Definitions) -> Schema:
        record = self._record(kind)
        return definitions.named(record.name, record, lambda: self._object(kind, definitions))

    def _object(self, kind: Kind, definitions: Definitions) -> Schema:
        out = self._record(kind).object_schema(definitions)
        wanted: list[Schema] = []
        for group in kind.one_of:
            here: list[Schema] = [{"required": [key]} for key in keys_of(kind.fields, group)]
            under = {"required": ["spec"], "properties": {"spec": {"anyOf": list(here)}}}
            wanted.append({"anyOf": [*here, under]})
        wanted += [none_together(kind.fields, group) for group in kind.exclusive]
        if wanted:
            out["allOf"] = [*out.get("allOf", ()), *wanted]
        return out


@dataclass(frozen=True, slots=True)
class LabelledShape(Shape):
    """A task as `{label: {kind: http, …}}`."""

    task: TaskShape
    expected: str = "a label with a task under it"

    def check(self, node: Node, report: Report) -> None:
        assert isinstance(node, Mapping)
        entry = node.entries[0]
        NAME.check(Scalar(entry.key, entry.place), report)
        self.task.check(entry.value, report)

    def schema(self, definitions: Definitions) -> Schema:
        body = self.task.schema(definitions)
        return {"type": "object", "propertyNames": NAME.json, "additionalProperties": body}


def _is_labelled(node: Node) -> bool:
    if not isinstance(node, Mapping) or len(node.entries) != 1:
        return False
    entry = node.entries[0]
    return entry.key not in KIND_KEYS and isinstance(entry.value, Mapping)


is_labelled = Predicate(
    _is_labelled,
    {
        "type": "object",
        "minProperties": 1,
        "maxProperties": 1,
        "propertyNames": {"not": {"enum": list(KIND_KEYS)}},
        "additionalProperties": {"type": "object"},
    },
)


def known_kind(entry: Entry, kinds: MappingType[str, Kind], what: str, report: Report) -> Kind | None:
    """Return the kind that an entry names, or report that there is no such kind."""
    name = text_of(entry.value)
    if name is None:
        wrong_type(entry.value, f"the name of a {what}", report)
        return None
    kind = kinds.get(name)
    if kind is None:
        message = f"unknown {what} '{name[:80]}'"
        report.error("unknown-kind", entry.value.place, message, lambda: did_you_mean(name, sorted(kinds)))
    return kind
