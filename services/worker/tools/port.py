"""What a tool promises, and what it is given."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

from services.worker.keychain import Credential, lend_nothing
from services.worker.tools.configs import Config
from shared.contracts.outcomes import Outcome


@dataclass(frozen=True, slots=True)
class Call:
    """One attempt: the configuration and inputs with everything in them resolved, and who is asking.

    `code_line` is the line of the playbook on which the code of the task begins, where that is known.
    """

    job_id: str
    execution_id: str
    node: str
    config: dict[str, Any]
    input: dict[str, Any]
    attempt: int = 1
    timeout_s: float | None = None
    role: Literal["task", "timer", "signal"] = "task"
    code_line: int | None = None
    lend: Callable[[Any], Awaitable[Credential]] = field(default=lend_nothing, repr=False)

    async def credential(self, auth: Any) -> Credential:
        """Return the credential that an `auth` field names; raises CredentialError, which a tool need not catch."""
        return await self.lend(auth)

    @property
    def idempotency_key(self) -> str:
        """Return the key of this attempt: the same however often the attempt is delivered."""
        return self.job_id


class Tool(ABC):
    """Does one kind of work.

    What goes wrong is an outcome; an exception is a defect of the tool. The runner cancels a call at its
    `timeout_s`; a tool that can say better what took so long keeps the time itself.
    """

    kind: ClassVar[str]
    keeps_time: ClassVar[bool] = False
    config_model: ClassVar[type[Config] | None] = None

    @abstractmethod
    async def run(self, call: Call) -> Outcome:
        """Do the work once and return its outcome."""

    async def open(self) -> None:  # noqa: B027
        """Get ready, so that the first call need not wait for it; nothing is promised."""

    async def close(self) -> None:  # noqa: B027
        """Give back connections and processes; no call follows."""
