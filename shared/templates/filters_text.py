"""Filters that give a text."""

import base64
import hashlib
import json
import re
from collections.abc import Callable, Mapping
from typing import Final
from urllib.parse import quote, quote_plus

from markupsafe import escape

from shared.templates.access import parse_path, pluck
from shared.templates.costs import charge_pattern
from shared.templates.formatting import percent_format
from shared.templates.limits import MAX_TEXT
from shared.templates.methods import replace_text, short_text
from shared.templates.operators import joined
from shared.templates.plain import built, json_text, plain_here, to_text
from shared.templates.problems import OperationError, over_limit
from shared.templates.run import Run
from shared.templates.sequences import elements

_MAX_INDENT = 8
_WORD = re.compile(r"\w+")


def text_of(run: Run, value: object) -> str:
    """Read the input of a text filter; null and undefined are empty."""
    text = to_text(run, value)
    run.charge(1 + (len(text) >> 6))
    return short_text(text)


def _lower(run: Run, value: object) -> str:
    return text_of(run, value).lower()


def _upper(run: Run, value: object) -> str:
    return text_of(run, value).upper()


def _capitalize(run: Run, value: object) -> str:
    return text_of(run, value).capitalize()


def _title(run: Run, value: object) -> str:
    text = text_of(run, value)
    run.charge(len(text) >> 2)
    words = re.split(r"([-\s({\[<]+)", text)
    return "".join(word[:1].upper() + word[1:].lower() for word in words)


def _trim(run: Run, value: object, chars: str | None = None) -> str:
    text = text_of(run, value)
    charge_pattern(run, text, chars)
    return text.strip(chars)


def _replace(run: Run, value: object, old: object, new: object, count: int = -1) -> object:
    return replace_text(run, text_of(run, value), text_of(run, old), text_of(run, new), count)


def _truncate(
    run: Run, value: object, length: int = 255, killwords: bool = False, end: str = "...", leeway: int = 5
) -> str:
    text = text_of(run, value)
    if len(text) <= length + leeway:
        return text
    if length < len(end):
        raise OperationError("value", f"truncate needs a length of at least {len(end)}")
    kept = text[: length - len(end)]
    return built(run, (kept if killwords else kept.rsplit(" ", 1)[0]) + end)


def _wordcount(run: Run, value: object) -> int:
    text = text_of(run, value)
    run.charge(len(text) >> 3)
    return sum(1 for _ in _WORD.finditer(text))


def _format(run: Run, value: object, *args: object, **kwargs: object) -> str:
    if args and kwargs:
        raise OperationError("type", "format takes positions or names, not both")
    return percent_format(run, text_of(run, value), kwargs or args)


def _indent(run: Run, value: object, width: int | str = 4, first: bool = False, blank: bool = False) -> str:
    text = text_of(run, value)
    if isinstance(width, int) and width > 1000:
        raise over_limit("it indents by more than 1000 characters")
    pad = width if isinstance(width, str) else " " * width
    if len(text) + (text.count("\n") + 1) * len(pad) > MAX_TEXT:
        raise over_limit("it builds a text beyond 1 MiB")
    lines = text.split("\n")
    run.charge(len(lines))
    rest = [pad + line if line.strip() or blank else line for line in lines[1:]]
    return built(run, "\n".join([pad + lines[0] if first else lines[0], *rest]))


def _center(run: Run, value: object, width: int = 80) -> str:
    if isinstance(width, int) and width > MAX_TEXT:
        raise over_limit("it builds a text beyond 1 MiB")
    return built(run, text_of(run, value).center(width))


def _urlencode(run: Run, value: object) -> str:
    if isinstance(value, Mapping):
        pairs: list[object] = list(value.items())
    elif isinstance(value, list | tuple):
        pairs = list(value)
    else:
        return built(run, quote(_encodable(run, value), safe="/"))
    run.charge(len(pairs))
    return joined(run, "&", [_query_pair(run, pair) for pair in pairs])


def _encodable(run: Run, value: object) -> str:
    text = text_of(run, value)
    run.charge(len(text) >> 2)
    return text


def _query_pair(run: Run, pair: object) -> str:
    match pair:
        case (key, item):
            return f"{quote_plus(_encodable(run, key))}={quote_plus(_encodable(run, item))}"
        case _:
            raise OperationError("type", "urlencode needs a text, a mapping or a list of pairs")


def _escape(run: Run, value: object) -> str:
    return built(run, str.__str__(escape(text_of(run, value))))


def _string(run: Run, value: object) -> str:
    return to_text(run, value)


def _join(run: Run, value: object, d: object = "", attribute: object = None) -> str:
    items = elements(run, value)
    run.charge(len(items))
    path = parse_path(attribute)
    return joined(run, text_of(run, d), [to_text(run, pluck(run, item, path)) for item in items])


def _tojson(run: Run, value: object, indent: int | None = None) -> str:
    if indent is None:
        return json_text(run, value)
    if isinstance(indent, bool) or not isinstance(indent, int) or not 0 <= indent <= _MAX_INDENT:
        raise OperationError("value", f"tojson indents by 0 to {_MAX_INDENT}")
    before = run.fuel
    plain = plain_here(run, value)
    run.charge((before - run.fuel) * indent)
    return built(run, json.dumps(plain, ensure_ascii=False, allow_nan=False, indent=indent))


def _from_json(run: Run, value: object) -> object:
    text = text_of(run, value)
    run.charge(len(text) >> 3)
    try:
        return plain_here(run, json.loads(text))
    except ValueError as error:
        raise OperationError("value", f"from_json: the text is no JSON ({error})") from None


def _b64encode(run: Run, value: object) -> str:
    return built(run, base64.b64encode(text_of(run, value).encode()).decode())


def _b64decode(run: Run, value: object) -> str:
    try:
        return built(run, base64.b64decode(text_of(run, value).encode(), validate=True).decode())
    except ValueError:
        raise OperationError("value", "b64decode: this is not the base64 of a text") from None


def _sha256(run: Run, value: object) -> str:
    return hashlib.sha256(text_of(run, value).encode()).hexdigest()


TEXT_FILTERS: Final[dict[str, Callable[..., object]]] = {
    "lower": _lower,
    "upper": _upper,
    "capitalize": _capitalize,
    "title": _title,
    "trim": _trim,
    "replace": _replace,
    "truncate": _truncate,
    "wordcount": _wordcount,
    "format": _format,
    "indent": _indent,
    "center": _center,
    "urlencode": _urlencode,
    "escape": _escape,
    "e": _escape,
    "string": _string,
    "join": _join,
    "tojson": _tojson,
    "to_json": _tojson,
    "from_json": _from_json,
    "fromjson": _from_json,
    "b64encode": _b64encode,
    "b64decode": _b64decode,
    "sha256": _sha256,
}
