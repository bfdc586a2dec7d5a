"""What an attempt says, made fit to be sent: plain JSON, no secrets, large results by reference."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from services.worker.hiding import hiding
from services.worker.values import Values
from shared.contracts.outcomes import Outcome, failure
from shared.contracts.references import MISSING, member
from shared.engine.world import INLINE_BYTES, canonical_json

MAX_SELECTED_BYTES = 16 * 1024
MAX_OUTCOME_BYTES = 192 * 1024
MAX_SELECTED_FIELDS = 64
UNSTORABLE = re.compile("[\x00\ud800-\udfff]")
REPLACEMENT = "\ufffd"


async def packed(outcome: Outcome, select: Sequence[str], values: Values) -> Outcome:
    """Return the outcome as it can be sent: a result over 64 KB stored, the selected fields beside its reference."""
    if outcome.result is None:
        return _bounded(outcome)
    try:
        text = _text_of(outcome.result)
    except (TypeError, ValueError, RecursionError) as problem:
        reason = "it nests too deeply" if isinstance(problem, RecursionError) else str(problem)[:200]
        return replace(failure("exception", f"the result is no JSON: {reason}"), meta=outcome.meta)
    if UNSTORABLE.search(text) or "\\u0000" in text:
        outcome = _cleaned(outcome)
        text = _text_of(outcome.result)
    if len(text) <= INLINE_BYTES and len(text.encode()) <= INLINE_BYTES:
        return _bounded(outcome)
    reference = await values.store(text)
    return _bounded(replace(outcome, result={**_selected(outcome.result, select), **reference}))


def without_secrets(outcome: Outcome, secrets: Sequence[str]) -> Outcome:
    """Return the outcome with what must not be shown hidden, wherever it is said."""
    hide = hiding(tuple(secrets))
    if not hide:
        return outcome
    said = {"result": outcome.result, "error": outcome.error, "meta": outcome.meta, "extras": outcome.extras}
    return replace(outcome, **_mapped(said, hide))


def _text_of(value: Any) -> str:
    text = canonical_json(value)
    # The word may be part of a text; only then is it worth walking through everything.
    if "NaN" in text or "Infinity" in text:
        json.dumps(value, allow_nan=False)
    return text


def _selected(result: Any, select: Sequence[str]) -> dict[str, Any]:
    """Return the fields that stay readable, as long as they are small; the others are in the stored value."""
    out: dict[str, Any] = {}
    size = 0
    for name in select[:MAX_SELECTED_FIELDS]:
        key = name.partition(".")[0]
        found = member(result, key, is_first=True)
        if found is MISSING or key in out:
            continue
        size += len(canonical_json(found).encode())
        if size > MAX_SELECTED_BYTES:
            break
        out[key] = found
    return out


def _cleaned(outcome: Outcome) -> Outcome:
    result = _mapped(outcome.result, lambda text: UNSTORABLE.sub(REPLACEMENT, text))
    if result == outcome.result:
        return outcome
    notes = [*outcome.meta.get("notes", ()), "characters that cannot be stored (NUL, lone surrogates) were replaced"]
    return replace(outcome, result=result, meta={**outcome.meta, "notes": notes})


def _bounded(outcome: Outcome) -> Outcome:
    """Return the outcome without what makes it too large to be sent, or unfit to be stored, besides its result."""
    rest = {"error": outcome.error, "meta": outcome.meta, "extras": outcome.extras}
    if not any(rest.values()):
        return outcome
    clean = _mapped(rest, lambda text: UNSTORABLE.sub(REPLACEMENT, text) if UNSTORABLE.search(text) else text)
    outcome = replace(outcome, **clean)
    if len(json.dumps(clean, default=str)) <= MAX_OUTCOME_BYTES - INLINE_BYTES:
        return outcome
    error = outcome.error or {}
    short: dict[str, Any] = {
        key: _short(error[key]) for key in ("kind", "message", "code", "status", "retryable") if key in error
    }
    return replace(outcome, error=short or None, meta={"notes": ["details were too large to send"]}, extras={})


def _short(value: Any) -> Any:
    return value[:500] if isinstance(value, str) else value


def _mapped(value: Any, change: Callable[[str], str]) -> Any:
    """Return the data with every text in it changed; what is no JSON becomes text."""
    if isinstance(value, str):
        return change(value)
    if isinstance(value, Mapping):
        return {change(str(key)): _mapped(item, change) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_mapped(item, change) for item in value]
    if value is None or isinstance(value, bool | int):
        return value
    if isinstance(value, float) and math.isfinite(value):
        return value
    return change(str(value))
