"""What a sink promises, and what it is given."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar

from services.worker.keychain import Credential, lend_nothing
from services.worker.tools.configs import Config


@dataclass(frozen=True, slots=True)
class Write:
    """What one attempt has to store: the configuration with everything in it resolved, and the data."""

    job_id: str
    execution_id: str
    node: str
    config: dict[str, Any]
    data: Any
    attempt: int = 1
    timeout_s: float | None = None
    lend: Callable[[Any], Awaitable[Credential]] = field(default=lend_nothing, repr=False)

    @property
    def identity(self) -> str:
        """Return what marks this write: the same however often the attempt is delivered."""
        return self.job_id

    async def credential(self, auth: Any) -> Credential:
        """Return the credential that an `auth` field names; raises CredentialError."""
        return await self.lend(auth)


@dataclass(frozen=True, slots=True)
class Written:
    """What was stored: how much, and whether it was there already from an earlier delivery of the same attempt."""

    rows: int
    repeated: bool = False
    details: dict[str, Any] = field(default_factory=dict)


class SinkError(Exception):
    """The data could not be stored; nothing of it is there, or what is there will be recognised when it comes again."""

    def __init__(
        self, message: str, *, code: str | int | None = None, retryable: bool = False, cause: str = "exception"
    ) -> None:
        super().__init__(message)
        self.message = message
        self.code = code
        self.retryable = retryable
        self.cause = cause


class Sink(ABC):
    """Stores what tasks produced.

    A write that is delivered twice is stored once. What goes wrong is a SinkError or a CredentialError.
    """

    kind: ClassVar[str]
    config_model: ClassVar[type[Config] | None] = None

    @abstractmethod
    async def write(self, write: Write) -> Written:
        """Store the data once and return how much it was; raises SinkError."""

    async def close(self) -> None:  # noqa: B027
        """Give back connections; no write follows."""
