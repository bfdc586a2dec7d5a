"""What may be asked: the bodies of requests and the forms of their parts; unknown fields are errors."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, StringConstraints, WithJsonSchema, model_validator

from shared.language.parse import MAX_BYTES

MAX_BATCH = 1000
MAX_LABELS = 64
MAX_DELAY_S = 366 * 86400.0
PATH_PATTERN = r"^[A-Za-z0-9_][A-Za-z0-9_.-]*(/[A-Za-z0-9_][A-Za-z0-9_.-]*)*$"
NAME_PATTERN = r"^[A-Za-z_][A-Za-z0-9_.-]*$"
KEY_PATTERN = r"^[\x21-\x7e]+$"
TEXT_PATTERN = r"^[^\x00-\x1f\x7f]*$"

_RFC3339 = re.compile(r"\d{4}-\d\d-\d\d[Tt]\d\d:\d\d:\d\d(\.\d{1,9})?([Zz]|[+-]\d\d:\d\d)")


def _time(value: Any) -> Any:
    """Return the time, in UTC, that a text of RFC 3339 says."""
    if not isinstance(value, str) or not _RFC3339.fullmatch(value):
        raise ValueError("a time is written like 2024-05-01T12:00:00Z")
    # Python reads up to six digits of a second; what is finer is of no use here.
    text = re.sub(r"(\.\d{6})\d+", r"\1", value.upper().replace("Z", "+00:00"))
    try:
        return datetime.fromisoformat(text).astimezone(UTC)
    except (ValueError, OverflowError):
        raise ValueError("there is no such time") from None


Time = Annotated[
    datetime, BeforeValidator(_time), WithJsonSchema({"type": "string", "format": "date-time"}, mode="validation")
]
PlaybookPath = Annotated[str, StringConstraints(pattern=PATH_PATTERN, max_length=200)]
Version = Annotated[int, Field(ge=1, le=2**31 - 1, strict=True)]
Name = Annotated[str, StringConstraints(pattern=NAME_PATTERN, max_length=128)]
IdempotencyKey = Annotated[str, StringConstraints(pattern=KEY_PATTERN, min_length=1, max_length=200)]
LabelName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_][A-Za-z0-9_./-]*$", max_length=128)]
LabelValue = Annotated[str, StringConstraints(pattern=TEXT_PATTERN, max_length=256)]
Source = Annotated[str, StringConstraints(min_length=1, max_length=MAX_BYTES)]
Reason = Annotated[str, StringConstraints(pattern=TEXT_PATTERN, max_length=500)]
Identity = Annotated[
    str,
    StringConstraints(pattern=r"^[0-9a-fA-F]{8}-([0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}$", to_lower=True),
]


class RequestModel(BaseModel):
    """A body: frozen, and without fields that nobody knows."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class PlaybookText(RequestModel):
    """A playbook as text in JSON; the path counts where the text has none of its own."""

    source: Source
    path: PlaybookPath | None = None


class ExecutionRequest(RequestModel):
    """A playbook to run: one of the catalogue by path, or one given here as text."""

    path: PlaybookPath | None = None
    version: Version | None = None
    playbook: Source | None = None
    workload: dict[str, Any] = Field(default_factory=dict)
    labels: dict[LabelName, LabelValue] = Field(default_factory=dict, max_length=MAX_LABELS)
    idempotency_key: IdempotencyKey | None = None

    @model_validator(mode="after")
    def _is_one_of_two(self) -> ExecutionRequest:
        if (self.path is None) == (self.playbook is None):
            raise ValueError("give either 'path' or 'playbook'")
        if self.playbook is not None and self.version is not None:
            raise ValueError("'version' goes with 'path'")
        return self


class BatchRequest(RequestModel):
    """Executions to start together: all or none."""

    executions: list[ExecutionRequest] = Field(min_length=1, max_length=MAX_BATCH)


class ControlRequest(RequestModel):
    """Why something is asked of an execution."""

    reason: Reason | None = None


class RedriveRequest(ControlRequest):
    """What is to run again: what failed, or a step; with another workload or version of the playbook if wanted."""

    step: Name | None = None
    workload: dict[str, Any] | None = None
    version: Version | Literal["latest"] | None = None


class RescheduleRequest(ControlRequest):
    """When a job that waits is due instead: at a time, or so many seconds from now."""

    available_at: Time | None = Field(None, examples=["2030-05-01T12:00:00Z"])
    delay_s: Annotated[float, Field(ge=0, le=MAX_DELAY_S)] | None = Field(None, examples=[900])

    @model_validator(mode="after")
    def _is_one_of_two(self) -> RescheduleRequest:
        if (self.available_at is None) == (self.delay_s is None):
            raise ValueError("give either 'available_at' or 'delay_s'")
        return self


class SimulateRequest(RequestModel):
    """What is laid over a recorded run: a playbook given as text, or another version of its own."""

    playbook: Source | None = Field(None, examples=["workflow:\n  - { step: only, tool: { kind: noop } }\n"])
    version: Version | Literal["latest"] | None = None

    @model_validator(mode="after")
    def _is_one_of_two(self) -> SimulateRequest:
        if (self.playbook is None) == (self.version is None):
            raise ValueError("give either 'playbook' or 'version'")
        return self


class CredentialRequest(RequestModel):
    """A credential to keep: its kind, and the fields that the kind has."""

    kind: Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_-]+$", max_length=64)]
    fields: dict[Annotated[str, StringConstraints(pattern=TEXT_PATTERN, max_length=200)], Any] = Field(min_length=1)


class SignalRequest(RequestModel):
    """What comes with a signal."""

    payload: Any = None
