"""Events as the API tells them, made for tests of what is shown of a run."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from shared.contracts.ids import parse_node

START = datetime(2024, 5, 1, 12, 0, 0, tzinfo=UTC)


def event(type_: str, node: str | None = None, /, at_s: float = 0.0, **payload: Any) -> dict[str, Any]:
    """Return an event at a node, some seconds after the start."""
    address = parse_node(node) if node else None
    return {
        "type": type_,
        "execution_id": "e1",
        "occurred_at": (START + timedelta(seconds=at_s)).isoformat(),
        "node": node,
        "step": address.step if address else None,
        "visit": address.visit if address else None,
        "iteration": address.iteration if address else None,
        "task": address.task if address else None,
        "attempt": address.attempt if address else None,
        "payload": payload,
    }


def attempt(node: str, error: str | None = None, at_s: float = 0.0, stored: int | None = None) -> dict[str, Any]:
    """Return the end of an attempt, with so many rows in its sink."""
    meta = {} if stored is None else {"sink": {"kind": "file", "rows": stored, "repeated": False}}
    outcome: dict[str, Any] = {"status": "success", "result": None, "meta": meta}
    if error is not None:
        outcome = {"status": "error", "error": {"kind": "http", "message": error}}
    return event("task.processed", node, at_s, outcome=outcome)


def retry(node: str, following: int, most: int, delay_s: float, at_s: float = 0.0) -> dict[str, Any]:
    """Return the decision that the task runs again after a delay."""
    return event(
        "task.retry_scheduled", node, at_s, failed_attempt=following - 1, next_attempt=following, max_attempts=most,
        delay_s=delay_s,
    )  # fmt: skip


FLAKY_STEP = [
    event("execution.started", entry="fetch"),
    event("step.started", "fetch~1"),
    event("task.scheduled", "fetch~1.fetch#1", kind="http", max_attempts=3),
    event("task.started", "fetch~1.fetch#1"),
    attempt("fetch~1.fetch#1", "HTTP 503 from GET /users", at_s=0.2),
    retry("fetch~1.fetch#1", 2, 3, 1.0, at_s=0.2),
]
