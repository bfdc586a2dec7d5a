"""What a tool promises, and what it is given."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from shared.contracts.outcomes import Outcome


@dataclass(frozen=True, slots=True)
class Call:
    """One attempt: the configuration and inputs with everything in them resolved, and who is asking."""

    job_id: str
    execution_id: str
    node: str
    config: dict[str, Any]
    input: dict[str, Any]
    attempt: int = 1
    timeout_s: float | None = None
    role: Literal["task", "timer", "signal"] = "task"

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

    @abstractmethod
    async def run(self, call: Call) -> Outcome:
        """Do the work once and return its outcome."""

    async def close(self) -> None:  # noqa: B027
        """Give back connections and processes; no call follows."""
