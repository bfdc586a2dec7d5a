"""YAML text to a tree of nodes that know their place, within limits, with diagnostics instead of exceptions."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from math import inf, isfinite
from typing import Any, TypeAlias

import yaml

from shared.language.diagnostics import Report
from shared.language.nodes import Entry, Mapping, Node, Scalar, ScalarValue, Sequence
from shared.language.place import Place, lines_of, place_at

MAX_BYTES = 2 * 1024 * 1024
MAX_DEPTH = 64
MAX_NODES = 200_000
MAX_NUMBER_LENGTH = 64

_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_INTEGER = re.compile(r"[-+]?[0-9]+\Z")
_BASED = re.compile(r"0o[0-7]+\Z|0x[0-9a-fA-F]+\Z")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?\Z")
_NOT_FINITE = re.compile(r"[-+]?\.(inf|Inf|INF)\Z|\.(nan|NaN|NAN)\Z")
_NUMERIC = frozenset("-+.0123456789")
_WORDS: dict[str, ScalarValue] = {
    "": None, "~": None, "null": None, "Null": None, "NULL": None,
    "true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False,
}  # fmt: skip
_FORBIDDEN = re.compile("[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_BLOCK_INDENT = re.compile(r"[\r\n]+( *)[^ \r\n]")
_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")
_UNQUOTED = re.compile(r"(?:^|[:,\[-])\s*\{[{%]")
_COLON_IN_TEXT = re.compile(r":\s+[^'\"|>\s][^'\"]*:\s")
_QUOTE_HINT = 'put a template in quotes: "{{ … }}"'
_TAG_STR = "tag:yaml.org,2002:str"
_PLAIN_TAGS = {None, "!", _TAG_STR, "tag:yaml.org,2002:map", "tag:yaml.org,2002:seq"}


class _UnreadableError(Exception):
    """The rest of the text cannot be read; the reason has been reported."""


def parse(source: str | bytes, report: Report) -> Node | None:
    """Return the document's root, or nothing when the text is no YAML document that can be read."""
    text = _decoded(source, report)
    if text is None:
        return None
    try:
        return _Composer(report, text).compose()
    except _UnreadableError:
        return None
    except yaml.YAMLError as problem:
        _report_syntax(problem, text, report)
        return None


def _decoded(source: str | bytes, report: Report) -> str | None:
    if len(source) > MAX_BYTES:
        size = f"{len(source) / 1024 / 1024:.1f} MiB"
        hint = "keep data out of playbooks: pass it as workload, or load it in a step"
        report.error("too-large", Place(1, 1), f"the text is {size}; the limit is {MAX_BYTES >> 20} MiB", hint)
        return None
    decoded = source if isinstance(source, str) else _utf8(source, report)
    if decoded is None:
        return None
    text = decoded.removeprefix("\ufeff")
    wrong = _FORBIDDEN.search(text)
    if wrong is None:
        return text
    place, code = place_at(text, wrong.start()), ord(wrong[0])
    if 0xD800 <= code <= 0xDFFF:
        report.error("not-utf8", place, "half of a surrogate pair is no character", "save the file as UTF-8")
    else:
        escape = f'a text in double quotes can hold it as an escape: "\\x{code:02x}"' if 0 < code < 256 else None
        report.error("control-character", place, f"the character U+{code:04X} cannot stand in YAML", escape)
    return None


def _utf8(source: bytes, report: Report) -> str | None:
    try:
        return source.decode("utf-8")
    except UnicodeDecodeError as problem:
        before = source[: problem.start].decode("utf-8", "replace").removeprefix("\ufeff")
        byte = source[problem.start]
        place = place_at(before, len(before))
        report.error("not-utf8", place, f"byte 0x{byte:02x} is not UTF-8", "save the file as UTF-8")
        return None


@dataclass(slots=True)
class _Open:
    """A list or mapping whose end has not been read yet."""

    is_mapping: bool
    place: Place
    anchor: str | None
    items: list[Node] = field(default_factory=list)
    own: dict[str, Entry] = field(default_factory=dict)
    merged: dict[str, Entry] = field(default_factory=dict)
    key: Scalar | None = None
    weight: int = 1
    depth: int = 1
    start: int = 0
    is_template: bool = False


_Event: TypeAlias = Any


