"""Outcomes of tools as errors of sinks, for sinks that do what a tool does."""

from __future__ import annotations

from services.worker.sinks.port import SinkError
from shared.contracts.outcomes import Outcome


def error_of(outcome: Outcome) -> SinkError:
    """Return what a failed outcome says as the error of a sink."""
    error = outcome.error or {}
    return SinkError(
        str(error.get("message")),
        code=error.get("code"),
        retryable=error.get("retryable") is True,
        cause=str(error.get("kind")),
    )
