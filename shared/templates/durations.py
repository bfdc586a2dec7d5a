"""Durations as people write them: 2, '500ms', '1h30m', 'PT5M'."""

import math
import re
from datetime import timedelta
from decimal import Decimal

_NUMBER = r"[0-9]{1,18}(?:\.[0-9]{1,18})?|\.[0-9]{1,18}"
_PLAIN = re.compile(rf"(?:{_NUMBER})")
_PART = re.compile(rf"({_NUMBER})\s*(ms|[smhdw])")
_PARTS = re.compile(rf"(?:(?:{_NUMBER})\s*(?:ms|[smhdw])\s*)+")
_ISO = re.compile(
    rf"P(?!$)(?:({_NUMBER})W)?(?:({_NUMBER})D)?(?:T(?=[0-9.])(?:({_NUMBER})H)?(?:({_NUMBER})M)?(?:({_NUMBER})S)?)?"
)
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}
_ISO_SECONDS = (604_800, 86_400, 3600, 60, 1)
_MAX_WRITTEN = 100


def parse_duration(value: object) -> float:
    """Give seconds for a number, a number with units (ms s m h d w) or an ISO 8601 duration.

    Raises ValueError with a sentence for the author when the value is anything else, negative or not finite.
    """
    if isinstance(value, str):
        return _parse_text(value)
    if isinstance(value, timedelta):
        return _checked(value.total_seconds(), value)
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal):
        raise _not_a_duration(value)
    try:
        return _checked(float(value), value)
    except OverflowError:
        raise _not_a_duration(value) from None


def _parse_text(written: str) -> float:
    text = written.strip()
    if len(text) > _MAX_WRITTEN:
        raise _not_a_duration(written)
    if _PLAIN.fullmatch(text):
        return float(text)
    if iso := _ISO.fullmatch(text):
        amounts = zip(iso.groups(), _ISO_SECONDS, strict=True)
        return math.fsum(float(amount) * seconds for amount, seconds in amounts if amount)
    if _PARTS.fullmatch(text):
        return math.fsum(_seconds(amount, unit) for amount, unit in _PART.findall(text))
    if text.startswith("-") and _PARTS.fullmatch(text[1:] + ("s" if text[-1].isdigit() else "")):
        raise ValueError(f"a duration cannot be negative, but this is {text!r}")
    raise _not_a_duration(written)


def _seconds(amount: str, unit: str) -> float:
    return float(amount) / 1000 if unit == "ms" else float(amount) * _SECONDS[unit]


def _checked(seconds: float, value: object) -> float:
    if not math.isfinite(seconds):
        raise _not_a_duration(value)
    if seconds < 0:
        raise ValueError(f"a duration cannot be negative, but this is {_brief(value)}")
    return seconds


def _not_a_duration(value: object) -> ValueError:
    return ValueError(
        f"{_brief(value)} is no duration; write seconds (2, 0.5), a number with a unit (500ms, 2s, 5m, 1d),"
        " several of them (1h30m), or ISO 8601 (PT5M)"
    )


def _brief(value: object) -> str:
    if isinstance(value, str | float | bool | Decimal | timedelta) or value is None:
        return repr(value)[:60]
    if isinstance(value, int) and value.bit_length() <= 128:
        return str(value)
    return f"a value of type {type(value).__name__}"
