"""Jobs that a worker has in hand, and those it had lately."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal

from services.worker.intake import Held
from shared.contracts.jobs import Job

REMEMBERED = 20_000


@dataclass(slots=True, eq=False)
class Running:
    """A job in hand: its unsettled deliveries, when it was begun (once it is), and what was said of it."""

    job: Job
    deliveries: list[Held]
    delivery_count: int
    began: float
    started_at: datetime
    task: asyncio.Task[None] | None = None
    is_begun: bool = False
    is_announced: bool = False
    is_done: bool = False
    lease: Literal["none", "asked", "held"] = "none"

    @property
    def is_under_way(self) -> bool:
        """Say whether the tool is at work."""
        return self.is_begun and not self.is_done

    def release(self) -> list[Held]:
        """Return the deliveries to settle and hold them no longer."""
        held, self.deliveries = self.deliveries, []
        return held


@dataclass(slots=True)
class InHand:
    """Jobs by their identity; a second copy of one is known."""

    jobs: dict[str, Running] = field(default_factory=dict)
    _lately: OrderedDict[str, None] = field(default_factory=OrderedDict)

    @property
    def unfinished(self) -> int:
        """Return how many jobs take up room."""
        return sum(not run.is_done for run in self.jobs.values())

    @property
    def leased(self) -> int:
        """Return how many jobs take up room but hold no delivery."""
        return sum(run.lease == "held" and not run.is_done for run in self.jobs.values())

    def ran_lately(self, job_id: str) -> bool:
        """Say whether the job's outcome was confirmed not long ago."""
        return job_id in self._lately

    def finish(self, run: Running) -> None:
        """Let go of a job, and remember it for a while."""
        self.jobs.pop(run.job.job_id, None)
        self._lately[run.job.job_id] = None
        while len(self._lately) > REMEMBERED:
            self._lately.popitem(last=False)

    def give_up(self, run: Running) -> None:
        """Let go of a job as if it had never come."""
        self.jobs.pop(run.job.job_id, None)
