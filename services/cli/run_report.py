"""What a run comes to: gathered from its events, for the document that `-o json` prints."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any


@dataclass(slots=True)
class Report:
    """How an execution ended, what its steps gave, and what it took."""

    execution_id: str
    status: str = "running"
    result: Any = None
    error: dict[str, Any] | None = None
    steps: dict[str, Any] = field(default_factory=dict)
    attempts: int = 0
    retries: int = 0
    runs: Counter[str] = field(default_factory=Counter)

    def apply(self, event: dict[str, Any]) -> None:
        """Take in an event; of several runs of a step the last result counts."""
        payload = event["payload"]
        match event["type"]:
            case "step.started":
                self.runs[event["step"]] += 1
            case "step.completed":
                self.steps[event["step"]] = payload.get("result")
            case "task.processed":
                self.attempts += 1
            case "task.retry_scheduled":
                self.retries += payload.get("retry_type", "on_error") == "on_error"
            case "execution.completed":
                self.status, self.result = "completed", payload.get("result")
            case "execution.failed":
                self.status, self.error = "failed", payload.get("error")
            case "execution.cancelled":
                reason = payload.get("reason") or "the execution was cancelled"
                self.status, self.error = "cancelled", {"kind": "cancelled", "message": reason}
            case "execution.paused":
                self.status = "paused"
            case "execution.resumed" | "execution.redriven":
                self.status, self.error = "running", None

    def as_json(self) -> dict[str, Any]:
        """Return the document that `-o json` promises."""
        return {
            "execution_id": self.execution_id,
            "status": self.status,
            "result": self.result,
            "error": self.error,
            "steps": self.steps,
            "stats": {
                "attempts": self.attempts,
                "retries": self.retries,
                "steps": {name: {"runs": count} for name, count in self.runs.items()},
            },
        }
