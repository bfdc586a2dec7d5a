"""Values as files and tables take them: valid JSON, or one text per cell."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from typing import Any

REPLACEMENT = "\ufffd"
_SURROGATES = re.compile("[\ud800-\udfff]")


def json_text(value: Any) -> str:
    """Return a value as JSON that everybody can read; raises ValueError when it nests too deeply or is too long.

    JSON has no word for NaN and infinities, and UTF-8 none for half a character: the first become texts, the second
    the replacement character.
    """
    try:
        text = _dumped(value)
    except (TypeError, ValueError):
        text = _dumped(_plain(value))
    except RecursionError:
        raise ValueError("a value nests too deeply") from None
    return clean(text)


def cell_text(value: Any) -> str | None:
    """Return a value as the text of one cell: lists and mappings as JSON, nothing for null."""
    if value is None:
        return None
    if isinstance(value, str):
        return clean(value)
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        return repr(value) if math.isfinite(value) else _named(value)
    return json_text(value)


def clean(text: str) -> str:
    """Return a text that UTF-8 can hold."""
    return text if text.isascii() else _SURROGATES.sub(REPLACEMENT, text)


def _dumped(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return _named(value)
    return value if value is None or isinstance(value, str | int | float) else str(value)


def _named(value: float) -> str:
    if math.isnan(value):
        return "NaN"
    return "Infinity" if value > 0 else "-Infinity"
