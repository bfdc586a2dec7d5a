"""Jobs on their way: at once or after a delay to their pool; what waits long comes by the orchestrator when it is due.

A message cannot be taken out of a queue. A job that waits long may be hurried, re-timed or cancelled meanwhile, so the
message that becomes due goes to the orchestrator, which looks whether it is still what the job's row says.
"""

from __future__ import annotations

from shared.broker.ladder import HORIZON_S, entry
from shared.broker.port import Message
from shared.broker.topology import JOBS, TIMERS_POOL
from shared.contracts.jobs import Job
from shared.contracts.messages import encode_job

LONG_WAIT_S = 10.0


def is_publishable(job: Job) -> bool:
    """Say whether a job goes to the broker now; longer waits stay in the store until they come near."""
    return job.available_at is not None and job.delay_s <= HORIZON_S


def is_looked_at(job: Job) -> bool:
    """Say whether the orchestrator sees a job again when it is due, so that its time can be changed until then."""
    return job.role != "timer" and job.delay_s >= LONG_WAIT_S


def job_message(job: Job, delay_s: float) -> Message:
    """Return the message that brings a job to its pool after what is left of its delay."""
    by_way_of = TIMERS_POOL if delay_s > 0 and is_looked_at(job) else job.pool
    exchange, key = entry(delay_s, by_way_of)
    return Message(exchange, key, encode_job(job), job.job_id)


def due_message(job: Job) -> Message:
    """Return the message that brings a job to its pool at once."""
    return Message(JOBS, job.pool, encode_job(job), job.job_id)
