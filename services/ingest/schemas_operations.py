"""The shapes of answers about executions in time, what could have been, and what died on its way."""

from __future__ import annotations

from typing import Any

from services.ingest.schemas import Answer, Sentence, Time


class Interval(Answer):
    """A stretch of an attempt: it waited for its time, lay in its queue, or ran; without an end it goes on."""

    kind: str
    start: Time
    end: Time | None


class StepSpan(Answer):
    """One run of a step."""

    node: str
    step: str
    status: str
    start: Time
    end: Time | None


class AttemptSpan(Answer):
    """One attempt and what it consists of; `unserved` says that it waited for a pool that nobody served."""

    node: str
    step: str
    iteration: int | None
    task: str | None
    attempt: int | None
    job_id: str
    status: str
    pool: str | None
    worker: str | None
    error: str | None
    unserved: bool
    intervals: list[Interval]


class Timeline(Answer):
    """An execution in time; what is too much is left off."""

    execution_id: str
    status: str
    start: Time | None
    end: Time | None
    steps: list[StepSpan]
    attempts: list[AttemptSpan]
    truncated: bool


class Conjecture(Answer):
    """An attempt that was not recorded, and what was assumed of it."""

    node: str
    assumed: str


class Simulation(Answer):
    """What would have happened; from `conjecture_from` on it rests on outcomes that were never recorded."""

    execution_id: str
    recorded_status: str
    status: str
    result: Any
    certain: bool
    conjecture_from: int | None
    conjectures: list[Conjecture]
    changes: list[str]
    items: list[Sentence]
    truncated: bool


class DeadLetter(Answer):
    """A message that died and that nobody could make anything of; `queue` is where it died first."""

    dead_letter_id: str
    message_id: str
    kind: str
    reason: str
    exchange: str
    routing_key: str
    queue: str | None
    size: int
    died_at: Time


class DeadLetterPage(Answer):
    """Dead letters, the newest first."""

    items: list[DeadLetter]
    cursor: str | None


class SettledDeadLetter(Answer):
    """What became of a dead letter: it was redriven, or discarded."""

    dead_letter_id: str
    outcome: str
