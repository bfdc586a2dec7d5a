"""Short ways to say what goes into a store."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

from shared.contracts import payloads as p
from shared.contracts.events import Event
from shared.contracts.ids import Address, fact_id, job_id
from shared.contracts.jobs import Job
from shared.engine.decide import requested
from shared.engine.turn import Decision
from shared.store.port import Batch, Store
from shared.store.records import DecisionRecord, NewExecution

Said = Event | p.Payload | tuple[p.Payload, Address]


class TickingClock:
    """The time of day, never the same twice, and as far ahead as a test says."""

    def __init__(self) -> None:
        self._last = datetime.now(UTC)

    def __call__(self) -> datetime:
        self._last = max(self._last + timedelta(microseconds=1), datetime.now(UTC))
        return self._last


def new_id() -> str:
    """Return an identity that nobody has."""
    return str(uuid4())


def new_execution(identity: str | None = None, *, path: str = "demo/flow", **said: Any) -> NewExecution:
    """Return an execution to create."""
    request = p.ExecutionRequested(**{"plan": "digest", "workload": {}, **said})
    return NewExecution(requested(identity or new_id(), request), path, 1)


async def created(store: Store, **said: Any) -> str:
    """Create an execution and return its id."""
    (found,) = await store.create_executions([new_execution(**said)])
    return found.execution_id


def new_job(execution_id: str, step: str = "fetch", *, attempt: int = 1, **more: Any) -> Job:
    """Return a job of a step's only task, due now unless told otherwise."""
    address = more.pop("address", None) or Address(step, 1, None, "run", 1, attempt)
    due = {"available_at": datetime.now(UTC), **more}
    return Job(job_id(execution_id, address), execution_id, address, "noop", **due)


def started(job: Job, worker: str = "w1", lease_until: datetime | None = None) -> Event:
    """Return the fact that a worker began a job."""
    lease = None if lease_until is None else lease_until.isoformat()
    said = p.TaskStarted(job.job_id, worker, lease_until=lease)
    return Event(
        job.execution_id, said, job.address, event_id=fact_id(job.job_id, "started"), source=f"worker:{worker}"
    )


def processed(job: Job, result: Any = None, *, error: str | None = None, worker: str = "w1") -> Event:
    """Return the fact that a job ended."""
    failure = None if error is None else {"kind": "exception", "message": error, "retryable": False}
    outcome = {"status": "success" if error is None else "error", "result": result, "error": failure, "meta": {}}
    said = p.TaskProcessed(job.job_id, outcome)
    return Event(
        job.execution_id, said, job.address, event_id=fact_id(job.job_id, "processed"), source=f"worker:{worker}"
    )


def signal(execution_id: str, name: str = "go", payload: Any = None, **more: Any) -> Event:
    """Return the fact that a signal came."""
    return Event(execution_id, p.SignalReceived(name, payload), event_id=new_id(), source="api", **more)


def decision(batch: Batch, execution_id: str, *said: Said, jobs: Sequence[Job] = (), **more: Any) -> Decision:
    """Return a decision that says these things, at the places of the log that follow."""
    version = batch.executions[execution_id].version
    events = [_event(batch, execution_id, version + place, item) for place, item in enumerate(said, 1)]
    return Decision(tuple(events), tuple(jobs), **more)


def _event(batch: Batch, execution_id: str, seq: int, said: Said) -> Event:
    if isinstance(said, Event):
        return replace(said, seq=seq)
    payload, address = said if isinstance(said, tuple) else (said, None)
    return Event(execution_id, payload, address, seq=seq, occurred_at=batch.now, source="orchestrator")


def record(
    batch: Batch, execution_id: str, *said: Said, status: str = "running", jobs: Sequence[Job] = (), **more: Any
) -> None:
    """Record one decision that says these things; further arguments are the decision's or the record's."""
    own = {name: more.pop(name) for name in ("facts", "cancelled", "stored") if name in more}
    taken = decision(batch, execution_id, *said, jobs=jobs, **own)
    version = batch.executions[execution_id].version + len(said)
    batch.record(execution_id, DecisionRecord(version, status, (taken,), **more))


async def decide(store: Store, execution_id: str, *said: Said, **more: Any) -> None:
    """Decide these things about an execution, in a batch of its own."""
    async with store.deciding([execution_id]) as batch:
        record(batch, execution_id, *said, **more)


async def apply_all(store: Store, *execution_ids: str) -> dict[str, list[Event]]:
    """Apply whatever is not applied, and return it."""
    async with store.deciding(execution_ids) as batch:
        for identity, facts in batch.unapplied.items():
            record(batch, identity, *facts)
        return batch.unapplied


async def queued(store: Store, execution_id: str, *jobs: Job, published: bool = False) -> None:
    """Write jobs as a decision does."""
    await decide(store, execution_id, *[(p.StepStarted(()), job.address) for job in jobs], jobs=jobs)
    if published:
        await store.mark_published([job.job_id for job in jobs])
