"""Script files that a playbook names, put into its text so that it needs no files any more."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import unquote

from shared.language.diagnostics import Diagnostic, Report, Severity
from shared.language.nodes import Entry, Mapping, Node, Scalar, Sequence, has_template, text_of
from shared.language.parse import parse
from shared.language.place import Place, lines_of

MOST_BYTES = 1024 * 1024
KEYS = tuple(quoted for key in ("file", "uri") for quoted in (key, f'"{key}"', f"'{key}'"))

Find = Callable[[str], str]
"""Returns what a script file holds; raises ValueError that says why it cannot."""


@dataclasses.dataclass(frozen=True, slots=True)
class Inlined:
    """The text with its scripts, every line where it was, and what kept a script out."""

    text: str
    problems: tuple[Diagnostic, ...]


def inline_scripts(text: str, file: str, find: Find) -> Inlined:
    """Return a playbook with every script that is a file replaced by the script itself, on the same line."""
    root = parse(text, Report(file))
    problems: list[Diagnostic] = []
    edits: dict[Place, tuple[Entry, str]] = {}
    for entry in _files(root):
        name = _file_name(entry)
        try:
            if name is None or has_template(entry.value):
                raise ValueError("a script's file is a plain name; expressions are not known before the run")
            edits[entry.place] = (entry, find(name))
        except ValueError as problem:
            problems.append(_finding(file, entry.value.place, str(problem)))
    lines = lines_of(text)
    # From the end to the beginning, so that what is still to be replaced stands where it stood.
    for entry, script in sorted(edits.values(), key=lambda edit: (edit[0].place.line, edit[0].place.column))[::-1]:
        if not _replace(lines, entry, script):
            problems.append(_finding(file, entry.value.place, "a script's file is written on the line of its key"))
    return Inlined("\n".join(lines) if edits else text, tuple(problems))


def beside(file: str) -> Find:
    """Return what reads script files: beside the playbook, else from the working directory."""

    def find(name: str) -> str:
        places = [Path(file).parent / name, Path(name)]
        found = next((place for place in places if place.is_file()), None)
        if found is None:
            raise ValueError(f"there is no file '{name}', neither beside the playbook nor in the working directory")
        try:
            content = found.read_bytes()
            if len(content) > MOST_BYTES:
                raise ValueError(f"the file '{name}' is larger than {MOST_BYTES} bytes")
            if b"\0" in content:
                raise ValueError(f"the file '{name}' is no text")
            return content.decode("utf-8").removeprefix("\ufeff")
        except OSError as problem:
            raise ValueError(f"the file '{name}' cannot be read: {problem.strerror}") from None
        except UnicodeDecodeError:
            raise ValueError(f"the file '{name}' is not UTF-8") from None

    return find


def _files(node: Node | None) -> Iterator[Entry]:
    """Give the `file` of every `script` of a python task, or the `uri` that stands for one."""
    if isinstance(node, Sequence):
        for item in node.items:
            yield from _files(item)
    if isinstance(node, Mapping):
        script = node.get("script")
        if "python" in (text_of(node.get("kind")), text_of(node.get("tool"))) and isinstance(script, Mapping):
            yield from (entry for entry in script.entries if _is_file(entry))
        for each in node.entries:
            yield from _files(each.value)


def _is_file(entry: Entry) -> bool:
    is_address = entry.key == "uri" and not has_template(entry.value) and _file_name(entry) is not None
    return entry.key == "file" or is_address


def _file_name(entry: Entry) -> str | None:
    """Return the file that an entry names; an address of another kind is none."""
    name = text_of(entry.value)
    if name is None or entry.key == "file":
        return name
    if name.startswith("file:///"):
        return unquote(name.removeprefix("file://"))
    return None if "://" in name else name


def _finding(file: str, place: Place, message: str) -> Diagnostic:
    return Diagnostic(file, place.line, place.column, Severity.ERROR, "script-file", message, width=place.width)


def _replace(lines: list[str], entry: Entry, script: str) -> bool:
    """Write `inline: "…"` over `file: …`, and say whether it stands on one line so that it could be done."""
    value = entry.value
    start = entry.place.column - 1
    line = lines[entry.place.line - 1]
    end = value.place.column - 1 + value.place.width
    is_simple = isinstance(value, Scalar) and not value.block and value.place.line == entry.place.line
    if not is_simple or end > len(line) or not line[start:].startswith(KEYS):
        return False
    lines[entry.place.line - 1] = f"{line[:start]}inline: {_quoted(script)}{line[end:]}"
    return True


def _quoted(text: str) -> str:
    """Return a text as YAML writes it between quotes on one line, whatever is in it."""
    return '"' + "".join(map(_escaped, text)) + '"'


def _escaped(char: str) -> str:
    if char in '"\\':
        return f"\\{char}"
    code = ord(char)
    if 0x20 <= code < 0x7F:
        return char
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"