class _Composer:
    """Builds nodes from the event stream with a stack of its own, so that depth is a limit and not a crash."""

    def __init__(self, report: Report, text: str) -> None:
        self._report = report
        self._text = text
        self._anchors: dict[str, Node] = {}
        self._stack: list[_Open] = []
        self._root: Node | None = None
        self._documents = 0

    def compose(self) -> Node | None:
        takers = {
            yaml.ScalarEvent: self._single,
            yaml.MappingStartEvent: self._open,
            yaml.SequenceStartEvent: self._open,
            yaml.MappingEndEvent: self._end,
            yaml.SequenceEndEvent: self._end,
            yaml.AliasEvent: self._alias,
            yaml.DocumentStartEvent: self._document,
        }
        for event in yaml.parse(self._text, Loader=_LOADER):
            take = takers.get(type(event))
            if take is not None:
                take(event)
        if self._root is None or (isinstance(self._root, Scalar) and self._root.value is None):
            hint = "a playbook begins with 'apiVersion: redrive.io/v1'"
            self._report.error("empty", Place(1, 1), "the document is empty", hint)
            return None
        return self._root

    def _document(self, event: _Event) -> None:
        self._documents += 1
        if self._documents > 1:
            self._stop("many-documents", _place(event), "a file holds one playbook, this is a second")

    def _single(self, event: _Event) -> None:
        self._close(self._scalar(event), event.anchor)

    def _open(self, event: _Event) -> None:
        if len(self._stack) >= MAX_DEPTH:
            self._stop("too-deep", _place(event), f"nested deeper than {MAX_DEPTH} levels")
        if event.tag not in _PLAIN_TAGS:
            self._report.error("yaml-tag", _place(event), f"the tag '{event.tag}' has no meaning here")
        is_mapping = isinstance(event, yaml.MappingStartEvent)
        self._stack.append(_Open(is_mapping, _place(event), event.anchor, start=event.start_mark.index))

    def _end(self, event: _Event) -> None:
        done = self._stack.pop()
        node: Node
        if done.is_template:
            node = self._unquoted(done, event.end_mark.index)
        elif done.is_mapping:
            entries = (*done.own.values(), *(e for key, e in done.merged.items() if key not in done.own))
            node = Mapping(entries, done.place, done.weight, done.depth)
        else:
            node = Sequence(tuple(done.items), done.place, done.weight, done.depth)
        self._close(node, done.anchor)

    def _unquoted(self, done: _Open, end: int) -> Scalar:
        """Report `{{ … }}` without quotes, which YAML takes for a mapping in a mapping, and read it as was meant."""
        text = self._text[done.start : end]
        place = Place(done.place.line, done.place.column, len(text) if "\n" not in text else 1)
        self._report.error("unquoted-template", place, "YAML takes this for a mapping, not for a template", _QUOTE_HINT)
        return Scalar(text, place)

    def _alias(self, event: _Event) -> None:
        node = self._anchors.get(event.anchor)
        if node is None:
            self._stop("unknown-anchor", _place(event), f"no anchor '&{event.anchor}' stands before this alias")
            return
        self._close(node, None)

    def _close(self, node: Node, anchor: str | None) -> None:
        if anchor is not None:
            self._anchors[anchor] = node
        if not self._stack:
            self._root = node
            return
        top = self._stack[-1]
        top.weight += node.weight
        top.depth = max(top.depth, node.depth + 1)
        if len(self._stack) + node.depth > MAX_DEPTH + 1:
            self._stop("too-deep", node.place, f"nested deeper than {MAX_DEPTH} levels")
        if top.weight > MAX_NODES:
            message = f"the document expands to more than {MAX_NODES:,} values"
            self._stop("too-many-values", node.place, message, "aliases count each time they are used")
        if not top.is_mapping:
            top.items.append(node)
        elif top.key is None:
            top.key = self._key(node, top)
        else:
            key, top.key = top.key, None
            self._add_entry(top, key, node)

    def _key(self, node: Node, top: _Open) -> Scalar:
        if isinstance(node, Scalar):
            return node if isinstance(node.value, str) else Scalar(_key_text(node.value), node.place)
        opening = top.place
        if isinstance(node, Mapping) and (opening.line, opening.column + 1) == (node.place.line, node.place.column):
            top.is_template = True
        else:
            self._stop("key-not-text", node.place, "a key is a text, this one is a list or a mapping")
        return Scalar("", node.place)

    def _add_entry(self, top: _Open, key: Scalar, value: Node) -> None:
        name = str(key.value)
        if name == "<<" and not key.quoted:
            self._merge(top, key, value)
            return
        first = top.own.get(name)
        if first is not None:
            hint = f"it is first written in line {first.place.line}"
            self._report.error("duplicate-key", key.place, f"the key '{name}' is written twice", hint)
            return
        top.own[name] = Entry(name, key.place, value)

    def _merge(self, top: _Open, key: Scalar, value: Node) -> None:
        """Take over the keys of `<<: *base`; what is written here wins over what is merged."""
        sources = value.items if isinstance(value, Sequence) else (value,)
        for source in sources:
            if not isinstance(source, Mapping):
                self._report.error("merge", key.place, "'<<' merges a mapping, or a list of mappings")
                return
            for entry in source.entries:
                top.merged.setdefault(entry.key, entry)

    def _scalar(self, event: _Event) -> Scalar:
        text: str = event.value
        place = _place(event)
        style = event.style
        if event.tag not in _PLAIN_TAGS:
            hint = "quote the value, or leave the tag out"
            self._report.error("yaml-tag", place, f"the tag '{event.tag}' has no meaning here", hint)
        if style == '"' and (wrong := _UNSTORABLE.search(text)):
            message = f"the character U+{ord(wrong[0]):04X} cannot be stored"
            self._report.error("control-character", place, message, "leave it out")
        if style in ("|", ">"):
            return Scalar(text, place, block=True, indent=self._indent(event))
        if not event.implicit[0] or style in ("'", '"'):
            return Scalar(text, place, quoted=style in ("'", '"'))
        if self._stack and self._stack[-1].is_mapping and self._stack[-1].key is None:
            return Scalar(text or "null", place)
        return Scalar(self._resolved(text, place), place)

    def _indent(self, event: _Event) -> int:
        found = _BLOCK_INDENT.search(self._text, event.start_mark.index, event.end_mark.index)
        return len(found[1]) if found else 0

    def _resolved(self, text: str, place: Place) -> ScalarValue:
        if text in _WORDS:
            return _WORDS[text]
        if text[0] not in _NUMERIC:
            return text
        if _INTEGER.match(text) or _BASED.match(text):
            value = int(text, 0 if text[:2] in ("0x", "0o") else 10) if len(text) <= MAX_NUMBER_LENGTH else 2**64
            return value if -(2**63) <= value < 2**63 else self._out_of_range("does not fit in 64 bits", place)
        if _FLOAT.match(text):
            number = float(text) if len(text) <= MAX_NUMBER_LENGTH else inf
            return number if isfinite(number) else self._out_of_range("is too large or too long", place)
        if _NOT_FINITE.match(text):
            self._report.error("number-range", place, "infinity and NaN are no values of a playbook")
            return 0
        return text

    def _out_of_range(self, problem: str, place: Place) -> int:
        self._report.error("number-range", place, f"the number {problem}", "quote it to keep it as a text")
        return 0

    def _stop(self, code: str, place: Place, message: str, hint: str | None = None) -> None:
        self._report.error(code, place, message, hint)
        raise _UnreadableError


