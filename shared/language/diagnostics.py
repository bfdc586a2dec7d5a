"""What is wrong with a playbook, where, what was expected, and how it is shown to a person."""

from __future__ import annotations

import difflib
import unicodedata
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence, Set
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TypeAlias

from shared.language.place import Place, lines_of

MAX_DIAGNOSTICS = 200
MAX_SHOWN_COLUMNS = 160
MAX_TEXT = 400
MAX_LISTED = 12
_MAX_WORD = 128
_MAX_RANKED = 200

Hint: TypeAlias = str | Callable[[], str | None] | None


class Severity(StrEnum):
    """How much a finding matters: errors stop a playbook, warnings do not."""

    ERROR = "error"
    WARNING = "warning"
    INFO = "info"


_WEIGHT = {severity: place for place, severity in enumerate(Severity)}


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """One finding at one place of one file."""

    file: str
    line: int
    column: int
    severity: Severity
    code: str
    message: str
    hint: str | None = None
    width: int = 1

    def as_json(self) -> dict[str, object]:
        """Return the fields that `-o json` and problem documents promise."""
        return {
            "file": self.file,
            "line": self.line,
            "column": self.column,
            "severity": self.severity.value,
            "code": self.code,
            "message": self.message,
            "hint": self.hint,
        }


@dataclass(slots=True)
class Report:
    """Gather the findings about one file, each place and code once, and no more than a person can read.

    A hint that costs something to find may be given as a function: it is called only for findings that are kept.
    """

    file: str
    _found: dict[tuple[int, int, str, str], Diagnostic] = field(default_factory=dict)
    _kept: Counter[Severity] = field(default_factory=Counter)
    _left_off: Counter[Severity] = field(default_factory=Counter)

    def error(self, code: str, place: Place, message: str, hint: Hint = None) -> None:
        """Record something that keeps the playbook from running."""
        self._add(Severity.ERROR, code, place, message, hint)

    def warning(self, code: str, place: Place, message: str, hint: Hint = None) -> None:
        """Record something that is allowed and probably not meant."""
        self._add(Severity.WARNING, code, place, message, hint)

    def info(self, code: str, place: Place, message: str, hint: Hint = None) -> None:
        """Record a fact worth knowing."""
        self._add(Severity.INFO, code, place, message, hint)

    @property
    def has_errors(self) -> bool:
        """Say whether anything found keeps the playbook from running."""
        return self._kept[Severity.ERROR] > 0

    def diagnostics(self) -> tuple[Diagnostic, ...]:
        """Return the findings in the order of their places."""
        ordered = sorted(self._found.values(), key=in_order)
        worst = next((severity for severity in Severity if self._left_off[severity]), None)
        if worst is not None:
            last = ordered[-1]
            message = f"{self._left_off.total()} more findings are not shown"
            ordered.append(Diagnostic(self.file, last.line, last.column, worst, "too-many-problems", message))
        return tuple(ordered)

    def _add(self, severity: Severity, code: str, place: Place, message: str, hint: Hint) -> None:
        text = _presentable(message)
        key = (place.line, place.column, code, text)
        if key in self._found:
            return
        if self._kept[severity] >= MAX_DIAGNOSTICS:
            self._left_off[severity] += 1
            return
        said = hint() if callable(hint) else hint
        self._kept[severity] += 1
        self._found[key] = Diagnostic(
            self.file,
            max(1, place.line),
            max(1, place.column),
            severity,
            code,
            text,
            _presentable(said) if said else None,
            max(1, place.width),
        )


def in_order(item: Diagnostic) -> tuple[int, int, int, str]:
    """Return the key by which findings are sorted: place first, then what matters more."""
    return (item.line, item.column, _WEIGHT[item.severity], item.code)


def nearest(word: str, known: Iterable[str]) -> str | None:
    """Return the known word that the author probably meant, if one is near."""
    if len(word) > _MAX_WORD:
        return None
    by_lower = {item.lower(): item for item in known}
    found = difflib.get_close_matches(word.lower(), by_lower, n=1, cutoff=0.6)
    return by_lower[found[0]] if found else None


def did_you_mean(word: str, known: Iterable[str], expected: str = "expected one of") -> str:
    """Say which word was probably meant, or list the words that are known."""
    words = sorted(known) if isinstance(known, Set) else list(dict.fromkeys(known))
    near = nearest(word, words)
    if near is not None:
        return f"did you mean '{near}'?"
    return f"{expected}: {listed(words, word)}" if words else f"{expected}: nothing"


def listed(words: Collection[str], near: str = "") -> str:
    """Return words for a sentence: all of a few, of many those that come nearest to one."""
    if len(words) <= MAX_LISTED:
        return ", ".join(words)
    shown = list(words)[:MAX_LISTED]
    if near and len(words) <= _MAX_RANKED:
        ranked = difflib.get_close_matches(near[:_MAX_WORD].lower(), words, n=MAX_LISTED, cutoff=0.0)
        shown = [word for word in words if word in ranked]
    return f"{', '.join(shown)} and {len(words) - len(shown)} more"


def render(diagnostics: Sequence[Diagnostic], source: str, *, colour: bool = False) -> str:
    """Return the findings as people read them: place, message, the line with a caret, the hint."""
    lines = lines_of(source)
    return "\n\n".join(_render_one(item, lines, colour) for item in diagnostics)


_COLOURS = {Severity.ERROR: "31;1", Severity.WARNING: "33;1", Severity.INFO: "36;1"}


def _render_one(item: Diagnostic, lines: Sequence[str], colour: bool) -> str:
    def paint(code: str, text: str) -> str:
        return f"\x1b[{code}m{text}\x1b[0m" if colour else text

    tone = _COLOURS[item.severity]
    head = (
        f"{paint('1', f'{item.file}:{item.line}:{item.column}')}: "
        f"{paint(tone, item.severity.value)}[{item.code}]: {item.message}"
    )
    out = [head]
    if 1 <= item.line <= len(lines):
        text, caret = _window(lines[item.line - 1], item.column, item.width)
        gutter = str(item.line)
        blank = " " * len(gutter)
        out.append(f"  {paint('2', gutter + ' |')} {text}")
        out.append(f"  {paint('2', blank + ' |')} {paint(tone, caret)}")
    if item.hint:
        out.append(f"  {paint('36', 'hint')}: {item.hint}")
    return "\n".join(out)


def _presentable(text: str) -> str:
    """Keep what an author wrote from acting on a terminal or filling it."""
    cut = text if len(text) <= MAX_TEXT else text[: MAX_TEXT - 1] + "…"
    return _shown(cut)


def _shown(line: str) -> str:
    """Replace what a terminal would act on, one character for one, so that the caret stays in place."""
    return "".join(char if char.isprintable() else ("·" if char != "\t" else " ") for char in line)


def _window(text: str, column: int, width: int) -> tuple[str, str]:
    """Cut a long line around the column and return it with the caret line beneath."""
    start = max(0, column - MAX_SHOWN_COLUMNS // 2) if len(text) > MAX_SHOWN_COLUMNS else 0
    shown = _shown(text[start : start + MAX_SHOWN_COLUMNS])
    offset = max(0, min(column - 1 - start, len(shown)))
    run = max(1, min(width, len(shown) - offset))
    return shown, " " * _cells(shown[:offset]) + "^" * max(1, _cells(shown[offset : offset + run]))


def _cells(text: str) -> int:
    """Return how many columns of a terminal a text takes."""
    return sum(0 if unicodedata.combining(char) else 1 + (unicodedata.east_asian_width(char) in "WF") for char in text)
