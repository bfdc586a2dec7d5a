"""The workload of an execution: the playbook's defaults with what was submitted laid over them."""

from __future__ import annotations

import json
from typing import Any

from shared.language.plan import Plan


def merged_workload(plan: Plan, submitted: dict[str, Any] | None) -> dict[str, Any]:
    """Return the defaults, deep-merged with what was submitted."""
    defaults: dict[str, Any] = json.loads(plan.workload)
    return _merged(defaults, submitted or {})


def _merged(base: dict[str, Any], over: dict[str, Any]) -> dict[str, Any]:
    out = dict(base)
    for key, value in over.items():
        before = out.get(key)
        out[key] = _merged(before, value) if isinstance(before, dict) and isinstance(value, dict) else value
    return out
