"""The outcome of one attempt: exactly one per tool completion, the same shape for every tool."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

RETRYABLE_STATUSES = frozenset({429, 500, 502, 503, 504})
RETRYABLE_SQLSTATES = frozenset({"40001", "40P01"})
ERROR_KINDS = (
    "rate_limit", "server_error", "auth", "client_error", "connection", "timeout", "sql", "exception", "expression",
    "worker_lost", "sink", "conflict", "limit", "cancelled", "child",
)  # fmt: skip
_OWN = frozenset({"status", "result", "error", "meta"})


@dataclass(frozen=True, slots=True)
class Failure:
    """What went wrong, in a form that rules and people can read."""

    kind: str
    message: str
    code: str | int | None = None
    retryable: bool = False
    details: dict[str, Any] = field(default_factory=dict)

    def as_json(self) -> dict[str, Any]:
        """Return the error object that expressions see."""
        out: dict[str, Any] = {"kind": self.kind, "message": self.message, "retryable": self.retryable}
        if self.code is not None:
            out["code"] = self.code
        if isinstance(self.code, int):
            out["status"] = self.code
        if self.details:
            out["details"] = self.details
        return out


@dataclass(frozen=True, slots=True)
class Outcome:
    """Status, result or error, figures, and what the kind of tool adds."""

    status: Literal["success", "error"]
    result: Any = None
    error: dict[str, Any] | None = None
    meta: dict[str, Any] = field(default_factory=dict)
    extras: dict[str, Any] = field(default_factory=dict)

    def as_json(self) -> dict[str, Any]:
        """Return the envelope as it is stored and sent."""
        out: dict[str, Any] = {"status": self.status, "result": self.result, "error": self.error, "meta": self.meta}
        out.update(self.extras)
        return out


def outcome_from_json(data: dict[str, Any]) -> Outcome:
    """Return the outcome that was encoded; `ok` is read as `success`, an error may be a mere text."""
    status = data.get("status")
    if status not in ("success", "ok", "error"):
        raise ValueError(f"an outcome's status is success or error, not {status!r}")
    error = data.get("error")
    if status != "error":
        error = None
    elif not isinstance(error, dict):
        error = Failure("exception", "no reason was given" if error is None else str(error)).as_json()
    elif not isinstance(error.get("message"), str) or not isinstance(error.get("kind"), str):
        error = {**error, "kind": str(error.get("kind") or "exception"), "message": str(error.get("message") or "")}
    meta = data.get("meta")
    return Outcome(
        status="error" if status == "error" else "success",
        result=data.get("result"),
        error=error,
        meta=meta if isinstance(meta, dict) else {},
        extras={key: value for key, value in data.items() if key not in _OWN},
    )


def success(result: Any = None, **extras: Any) -> Outcome:
    """Return a successful outcome."""
    return Outcome("success", result, extras=extras)


def failure(kind: str, message: str, *, code: str | int | None = None, **extras: Any) -> Outcome:
    """Return a failed outcome; whether trying again may help follows from its kind and code."""
    retryable = kind in ("rate_limit", "server_error", "connection", "timeout", "worker_lost")
    retryable = retryable or code in RETRYABLE_SQLSTATES
    return Outcome("error", error=Failure(kind, message, code, retryable).as_json(), extras=extras)


def http_failure(status: int, message: str | None = None, headers: dict[str, str] | None = None) -> Outcome:
    """Return the outcome of an HTTP call whose status is no success."""
    if status == 429:
        kind = "rate_limit"
    elif status >= 500:
        kind = "server_error"
    else:
        kind = "auth" if status in (401, 403) else "client_error"
    error = Failure(kind, message or f"HTTP {status}", status, status in RETRYABLE_STATUSES or status >= 500)
    return Outcome("error", error=error.as_json(), extras={"http": {"status": status, "headers": headers or {}}})
