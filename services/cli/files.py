"""The playbook files that a command was given: named, below a folder, or on standard input."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from shared.language.diagnostics import Diagnostic, Severity, nearest

STDIN = "-"
STDIN_SHOWN = "<stdin>"
SUFFIXES = (".yaml", ".yml")
MOST_BYTES = 64 * 1024 * 1024
_TOP_KEYS = re.compile(rb"^(tests|workflow):", re.M)


@dataclass(frozen=True, slots=True)
class Source:
    """A file that was read."""

    file: str
    content: bytes

    @property
    def text(self) -> str:
        """Return the text as people see it in an editor."""
        return self.content.decode("utf-8", "replace").removeprefix("\ufeff")


@dataclass(frozen=True, slots=True)
class Unreadable:
    """A name that leads to nothing that can be read."""

    file: str
    reason: str
    hint: str | None = None

    def diagnostic(self) -> Diagnostic:
        """Return the same as a finding, for those who list findings."""
        return Diagnostic(self.file, 1, 1, Severity.ERROR, "unreadable", self.reason, self.hint)


def read_playbook_files(names: Iterable[str]) -> Iterator[Source | Unreadable]:
    """Yield every file once, without the tests that lie beside playbooks, unless they are named."""
    named = set(names)
    for source in read_all(names):
        if source.file in named or not _holds_tests(source):
            yield source


def read_all(names: Iterable[str]) -> Iterator[Source | Unreadable]:
    """Yield every file once, folders as the YAML files below them in the order of their paths."""
    seen: set[str] = set()
    for name in names:
        for found in _expand(name):
            shown = found if isinstance(found, str) else found.file
            if shown not in seen:
                seen.add(shown)
                yield read(found) if isinstance(found, str) else found


def read(name: str) -> Source | Unreadable:
    """Return what a file holds, up to far more than any playbook may."""
    try:
        if name == STDIN:
            return Source(STDIN_SHOWN, _read_stdin())
        with open(name, "rb") as file:
            return Source(name, file.read(MOST_BYTES))
    except FileNotFoundError as problem:
        return Unreadable(name, _reason(problem), _near(name))
    except (OSError, ValueError) as problem:
        return Unreadable(STDIN_SHOWN if name == STDIN else name, _reason(problem))


def _holds_tests(source: Source | Unreadable) -> bool:
    """Say whether a file is one of tests: those lie beside playbooks, and `redrive test` reads them."""
    keys = _TOP_KEYS.findall(source.content) if isinstance(source, Source) else []
    return b"tests" in keys and b"workflow" not in keys


def _read_stdin() -> bytes:
    if sys.stdin is None:
        raise OSError("standard input is closed")
    return sys.stdin.buffer.read(MOST_BYTES)


def _expand(name: str) -> Iterator[str | Unreadable]:
    if name == STDIN or not os.path.isdir(name):
        yield name
        return
    problems: list[Unreadable] = []
    found = sorted(_below(name, problems))
    yield from found
    yield from problems
    if not found and not problems:
        yield Unreadable(name, "the folder holds no *.yaml or *.yml file")


def _below(folder: str, problems: list[Unreadable]) -> Iterator[str]:
    def note(problem: OSError) -> None:
        problems.append(Unreadable(str(problem.filename), _reason(problem)))

    for place, folders, files in os.walk(folder, onerror=note):
        folders[:] = [name for name in folders if not name.startswith(".")]
        for name in files:
            if name.lower().endswith(SUFFIXES) and not name.startswith("."):
                yield os.path.join(place, name)


def _reason(problem: OSError | ValueError) -> str:
    said = problem.strerror if isinstance(problem, OSError) else None
    return f"cannot be read: {said or problem}"


def _near(name: str) -> str | None:
    folder, base = os.path.split(name)
    try:
        others = [other for other in os.listdir(folder or ".") if other.lower().endswith(SUFFIXES)]
    except (OSError, ValueError):
        return None
    stems = {os.path.splitext(other)[0]: other for other in others}
    near = nearest(os.path.splitext(base)[0], stems)
    return f"did you mean '{os.path.join(folder, stems[near])}'?" if near else None
