"""A job: one attempt of one task, with everything a worker needs to run it."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal

from shared.contracts.deferred import ROOTS, JobPath
from shared.contracts.ids import Address, parse_node

DEFAULT_POOL = "default"


@dataclass(frozen=True, slots=True)
class Job:
    """One attempt to run, now or at `available_at`; a `timer` is for the orchestrator itself.

    `deferred` are the places of the expressions that the worker finishes; whatever looks like one elsewhere is data.
    """

    job_id: str
    execution_id: str
    address: Address
    kind: str
    config: Any = None
    input: Any = None
    sink: dict[str, Any] | None = None
    pool: str = DEFAULT_POOL
    available_at: datetime | None = None
    delay_s: float = 0.0
    timeout_s: float | None = None
    max_attempts: int = 1
    select: tuple[str, ...] = ()
    meta: dict[str, Any] = field(default_factory=dict)
    role: Literal["task", "timer", "signal"] = "task"
    deferred: tuple[JobPath, ...] = ()


def job_to_json(job: Job) -> dict[str, Any]:
    """Return a job as it is stored and sent, versioned."""
    address = job.address
    data = {
        "v": 1,
        "job_id": job.job_id,
        "execution_id": job.execution_id,
        "node": address.node,
        "kind": job.kind,
        "config": job.config,
        "input": job.input,
        "sink": job.sink,
        "pool": job.pool,
        "available_at": job.available_at.isoformat() if job.available_at else None,
        "delay_s": job.delay_s,
        "timeout_s": job.timeout_s,
        "attempt": address.attempt,
        "max_attempts": job.max_attempts,
        "select": list(job.select),
        "meta": job.meta,
        "role": job.role,
    }
    if job.deferred:
        data["deferred"] = [list(place) for place in job.deferred]
    return data


def job_from_json(data: dict[str, Any]) -> Job:
    """Return the job that was encoded."""
    if data.get("v") != 1:
        raise ValueError(f"unknown version of jobs: {data.get('v')!r}")
    address = parse_node(data["node"])
    if address is None:
        raise ValueError(f"not an address: {data['node']!r}")
    available = data.get("available_at")
    return Job(
        job_id=data["job_id"],
        execution_id=data["execution_id"],
        address=address,
        kind=data["kind"],
        config=data.get("config"),
        input=data.get("input"),
        sink=data.get("sink"),
        pool=data["pool"],
        available_at=datetime.fromisoformat(available) if available else None,
        delay_s=data.get("delay_s", 0.0),
        timeout_s=data.get("timeout_s"),
        max_attempts=data.get("max_attempts", 1),
        select=tuple(data.get("select") or ()),
        meta=data.get("meta") or {},
        role=data.get("role", "task"),
        deferred=_places(data.get("deferred") or ()),
    )


def _places(said: Any) -> tuple[JobPath, ...]:
    if not isinstance(said, list | tuple) or not all(_is_place(place) for place in said):
        raise ValueError("not the places of expressions in a job")
    return tuple(tuple(place) for place in said)


def _is_place(said: Any) -> bool:
    return isinstance(said, list) and all(type(key) in (str, int) for key in said) and bool(said) and said[0] in ROOTS