def _place(event: _Event) -> Place:
    start, end = event.start_mark, event.end_mark
    one_line = start.line == end.line
    return Place(start.line + 1, start.column + 1, max(1, end.column - start.column) if one_line else 1)


def _key_text(value: ScalarValue) -> str:
    if value is None:
        return "null"
    return str(value).lower() if isinstance(value, bool) else str(value)


def _report_syntax(problem: yaml.YAMLError, text: str, report: Report) -> None:
    mark = getattr(problem, "problem_mark", None)
    said = getattr(problem, "problem", None) or getattr(problem, "reason", None) or str(problem)
    lines = lines_of(text)
    place = _within(lines, mark.line, mark.column) if mark is not None else Place(1, 1)
    hint = _syntax_hint(lines[place.line - 1], place, lines)
    report.error("yaml-syntax", place, f"this is no YAML: {said.splitlines()[0]}", hint)


def _within(lines: list[str], line: int, column: int) -> Place:
    """Return a place of the text; a problem found at the very end stands behind the last thing written."""
    if line >= len(lines) or not any(rest.strip() for rest in lines[line:]):
        line = max((i for i, written in enumerate(lines[:line]) if written.strip()), default=0)
        return Place(line + 1, len(lines[line].rstrip()) + 1)
    return Place(line + 1, column + 1)


def _syntax_hint(line: str, place: Place, lines: list[str]) -> str | None:
    at = line[place.column - 1 : place.column]
    if at == "\t" or "\t" in line[: len(line) - len(line.lstrip())]:
        return "indent with spaces, not with tabs"
    around = (lines[place.line - 2] if place.line > 1 else "", line)
    if any(_UNQUOTED.search(text) for text in around):
        return _QUOTE_HINT
    if any(_COLON_IN_TEXT.search(text) for text in around):
        return "put a text that contains ': ' in quotes"
    if at in ("@", "`", "%"):
        return f"put a text that begins with '{at}' in quotes"
    return None
