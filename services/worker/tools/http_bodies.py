"""Bodies and queries of HTTP: data to what goes over the wire, and bytes that came back to data."""

from __future__ import annotations

import base64
import binascii
import codecs
import json
import math
import re
from dataclasses import dataclass
from typing import Any

# Deeper data would be data that a later reader of it, of whatever kind, may break on.
MAX_DEPTH = 200
_JSON_TYPE = re.compile(r"[\w.+-]+/(?:json|[\w.+-]+\+json)")
_TEXT_TYPE = re.compile(
    r"text/.+|[\w.+-]+/[\w.+-]*(?:json|xml|yaml|csv|javascript|graphql)[\w.+-]*|application/x-www-form-urlencoded"
)
# What Python calls an encoding and is none that a text is sent in; some take for ever.
_NO_CHARSETS = frozenset({"idna", "punycode", "raw-unicode-escape", "undefined", "unicode-escape", "utf-7"})
_CHARSET = re.compile(r"charset\s*=\s*\"?([\w.:-]+)", re.I)


@dataclass(frozen=True, slots=True)
class Content:
    """A body to send, as arguments of the client, and its content type where the client does not know it."""

    arguments: dict[str, Any]
    kind: str | None = None


@dataclass(frozen=True, slots=True)
class Body:
    """A body as data, with a note where it is not quite what was announced."""

    value: Any
    note: str | None = None
    encoding: str | None = None


def query_of(params: dict[str, Any]) -> dict[str, Any]:
    """Return query parameters: null is left out, a list is repeated, a mapping is JSON."""
    return {name: _query_value(value) for name, value in params.items() if value is not None}


def form_of(fields: Any) -> dict[str, Any]:
    """Return form fields, spelled as query parameters are."""
    if not isinstance(fields, dict):
        raise ValueError("form fields are a mapping")
    return query_of(fields)


def json_content(value: Any) -> Content:
    """Return a JSON body."""
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return Content({"content": text.encode()}, "application/json")


def content_of(value: Any) -> Content:
    """Return the body for a value: a text as it is, nothing for null, data as JSON."""
    if value is None:
        return Content({})
    if isinstance(value, str):
        return Content({"content": value.encode()}, "text/plain; charset=utf-8")
    return json_content(value)


def parts_of(files: dict[str, Any]) -> dict[str, tuple[str, bytes, str]]:
    """Return the parts of an upload: a text, or a mapping with content or base64, filename, content_type."""
    return {name: _part(name, value) for name, value in files.items()}


def read_body(raw: bytes, content_type: str) -> Body:
    """Return the bytes of an answer as data: JSON parsed, text decoded, everything else as base64."""
    if not raw:
        return Body(None)
    kind = content_type.partition(";")[0].strip().lower()
    if _JSON_TYPE.fullmatch(kind):
        try:
            return Body(parse_json(raw))
        except (ValueError, RecursionError) as problem:
            return Body(_decoded(raw, content_type), f"the body is said to be JSON and is not: {str(problem)[:200]}")
    if _TEXT_TYPE.fullmatch(kind):
        return Body(_decoded(raw, content_type))
    try:
        return Body(raw.decode())
    except UnicodeDecodeError:
        return binary_body(raw, kind or "no content type")


def binary_body(raw: bytes, what: str) -> Body:
    """Return bytes as base64, with a note that says what they are."""
    return Body(base64.b64encode(raw).decode("ascii"), f"the body is binary ({what}) and is given as base64", "base64")


def parse_json(raw: bytes | str) -> Any:
    """Return the data of a JSON text; NaN, Infinity, numbers beyond any float and deep nests are none that is taken."""
    found = json.loads(raw, parse_constant=_refused, parse_float=_finite)
    if nests_deeper_than(found, MAX_DEPTH):
        raise ValueError(f"it nests deeper than {MAX_DEPTH} levels")
    return found


def nests_deeper_than(value: Any, levels: int) -> bool:
    """Say whether lists and mappings lie deeper within one another than this."""
    level = [value]
    for _ in range(levels + 1):
        level = [
            item
            for holder in level
            if isinstance(holder, dict | list)
            for item in (holder.values() if isinstance(holder, dict) else holder)
            if isinstance(item, dict | list)
        ]
        if not level:
            return False
    return True


def _refused(word: str) -> Any:
    raise ValueError(f"{word} is no JSON")


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError("a number is too large")
    return number


def _decoded(raw: bytes, content_type: str) -> str:
    named = _CHARSET.search(content_type)
    try:
        name = codecs.lookup(named[1]).name if named else "utf-8"
        return raw.decode("utf-8" if name in _NO_CHARSETS else name, errors="replace")
    except (LookupError, UnicodeError):
        return raw.decode("utf-8", errors="replace")


def _query_value(value: Any) -> Any:
    if isinstance(value, dict):
        return json.dumps(value, ensure_ascii=False)
    if isinstance(value, list):
        return [_query_value(item) for item in value if item is not None]
    return value


def _part(name: str, value: Any) -> tuple[str, bytes, str]:
    given = value if isinstance(value, dict) else {"content": value}
    unknown = set(given) - {"content", "base64", "filename", "content_type"}
    if unknown:
        raise ValueError(f"files.{name} has no field {', '.join(sorted(unknown))}")
    filename = str(given.get("filename", name))
    kind = str(given.get("content_type", "application/octet-stream"))
    if "base64" in given:
        try:
            return filename, base64.b64decode(str(given["base64"]), validate=True), kind
        except binascii.Error:
            raise ValueError(f"files.{name}.base64 is no base64") from None
    content = given.get("content")
    text = content if isinstance(content, str) else json.dumps(content, ensure_ascii=False, allow_nan=False)
    return filename, text.encode(), kind
