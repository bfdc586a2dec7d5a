"""What a decision record shows of a value: short, and never a secret."""

from __future__ import annotations

import json
import re
from typing import Any

MAX_CHARS = 200
MAX_PARTS = 40
MASK = "•••"
_SECRET = re.compile(
    r"passw|secret|token|authori[sz]ation|api[-_]?key|credential|cookie|private[-_]?key|bearer", re.IGNORECASE
)


def is_secret_name(name: object) -> bool:
    """Say whether a key sounds as if it held a secret."""
    return isinstance(name, str) and _SECRET.search(name) is not None


def shown_value(path: tuple[str | int, ...], value: Any) -> Any:
    """Return a value for people to read: masked under secret names, cut where it is long."""
    if any(is_secret_name(part) for part in path):
        return MASK
    if isinstance(value, str):
        plain = str(value)
        return plain if len(plain) <= MAX_CHARS else plain[: MAX_CHARS - 1] + "…"
    if isinstance(value, dict | list):
        text = json.dumps(_summary(value, [MAX_PARTS]), ensure_ascii=False, default=str)
        return json.loads(text) if len(text) <= MAX_CHARS else text[: MAX_CHARS - 1] + "…"
    return value


def _summary(value: Any, left: list[int]) -> Any:
    """Return the first few parts of some data, secrets masked, so that its size does not matter."""
    left[0] -= 1
    if left[0] < 0:
        return "…"
    if isinstance(value, dict):
        out: dict[str, Any] = {}
        for key, item in value.items():
            if left[0] <= 0:
                out["…"] = len(value)
                break
            out[key] = MASK if is_secret_name(key) else _summary(item, left)
        return out
    if isinstance(value, list):
        return [_summary(item, left) for item in value[: max(0, left[0])]]
    return value[:MAX_CHARS] if isinstance(value, str) else value
