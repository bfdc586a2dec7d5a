"""Declarative shapes of the surface language: one description checks a document and makes its JSON Schema."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from collections.abc import Mapping as MappingType
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, TypeAlias

from shared.language.diagnostics import Hint, Report, did_you_mean, listed, nearest
from shared.language.nodes import Entry, Mapping, Node, Scalar, ScalarValue, Sequence, described, has_template
from shared.language.predicates import Predicate
from shared.language.predicates import has_key as has_key
from shared.language.predicates import is_list as is_list
from shared.language.predicates import is_mapping as is_mapping
from shared.language.predicates import is_scalar as is_scalar
from shared.language.predicates import is_text as is_text

Schema: TypeAlias = dict[str, Any]
Groups: TypeAlias = tuple[tuple[str, ...], ...]

TEMPLATE_SCHEMA: Schema = {"type": "string", "pattern": r"\{[{%#]"}


@dataclass(slots=True)
class Definitions:
    """Named parts of a JSON Schema, each written once; two parts that want one name get two."""

    parts: dict[str, Schema] = field(default_factory=dict)
    _owners: dict[str, object] = field(default_factory=dict)

    def named(self, wanted: str, owner: object, make: Callable[[], Schema]) -> Schema:
        """Return a reference to the part that stands for `owner`, making it if it is new."""
        name, number = wanted.replace(" ", "_"), 1
        while name in self.parts and self._owners[name] != owner:
            number += 1
            name = f"{wanted.replace(' ', '_')}_{number}"
        if name not in self.parts:
            self._owners[name] = owner
            self.parts[name] = {}
            self.parts[name] = make()
        return {"$ref": f"#/$defs/{name}"}


class Shape(ABC):
    """What may stand at a place of a document."""

    expected: str

    @abstractmethod
    def check(self, node: Node, report: Report) -> None:
        """Report everything about this node that is not as expected."""

    @abstractmethod
    def schema(self, definitions: Definitions) -> Schema:
        """Return the JSON Schema of this shape."""


def wrong_type(node: Node, expected: str, report: Report, hint: Hint = None) -> None:
    """Report that something else was expected here."""
    if hint is None and isinstance(node, Scalar) and node.value is None:
        hint = "leave the key out, or give it a value"
    report.error("wrong-type", node.place, f"expected {expected}, found {described(node)}", hint)


@dataclass(frozen=True, slots=True)
class ScalarShape(Shape):
    """A single value that passes a test; or, where templates are allowed, a text with an expression in it."""

    expected: str
    accepts: Callable[[ScalarValue], bool]
    json: Schema
    templated: bool = False
    hint: Callable[[ScalarValue], str | None] = lambda value: None
    name: str = ""

    def check(self, node: Node, report: Report) -> None:
        if self.templated and has_template(node):
            return
        if not isinstance(node, Scalar):
            wrong_type(node, self.expected, report)
        elif not self.accepts(node.value):
            wrong_type(node, self.expected, report, self.hint(node.value))

    def schema(self, definitions: Definitions) -> Schema:
        whole: Schema = {"anyOf": [self.json, TEMPLATE_SCHEMA]} if self.templated else dict(self.json)
        return definitions.named(self.name, self, lambda: whole) if self.name else whole


_SWITCH_WORDS = {"yes": True, "on": True, "true": True, "no": False, "off": False, "false": False}


def switch_hint(value: ScalarValue) -> str | None:
    """Say which truth value a word stands for that other formats read as one."""
    word = _SWITCH_WORDS.get(value.strip().lower()) if isinstance(value, str) else None
    return None if word is None else f"write {_shown(word)}"


@dataclass(frozen=True, slots=True)
class Choice(Shape):
    """One of a few words; `also` are truth values that may stand in their place, `hints` answer likely mistakes."""

    words: tuple[str, ...]
    code: str = "wrong-choice"
    what: str = "value"
    also: tuple[bool, ...] = ()
    hints: tuple[tuple[str, str], ...] = ()

    @property
    def expected(self) -> str:  # type: ignore[override]
        return "one of: " + ", ".join(self._names)

    @property
    def _names(self) -> tuple[str, ...]:
        return (*(_shown(word) for word in self.also), *self.words)

    def check(self, node: Node, report: Report) -> None:
        if not isinstance(node, Scalar) or node.value is None:
            wrong_type(node, self.expected, report)
        elif has_template(node):
            wrong_type(node, f"{self.expected}, and no expression", report)
        elif isinstance(node.value, bool) and node.value in self.also:
            return
        elif not isinstance(node.value, str) or node.value not in self.words:
            hint = self._hint(node.value)
            report.error(self.code, node.place, f"unknown {self.what} '{_shown(node.value)}'", hint)

    def _hint(self, value: ScalarValue) -> str:
        known = dict(self.hints).get(str(value)) or (switch_hint(value) if self.also else None)
        return known or did_you_mean(_shown(value), self._names)

    def schema(self, definitions: Definitions) -> Schema:
        return {"enum": [*self.words, *self.also]}


@dataclass(frozen=True, slots=True)
class Anything(Shape):
    """Any data, with or without expressions in it."""

    expected: str = "any value"

    def check(self, node: Node, report: Report) -> None:
        return

    def schema(self, definitions: Definitions) -> Schema:
        return {}


@dataclass(frozen=True, slots=True)
class ListOf(Shape):
    """A list whose elements all have one shape."""

    item: Shape
    expected: str = "a list"
    at_least: int = 0

    def check(self, node: Node, report: Report) -> None:
        if not isinstance(node, Sequence):
            wrong_type(node, self.expected, report)
            return
        if len(node.items) < self.at_least:
            report.error("too-few", node.place, f"expected {self.expected} with at least {self.at_least} in it")
        for item in node.items:
            self.item.check(item, report)

    def schema(self, definitions: Definitions) -> Schema:
        out: Schema = {"type": "array", "items": self.item.schema(definitions)}
        if self.at_least:
            out["minItems"] = self.at_least
        return out


@dataclass(frozen=True, slots=True)
class MapOf(Shape):
    """A mapping with any keys whose values all have one shape."""

    value: Shape
    expected: str = "a mapping"
    key: Callable[[str], str | None] = lambda key: None
    key_pattern: str | None = None

    def check(self, node: Node, report: Report) -> None:
        if not isinstance(node, Mapping):
            wrong_type(node, self.expected, report)
            return
        for entry in node.entries:
            problem = self.key(entry.key)
            if problem is not None:
                report.error("wrong-key", entry.place, problem)
            self.value.check(entry.value, report)

    def schema(self, definitions: Definitions) -> Schema:
        out: Schema = {"type": "object", "additionalProperties": self.value.schema(definitions)}
        if self.key_pattern:
            out["propertyNames"] = {"pattern": self.key_pattern}
        return out


@dataclass(frozen=True, slots=True)
class Field:
    """One key of a record: its shape, its older names, and a sentence for the reference."""

    shape: Shape
    doc: str = ""
    required: bool = False
    aliases: tuple[str, ...] = ()


@dataclass(frozen=True)
class Record(Shape):
    """A mapping with known keys; any other key is an error with a suggestion."""

    name: str
    fields: MappingType[str, Field]
    doc: str = ""
    one_of: Groups = ()
    exclusive: Groups = ()

    @property
    def expected(self) -> str:  # type: ignore[override]
        return f"a mapping with {', '.join(list(self.fields)[:4])}"

    @cached_property
    def known(self) -> MappingType[str, tuple[str, Field]]:
        """Every accepted key with the name it stands for."""
        return known_keys(self.fields)

    def check(self, node: Node, report: Report) -> None:
        if not isinstance(node, Mapping):
            wrong_type(node, self.expected, report)
            return
        self.check_entries(node, node.entries, report)

    def check_entries(self, node: Mapping, entries: tuple[Entry, ...], report: Report) -> None:
        """Check these keys of a mapping against the record."""
        given: dict[str, Entry] = {}
        for entry in entries:
            if entry.key not in self.known:
                self.report_unknown(entry, report)
                continue
            name, item = self.known[entry.key]
            if name in given:
                message = f"'{entry.key}' says the same as '{given[name].key}'"
                report.error("said-twice", entry.place, message, "keep one of the two")
            given[name] = entry
            item.shape.check(entry.value, report)
        for name, item in self.fields.items():
            if item.required and name not in given:
                report.error("missing-key", node.place, f"{with_article(self.name)} needs '{name}'", item.doc or None)
        check_groups(node, with_article(self.name), given, self.one_of, self.exclusive, report)

    def report_unknown(self, entry: Entry, report: Report) -> None:
        """Say that a key is unknown and which one was probably meant."""
        message = f"unknown key '{entry.key[:80]}' in {with_article(self.name)}"
        report.error("unknown-key", entry.place, message, lambda: self._suggestion(entry.key))

    def _suggestion(self, key: str) -> str:
        near = nearest(key, self.known)
        if near is not None:
            return f"did you mean '{near}'?"
        return f"{with_article(self.name)} has: {listed(self.fields)}"

    def schema(self, definitions: Definitions) -> Schema:
        return definitions.named(self.name, self, lambda: self.object_schema(definitions))

    def object_schema(self, definitions: Definitions) -> Schema:
        """Return the record's own schema, not a reference to it."""
        properties: Schema = {}
        for name, item in self.fields.items():
            part = item.shape.schema(definitions)
            if item.doc:
                part = {**part, "description": item.doc}
            for key in (name, *item.aliases):
                properties[key] = part
        out: Schema = {"type": "object", "properties": properties, "additionalProperties": False}
        if self.doc:
            out["description"] = self.doc
        wanted = [self._any_of((name,)) for name, item in self.fields.items() if item.required]
        wanted += [self._any_of(group) for group in self.one_of]
        wanted += [none_together(self.fields, group) for group in self.exclusive]
        if wanted:
            out["allOf"] = wanted
        return out

    def _any_of(self, group: tuple[str, ...]) -> Schema:
        keys = keys_of(self.fields, group)
        if len(keys) == 1:
            return {"required": keys}
        return {"anyOf": [{"required": [key]} for key in keys]}


