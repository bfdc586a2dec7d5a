"""The sink of a task: run in the same job, after the task succeeded; if it fails, the attempt fails."""

from __future__ import annotations

import asyncio
from dataclasses import replace

from services.worker.inputs import resolve_sink
from services.worker.keychain import Borrowed, CredentialError
from services.worker.sinks.port import Sink, SinkError, Write, Written
from services.worker.sinks.rows import default_data
from services.worker.values import Values
from shared.contracts.jobs import Job
from shared.contracts.outcomes import Failure, Outcome
from shared.runtime.crashpoints import crash_point

DATA = "data"


class Storing:
    """Stores the result of a task in one sink."""

    def __init__(self, sink: Sink, values: Values) -> None:
        self._sink = sink
        self._values = values

    async def store(self, job: Job, outcome: Outcome, borrowed: Borrowed, left_s: float | None) -> Outcome:
        """Return the outcome with what was stored noted in it, or the failure of the sink; raises InputError."""
        envelope = outcome.as_json()
        data = default_data(outcome.result)
        names = {"result": outcome.result, "response": data, "data": data, "outcome": envelope, "output": envelope}
        config, notes = await resolve_sink(job, self._values, borrowed, names)
        config = dict(config or {})
        write = Write(
            job_id=job.job_id,
            execution_id=job.execution_id,
            node=job.address.node,
            data=config.pop(DATA) if DATA in config else data,
            config=config,
            attempt=job.address.attempt or 1,
            timeout_s=left_s,
            lend=borrowed.credential,
        )
        limit = asyncio.timeout(left_s)
        try:
            async with limit:
                written = await self._sink.write(write)
        except TimeoutError:
            if not limit.expired():
                raise
            late = SinkError("it took longer than the task may", retryable=True, cause="timeout")
            return _failed(self._sink.kind, late)
        except SinkError as problem:
            return _failed(self._sink.kind, problem)
        except CredentialError as problem:
            error = problem.outcome.error or {}
            told = SinkError(str(problem), retryable=bool(error.get("retryable")), cause=str(error.get("kind", "auth")))
            return _failed(self._sink.kind, told)
        crash_point("worker.after_sink")
        return _noted(outcome, self._sink.kind, written, notes)


def _noted(outcome: Outcome, kind: str, written: Written, notes: tuple[str, ...]) -> Outcome:
    said = {"kind": kind, "rows": written.rows, "repeated": written.repeated, **written.details}
    meta = {**outcome.meta, "sink": said}
    if notes:
        meta["notes"] = [*meta.get("notes", ()), *notes]
    return replace(outcome, meta=meta)


def _failed(kind: str, problem: SinkError) -> Outcome:
    details = {"sink": kind, "cause": problem.cause}
    error = Failure("sink", f"Sink failed: {kind}: {problem.message}", problem.code, problem.retryable, details)
    return Outcome("error", error=error.as_json())
