"""Texts that must not be shown, found in every spelling in which programs repeat them."""

from __future__ import annotations

import base64
import html
import json
import re
from collections import OrderedDict
from collections.abc import Iterable, Iterator
from functools import lru_cache
from itertools import groupby
from typing import Any

from shared.contracts.credentials import SHORTEST_SECRET

HIDDEN = "[hidden]"
# Shorter pieces are in too many texts that have nothing to do with a secret.
SHORTEST_PIECE = 8
SHORTEST_LINE = 16
MAX_IN_LOGS = 1000

_PLAIN = re.compile(r"[A-Za-z0-9]+")
# Some backslashes before a character, all there are; and those without which an escape is none, unless they belong to
# the character before.
_BACKSLASHES = r"(?:\\{1,8}+)?+"
_ESCAPE = r"(?:\\{1,8}+|(?<=\\))"
_ESCAPED = {"\n": "n", "\r": "r", "\t": "t", "\b": "b", "\f": "f"}


class Hiding:
    """Hides some texts: as they are, escaped for JSON, URLs or HTML, in base64, and cut off at an end."""

    def __init__(self, secrets: Iterable[str]) -> None:
        texts = sorted({each for text in secrets for each in _worth_hiding(text)}, key=len, reverse=True)
        spelled = [(_anchor(text), _spelled(text)) for text in texts]
        encoded = {core for text in texts for core in _in_base64(text)}
        spelled += [(core, re.escape(core)) for core in sorted(encoded, key=len, reverse=True)]
        self._anchors = tuple(dict.fromkeys(anchor for anchor, _ in spelled))
        self._pattern = re.compile("|".join(pattern for _, pattern in spelled)) if spelled else None
        self._long = tuple(text for text in texts if len(text) > SHORTEST_PIECE)

    def __bool__(self) -> bool:
        return self._pattern is not None

    def __call__(self, text: str) -> str:
        """Return the text with what must not be shown replaced."""
        if self._pattern is None:
            return text
        # Looking for a piece that every spelling has in common is a hundred times as fast as matching.
        if any(anchor in text for anchor in self._anchors):
            text = self._pattern.sub(HIDDEN, text)
        for secret in self._long:
            text = _without_ends(text, secret)
        return text


@lru_cache(maxsize=64)
def hiding(secrets: tuple[str, ...]) -> Hiding:
    """Return what hides these texts."""
    return Hiding(secrets)


class Veil:
    """Hides what was lent lately from log lines, whichever job or library writes them."""

    def __init__(self, limit: int = MAX_IN_LOGS) -> None:
        self._limit = limit
        self._texts: OrderedDict[str, None] = OrderedDict()
        self._hiding: Hiding | None = None

    def add(self, texts: Iterable[str]) -> None:
        """Hide these texts from now on; those that were added longest ago are forgotten first."""
        for text in texts:
            if text not in self._texts:
                self._texts[text] = None
                self._hiding = None
            self._texts.move_to_end(text)
        while len(self._texts) > self._limit:
            self._texts.popitem(last=False)
            self._hiding = None

    def __call__(self, text: str) -> str:
        """Return a log line without them."""
        if self._hiding is None:
            self._hiding = Hiding(self._texts)
        return self._hiding(text)


def _worth_hiding(text: str) -> Iterator[str]:
    """Give a secret and those of its parts that are secret by themselves: long lines, and the texts in JSON."""
    if len(text) >= SHORTEST_SECRET:
        yield text
    if "\n" in text:
        yield from (line.strip() for line in text.splitlines() if len(line.strip()) >= SHORTEST_LINE)
    if text.lstrip().startswith(("{", "[")):
        try:
            yield from (part for part in _texts_in(json.loads(text)) if len(part) >= SHORTEST_PIECE)
        except (ValueError, RecursionError):
            return


def _texts_in(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for item in value.values() if isinstance(value, dict) else value:
            yield from _texts_in(item)


def _anchor(text: str) -> str:
    """Return the longest piece that is the same in every spelling but base64."""
    return max(_PLAIN.findall(text), key=len, default="")


def _spelled(text: str) -> str:
    """Return a pattern of a text as it is, and escaped for JSON, Python, SQL, a URL or HTML, even partly.

    Nothing in it can match the same piece in two ways for long: it is run on what others send.
    """
    runs = ((char, len(list(run))) for char, run in groupby(text))
    return f"{''.join(_spelled_run(char, count) for char, count in runs)}|{re.escape(text)}"


def _spelled_run(char: str, count: int) -> str:
    if char == "\\":
        return rf"(?:\\{{{count},}}+|(?:%5[Cc]){{{count}}}|(?:&#92;){{{count}}})"
    if char in "'\"":
        # A quotation mark is escaped with another one, too.
        plain = rf"(?:{_BACKSLASHES}{char}){{{count},{2 * count}}}+"
        return f"(?:{plain}|(?:{'|'.join(_escapes(char))}){{{count}}})"
    return _spelled_char(char) * count


def _spelled_char(char: str) -> str:
    if _PLAIN.fullmatch(char):
        return char
    return f"(?:{'|'.join([*_escapes(char), _BACKSLASHES + re.escape(char)])})"


def _escapes(char: str) -> list[str]:
    """Return patterns of one character as it is written where it cannot stand for itself."""
    raw = char.encode("utf-8", "surrogatepass")
    units = char.encode("utf-16-be", "surrogatepass").hex()
    spellings = [
        "".join(f"%(?i:{byte:02x})" for byte in raw),
        "".join(rf"{_ESCAPE}u(?i:{units[at : at + 4]})" for at in range(0, len(units), 4)),
        "".join(rf"{_ESCAPE}x(?i:{byte:02x})" for byte in raw),
        f"&#(?:{ord(char)}|x0{{0,4}}(?i:{ord(char):x}));",
    ]
    if (escaped := html.escape(char)) != char:
        spellings.append(re.escape(escaped))
    if char in _ESCAPED:
        spellings.append(f"{_ESCAPE}{_ESCAPED[char]}")
    if char == " ":
        spellings.append(r"\+")
    return spellings


def _in_base64(text: str) -> Iterator[str]:
    """Give what every base64 of a text with this one in it contains, wherever in it this one begins."""
    raw = text.encode("utf-8", "surrogatepass")
    if len(raw) < SHORTEST_PIECE:
        return
    for skipped in range(3):
        # Only groups of three bytes that lie wholly within the text are the same whatever stands around it.
        inner = raw[(3 - skipped) % 3 :]
        core = inner[: len(inner) // 3 * 3]
        for encoded in (base64.b64encode(core), base64.urlsafe_b64encode(core)):
            yield encoded.decode()


def _without_ends(text: str, secret: str) -> str:
    """Return a text that was cut in the middle of a secret without the piece of it."""
    head, tail = secret[:SHORTEST_PIECE], secret[-SHORTEST_PIECE:]
    if head in (end := text[-len(secret) :]):
        at = end.rindex(head)
        if secret.startswith(end[at:]):
            text = text[: len(text) - len(end) + at] + HIDDEN
    # What is cut at its beginning is marked with an ellipsis and a space.
    if tail in (start := text[: len(secret) + 2]):
        size = start.index(tail) + len(tail)
        piece = start[:size].removeprefix("…").lstrip()
        if secret.endswith(piece):
            text = HIDDEN + text[size:]
    return text