def known_keys(fields: MappingType[str, Field]) -> dict[str, tuple[str, Field]]:
    """Return every key that stands for one of these fields, with the field's own name."""
    return {key: (name, item) for name, item in fields.items() for key in (name, *item.aliases)}


def keys_of(fields: MappingType[str, Field], group: tuple[str, ...]) -> list[str]:
    """Return the keys, older names included, under which one of these fields can stand."""
    return [key for name in group for key in (name, *fields[name].aliases)]


def none_together(fields: MappingType[str, Field], group: tuple[str, ...]) -> Schema:
    """Return the JSON Schema of mappings in which no two of these fields stand."""
    pairs = [(a, b) for i, one in enumerate(group) for other in group[i + 1 :]
             for a in keys_of(fields, (one,)) for b in keys_of(fields, (other,))]  # fmt: skip
    return {"not": {"anyOf": [{"required": [a, b]} for a, b in pairs]}}


def check_groups(
    node: Node, what: str, given: MappingType[str, Entry], one_of: Groups, exclusive: Groups, report: Report
) -> None:
    """Report groups of fields of which none is given, and those of which two are that exclude each other."""
    for group in one_of:
        if not any(name in given for name in group):
            names = " or ".join(f"'{name}'" for name in group)
            report.error("missing-key", node.place, f"{what} needs {names}")
    for group in exclusive:
        present = [given[name] for name in group if name in given]
        for other in present[1:]:
            message = f"'{present[0].key}' and '{other.key}' exclude each other"
            report.error("said-twice", other.place, message, "keep one of the two")


