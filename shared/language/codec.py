"""The Plan as JSON and back, and its digest."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from typing import Any

from shared.language import plan as parts
from shared.language.place import Place
from shared.language.plan import PLAN_VERSION, Plan

_CLASSES: dict[str, type] = {
    name: item for name, item in vars(parts).items() if isinstance(item, type) and dataclasses.is_dataclass(item)
}
del _CLASSES["Place"]


class UnknownPlanError(ValueError):
    """The text is no Plan that this version can read."""


def plan_to_json(plan: Plan) -> dict[str, Any]:
    """Return the Plan as JSON data; fields at their default are left out."""
    return {"v": PLAN_VERSION, "plan": _encoded(plan)}


def plan_from_json(data: object) -> Plan:
    """Return the Plan that was encoded."""
    version = data.get("v") if isinstance(data, dict) else None
    if not isinstance(data, dict) or type(version) is not int or version != PLAN_VERSION:
        raise UnknownPlanError(f"not a Plan of version {PLAN_VERSION}, the one that this program reads")
    try:
        plan = _decoded(data["plan"])
    except (KeyError, TypeError) as problem:
        raise UnknownPlanError(f"not a Plan: {problem}") from problem
    if not isinstance(plan, Plan):
        raise UnknownPlanError("not a Plan")
    return plan


def plan_text(plan: Plan) -> str:
    """Return the Plan as canonical JSON text."""
    return json.dumps(plan_to_json(plan), ensure_ascii=False, separators=(",", ":"), sort_keys=True)


def digest(plan: Plan) -> str:
    """Return the identity of a Plan, places included."""
    return hashlib.sha256(plan_text(plan).encode()).hexdigest()


def _encoded(item: Any) -> Any:
    if isinstance(item, Place):
        return [item.line, item.column]
    if isinstance(item, tuple):
        return [_encoded(part) for part in item]
    if not dataclasses.is_dataclass(item):
        return item
    out: dict[str, Any] = {"$": type(item).__name__}
    for field in dataclasses.fields(item):
        value = getattr(item, field.name)
        if not _is_default(field, value):
            out[field.name] = _encoded(value)
    return out


def _is_default(field: dataclasses.Field[Any], value: Any) -> bool:
    """Say whether a field can be left out; what never compares, such as the words of the source, is kept."""
    if type(value) is not type(field.default) or value != field.default:
        return False
    is_plain = not dataclasses.is_dataclass(value) and not isinstance(value, tuple)
    return is_plain or bool(_encoded(value) == _encoded(field.default))


def _decoded(data: Any) -> Any:
    if isinstance(data, list):
        return tuple(_decoded(part) for part in data)
    if not isinstance(data, dict):
        return data
    cls = _CLASSES[data["$"]]
    values = {key: _decoded(part) for key, part in data.items() if key not in ("$", "place")}
    if "place" in data:
        values["place"] = Place(*data["place"])
    return cls(**values)
