"""The context of an event as people and outside programs may see it: small, without secrets, without step data."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from shared.contracts.events import MAX_ERROR_TEXT, Event
from shared.contracts.references import is_reference
from shared.engine.redaction import is_secret_name

MAX_VALUE_BYTES = 10 * 1024
STEP_RESULTS = "_step_results"
_DATA_TYPES = {
    "dict": "object", "list": "array", "str": "string", "int": "number", "float": "number", "bool": "boolean",
    "NoneType": "null",
}  # fmt: skip


def sanitised(context: dict[str, Any]) -> dict[str, Any]:
    """Return the context without secrets and private keys, large values replaced by their size."""
    out: dict[str, Any] = {}
    for key, value in context.items():
        if key == STEP_RESULTS:
            out[key] = _bounded({str(step): _metadata(result) for step, result in _items(value)})
        elif not key.startswith("_") and not is_secret_name(key):
            out[key] = _bounded(_without_secrets(value))
    return out


def sanitised_fact(fact: Event) -> Event:
    """Return a fact from outside as it is stored: its context sanitised, the text of its error short."""
    if not fact.meta:
        return fact
    meta = dict(fact.meta)
    if "context" in meta:
        context = meta.pop("context")
        if isinstance(context, dict):
            meta["context"] = sanitised(context)
    error = meta.get("error")
    if isinstance(error, dict) and isinstance(error.get("message"), str):
        meta["error"] = {**error, "message": error["message"][:MAX_ERROR_TEXT]}
    return replace(fact, meta=meta)


def _items(value: Any) -> list[tuple[Any, Any]]:
    return list(value.items()) if isinstance(value, dict) else []


def _metadata(result: Any) -> dict[str, Any]:
    """Return what is told of a step's result: that there is one, how it ended, what type it has."""
    if isinstance(result, dict) and set(result) <= {"has_data", "status", "data_type"}:
        return dict(result)
    envelope = result if isinstance(result, dict) else {}
    data = envelope.get("data", envelope.get("result", result))
    status = envelope.get("status")
    kind = _DATA_TYPES.get(type(data).__name__, "unknown")
    return {"has_data": data is not None, "status": status if isinstance(status, str) else None, "data_type": kind}


def _without_secrets(value: Any) -> Any:
    if is_reference(value):
        return value
    if isinstance(value, dict):
        return {
            key: _without_secrets(item)
            for key, item in value.items()
            if not is_secret_name(key) and not str(key).startswith("_")
        }
    if isinstance(value, list):
        return [_without_secrets(item) for item in value]
    return value


def _bounded(value: Any) -> Any:
    if value is None or isinstance(value, bool | int | float):
        return value
    size = len(json.dumps(value, ensure_ascii=False, default=str).encode("utf-8", "replace"))
    return {"_truncated": True, "_size": size} if size > MAX_VALUE_BYTES else value