def with_article(name: str) -> str:
    """Return the name of a record as a sentence says it."""
    if name.startswith(("spec of", "on_", "metadata", "limits")):
        return name
    return f"an {name}" if name.startswith(("a", "e", "i", "o", "u", "http")) else f"a {name}"


@dataclass(frozen=True, slots=True)
class Case:
    """A shape that applies to nodes that pass a test; a predicate can ask its question in JSON Schema too."""

    applies: Callable[[Node], bool]
    shape: Shape

    @property
    def question(self) -> Schema | None:
        """Return the test as a JSON Schema, if it has one."""
        return self.applies.json if isinstance(self.applies, Predicate) else None


@dataclass(frozen=True, slots=True)
class Either(Shape):
    """The first shape whose test passes; so a mistake inside it is reported as that shape's mistake."""

    expected: str
    cases: tuple[Case, ...]
    name: str = ""

    def check(self, node: Node, report: Report) -> None:
        for case in self.cases:
            if case.applies(node):
                case.shape.check(node, report)
                return
        wrong_type(node, self.expected, report)

    def schema(self, definitions: Definitions) -> Schema:
        return (
            definitions.named(self.name, self, lambda: self._any(definitions)) if self.name else self._any(definitions)
        )

    def _any(self, definitions: Definitions) -> Schema:
        answers = [case.shape.schema(definitions) for case in self.cases]
        questions = [case.question for case in self.cases if case.question is not None]
        if len(questions) < len(answers):
            return {"anyOf": answers}
        out: Schema = {"anyOf": questions}
        for question, answer in zip(reversed(questions), reversed(answers), strict=True):
            out = {"if": question, "then": answer, "else": out}
        return out


def _shown(value: ScalarValue) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)[:60]
