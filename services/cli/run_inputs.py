"""What `redrive run` is given: the playbook with its scripts, others it may call, and the workload."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from services.cli.checking import show_findings, show_unreadable
from services.cli.files import Source, Unreadable, read, read_all
from services.cli.kinds import known_kinds
from services.cli.run_scripts import beside, inline_scripts
from shared.errors import RejectedError
from shared.language.compile import compile_playbook
from shared.language.diagnostics import Report
from shared.language.nodes import Mapping, plain
from shared.language.parse import parse

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*")


class InputError(RejectedError):
    """A file or option cannot be used; the message is what people read about it."""


@dataclass(frozen=True, slots=True)
class Playbook:
    """A playbook that compiles, with its scripts in its text."""

    file: str
    text: str
    name: str
    path: str


def read_playbook(name: str, *, colour: bool) -> Playbook:
    """Return a playbook file, its scripts in it; raises InputError with everything that is wrong with it."""
    source = read(name)
    if isinstance(source, Unreadable):
        raise InputError(show_unreadable(source, colour))
    return _compiled(source, colour)


def read_playbooks(folders: Sequence[str], *, colour: bool) -> list[Playbook]:
    """Return every playbook below the folders; other YAML files are left out. Raises InputError."""
    found: dict[str, Playbook] = {}
    problems: list[str] = []
    for source in read_all(folders):
        try:
            if isinstance(source, Unreadable):
                raise InputError(show_unreadable(source, colour))
            if not _is_playbook(source):
                continue
            made = _compiled(source, colour)
            if made.path in found:
                raise InputError(f"{made.file}: the path '{made.path}' is that of {found[made.path].file}, too")
            found[made.path] = made
        except InputError as problem:
            problems.append(str(problem))
    if problems:
        raise InputError("\n\n".join(problems))
    return list(found.values())


def workload_of(file: str | None, settings: Iterable[str]) -> dict[str, Any]:
    """Return the workload of a file with settings `a.b=value` laid over it; raises InputError."""
    workload: dict[str, Any] = {} if file is None else _mapping_of(file)
    for setting in settings:
        key, is_set, text = setting.partition("=")
        words = key.split(".")
        if not is_set or not all(words):
            raise InputError(f"--set {setting!r}: a setting is written name=value, or outer.inner=value")
        _put(workload, words, _value(text, f"--set {key}"))
    return workload


def credentials_of(given: Iterable[str]) -> dict[str, str]:
    """Return addresses by name, `@file` read from the file; raises InputError, which never repeats an address."""
    found: dict[str, str] = {}
    for item in given:
        name, is_given, address = item.partition("=")
        if not is_given or not _NAME.fullmatch(name) or not address:
            raise InputError("--credential: it is written NAME=postgresql://user:password@host/name, or NAME=@FILE")
        found[name] = _secret(name, address[1:]) if address.startswith("@") else address
    return found


def _secret(name: str, file: str) -> str:
    try:
        return Path(file).expanduser().read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError):
        raise InputError(f"--credential {name}: the file cannot be read") from None


def _compiled(source: Source, colour: bool) -> Playbook:
    compiled = compile_playbook(source.content, source.file, known_kinds())
    if compiled.plan is None:
        raise InputError(show_findings(compiled.errors, source.text, colour))
    made = inline_scripts(source.text, source.file, beside(source.file))
    if made.problems:
        raise InputError(show_findings(made.problems, source.text, colour))
    plan = compiled.plan
    return Playbook(source.file, made.text, plan.name, plan.path or plan.name)


def _is_playbook(source: Source) -> bool:
    """Say whether a file is meant to be a playbook, also if it is a wrong one."""
    root = parse(source.content, Report(source.file))
    return root is None or (isinstance(root, Mapping) and "workflow" in root.keys())  # noqa: SIM118


def _mapping_of(file: str) -> dict[str, Any]:
    source = read(file)
    if isinstance(source, Unreadable):
        raise InputError(f"--workload {file}: {source.reason}")
    value = _value(source.content, f"--workload {file}")
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise InputError(f"--workload {file}: a workload is a mapping")
    return value


def _value(text: str | bytes, what: str) -> Any:
    """Return what a text says in YAML, read as playbooks are."""
    if not text.strip():
        return None
    report = Report(what)
    root = parse(text, report)
    if root is None or report.diagnostics():
        raise InputError(f"{what}: {next((item.message for item in report.diagnostics()), 'it cannot be read')}")
    return plain(root)


def _put(workload: dict[str, Any], words: Sequence[str], value: Any) -> None:
    inner = workload
    for word in words[:-1]:
        if not isinstance(inner.get(word), dict):
            inner[word] = {}
        inner = inner[word]
    inner[words[-1]] = value
