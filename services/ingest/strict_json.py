"""JSON from outside, read strictly: only what can be stored, computed with and sent on."""

from __future__ import annotations

import json
import math
import re
from typing import Any

from services.ingest.problems import ErrorItem, Problem

MAX_DEPTH = 100
MAX_INTEGER = 2**63 - 1
MAX_INTEGER_CHARS = 20

_SURROGATE = re.compile("[\ud800-\udfff]")


class NotStrictError(ValueError):
    """The text is no JSON that is taken; the message says why."""


def parse(body: bytes) -> Any:
    """Return the value of a JSON text; raise the problem that says what is wrong with it."""
    try:
        text = body.decode("utf-8-sig")
        value = json.loads(text, parse_constant=_constant, parse_int=_integer, parse_float=_float)
        _check(text, value)
        return value
    except UnicodeDecodeError as problem:
        raise _refused(f"the body is not UTF-8: {problem.reason} at byte {problem.start}") from None
    except json.JSONDecodeError as problem:
        detail = f"the body is no JSON: {problem.msg}"
        item = ErrorItem(line=problem.lineno, column=problem.colno, message=problem.msg, code="json")
        raise Problem(422, f"{detail} at line {problem.lineno}, column {problem.colno}", errors=[item]) from None
    except NotStrictError as problem:
        raise _refused(str(problem)) from None
    except RecursionError:
        raise _refused(f"the body is nested deeper than {MAX_DEPTH} levels") from None


def _refused(message: str) -> Problem:
    return Problem(422, message, errors=[ErrorItem(message=message, code="json")])


def _constant(word: str) -> Any:
    raise NotStrictError(f"{word} is no JSON")


def _integer(text: str) -> int:
    if len(text) > MAX_INTEGER_CHARS or abs(int(text)) > MAX_INTEGER:
        raise NotStrictError(f"the number {text[:24]}{'…' if len(text) > 24 else ''} does not fit in 64 bits")
    return int(text)


def _float(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise NotStrictError(f"the number {text[:24]} is too large")
    return number


def _check(text: str, value: Any) -> None:
    """Raise NotStrictError for what only a look at every part can find, if there is reason for that look."""
    if text.count("{") + text.count("[") > MAX_DEPTH:
        _check_depth(value)
    if "\\u" in text:
        _check_texts(value)


def _check_depth(value: Any) -> None:
    level = [value]
    for _ in range(MAX_DEPTH):
        level = [item for part in level for item in _parts(part) if isinstance(item, dict | list)]
        if not level:
            return
    raise NotStrictError(f"the body is nested deeper than {MAX_DEPTH} levels")


def _check_texts(value: Any) -> None:
    waiting = [value]
    while waiting:
        part = waiting.pop()
        if isinstance(part, str):
            _check_text(part)
        elif isinstance(part, dict):
            for key in part:
                _check_text(key)
        waiting.extend(_parts(part))


def _parts(value: Any) -> list[Any]:
    if isinstance(value, dict):
        return list(value.values())
    return value if isinstance(value, list) else []


def _check_text(text: str) -> None:
    if "\0" in text:
        raise NotStrictError("a text holds the character NUL, which cannot be stored")
    if _SURROGATE.search(text):
        raise NotStrictError("a text holds half of a surrogate pair, which is no text")
