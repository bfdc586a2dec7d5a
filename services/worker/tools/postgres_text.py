"""SQL as text: where statements end, which of them steer transactions, and where parameters stand."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

MAX_WORDS = 4
# One alternative for each thing that is not to be looked into. A block comment nests, so only its start is here.
_TOKEN = re.compile(
    r"""
      (?P<comment>--[^\n]*)
    | (?P<block>/\*)
    | (?P<quoted>[eE]'(?:[^'\\]|\\.|'')*' | '(?:[^']|'')*' | "(?:[^"]|"")*")
    | (?P<open>[eE]?' | ")
    | (?P<dollar>\$(?:[^\W\d][\w]*)?\$)
    | (?P<number>\$[0-9]+)
    | (?P<word>[^\W\d][\w$]*)
    | (?P<figure>[0-9][\w.]*)
    | (?P<cast>::|:=)
    | (?P<colon>:[^\W\d]\w*)
    | (?P<percent>%\([^\W\d]\w*\)s)
    | (?P<space>\s+)
    | (?P<other>.)
    """,
    re.VERBOSE | re.DOTALL,
)
_COMMENT_EDGE = re.compile(r"/\*|\*/")
_CONTROL = frozenset({"BEGIN", "START", "COMMIT", "END", "ROLLBACK", "ABORT"})
_ROUTINES = ("FUNCTION", "PROCEDURE")
# What a colon may follow when it is part of a slice, `a[1:n]`, and begins no parameter.
_SLICE_BEFORE = frozenset({"word", "figure", "number", "quoted"})

TokenKind = Literal["number", "colon", "percent", "word", "space", "text"]


class SqlTextError(ValueError):
    """The text is no SQL that can be taken apart, or its parameters are not those that were given."""


@dataclass(frozen=True, slots=True)
class Token:
    """A piece of a statement, and whether it stands for a parameter."""

    kind: TokenKind
    text: str


@dataclass(frozen=True)
class Statement:
    """One statement, taken apart."""

    tokens: tuple[Token, ...]

    @cached_property
    def words(self) -> tuple[str, ...]:
        """Return the first words in capitals."""
        found = [token.text.upper() for token in self.tokens if token.kind == "word"]
        return tuple(found[:MAX_WORDS])

    @property
    def command(self) -> str:
        """Return the word that says what the statement does."""
        return self.words[0] if self.words else ""

    @property
    def steers_transactions(self) -> bool:
        """Say whether it begins or ends a transaction; going back to a savepoint does neither."""
        if self.command == "PREPARE":
            return self.words[1:2] == ("TRANSACTION",)
        return self.command in _CONTROL and "TO" not in self.words[1:3]

    @property
    def streams(self) -> bool:
        """Say whether it is a COPY that wants a client to read from or to write to."""
        names = {token.text.upper() for token in self.tokens if token.kind == "word"}
        return self.command == "COPY" and bool(names & {"STDIN", "STDOUT"})


@dataclass(frozen=True, slots=True)
class Bound:
    """A statement as the server takes it: parameters counted from $1, and for each its name and value."""

    text: str
    names: tuple[str, ...]
    values: tuple[Any, ...]


def split(text: str) -> list[Statement]:
    """Return the statements of a text, without those that are empty; raises SqlTextError."""
    found: list[Statement] = []
    tokens: list[Token] = []
    nesting = _Nesting()
    for token in _tokens(text):
        if token.text == ";" and token.kind == "text" and not nesting.is_inside:
            found.append(Statement(tuple(tokens)))
            tokens, nesting = [], _Nesting()
        else:
            nesting.enter(token)
            tokens.append(token)
    found.append(Statement(tuple(tokens)))
    return [statement for statement in found if any(token.kind != "space" for token in statement.tokens)]


def bind(statement: Statement, params: Sequence[Any] | Mapping[str, Any] | None) -> Bound:
    """Return a statement with its own parameters numbered from $1; raises SqlTextError for one that was not given."""
    places: dict[str, int] = {}
    values: list[Any] = []
    out: list[str] = []
    is_named = isinstance(params, Mapping)
    for token in statement.tokens:
        name = _parameter(token, is_named)
        if name is None:
            out.append(token.text)
            continue
        if name not in places:
            values.append(_value(name, params))
            places[name] = len(values)
        out.append(f"${places[name]}")
    return Bound("".join(out).strip(), tuple(places), tuple(values))


def used(statements: Sequence[Statement]) -> int:
    """Return the highest number among the parameters $1, $2, …"""
    numbers = (int(token.text[1:]) for statement in statements for token in statement.tokens if token.kind == "number")
    return max(numbers, default=0)


def _parameter(token: Token, is_named: bool) -> str | None:
    if token.kind == "number":
        if is_named:
            raise SqlTextError(f"params is a mapping, so {token.text} stands for nothing; write :name")
        return token.text
    if is_named and token.kind == "colon":
        return token.text[1:]
    if is_named and token.kind == "percent":
        return token.text[2:-2]
    return None


def _value(name: str, params: Sequence[Any] | Mapping[str, Any] | None) -> Any:
    if isinstance(params, Mapping):
        if name not in params:
            raise SqlTextError(f"the statement names the parameter '{name}', which params does not have")
        return params[name]
    given = params or ()
    number = int(name[1:])
    if not 1 <= number <= len(given):
        raise SqlTextError(f"the statement uses {name}, but params has {len(given)} values")
    return given[number - 1]


class _Nesting:
    """Knows where a semicolon ends no statement: in parentheses, and in the body of a routine."""

    def __init__(self) -> None:
        self._parentheses = 0
        self._blocks = 0
        self._words: list[str] = []

    @property
    def is_inside(self) -> bool:
        return self._parentheses > 0 or self._blocks > 0

    def enter(self, token: Token) -> None:
        if token.kind == "word":
            self._enter_word(token.text.upper())
        elif token.kind == "text" and token.text in "()":
            self._parentheses = max(0, self._parentheses + (1 if token.text == "(" else -1))

    def _enter_word(self, word: str) -> None:
        if len(self._words) < MAX_WORDS:
            self._words.append(word)
        if self._words[0] != "CREATE" or not any(name in self._words for name in _ROUTINES):
            return
        if word == "BEGIN" or (word == "CASE" and self._blocks):
            self._blocks += 1
        elif word == "END" and self._blocks:
            self._blocks -= 1


def _tokens(text: str) -> Iterator[Token]:
    """Give the pieces of a text; what is quoted is one of them, and a comment counts as a space."""
    at = 0
    before = ""
    while at < len(text):
        found = _TOKEN.match(text, at)
        assert found is not None
        kind, piece = found.lastgroup or "other", found.group()
        at = found.end()
        if kind == "open":
            raise SqlTextError(f"a quote that opens in line {_line(text, found.start())} is never closed")
        if kind == "block":
            at = _end_of_comment(text, found.start())
            piece = text[found.start() : at]
        elif kind == "dollar":
            at = _end_of_dollars(text, found.start(), piece)
            piece = text[found.start() : at]
        is_slice = kind == "colon" and (before in _SLICE_BEFORE or before in ("]", ")"))
        yield Token("text" if is_slice else _shown(kind), piece)
        before = piece if kind == "other" else kind


def _shown(kind: str) -> TokenKind:
    match kind:
        case "number" | "colon" | "percent" | "word" | "space":
            return kind
        case "comment" | "block":
            return "space"
        case _:
            return "text"


def _end_of_comment(text: str, start: int) -> int:
    depth = 0
    for edge in _COMMENT_EDGE.finditer(text, start):
        depth += 1 if edge.group() == "/*" else -1
        if depth == 0:
            return edge.end()
    raise SqlTextError(f"a comment that opens in line {_line(text, start)} is never closed")


def _end_of_dollars(text: str, start: int, mark: str) -> int:
    end = text.find(mark, start + len(mark))
    if end < 0:
        raise SqlTextError(f"a quote that opens with {mark} in line {_line(text, start)} is never closed")
    return end + len(mark)


def _line(text: str, at: int) -> int:
    return text.count("\n", 0, at) + 1
