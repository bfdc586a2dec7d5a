"""One job, one outcome: inputs made whole, the tool run in its time, the result made fit to be sent."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

from services.worker.hiding import Veil, hiding
from services.worker.inputs import InputError, Inputs, resolve
from services.worker.keychain import Borrowed, CredentialError, Keychain, NoKeychain
from services.worker.results import packed, without_secrets
from services.worker.sinks.registry import Sinks
from services.worker.storing import Storing
from services.worker.tools.port import Call, Tool
from services.worker.tools.registry import Registry
from services.worker.values import Values
from shared.contracts.jobs import Job
from shared.contracts.outcomes import Outcome, failure
from shared.errors import RejectedError, UnavailableError
from shared.runtime.clock import Clock
from shared.runtime.logs import Log

# How much longer than its own limit a tool that keeps the time may take until it is cancelled after all.
BACKSTOP_S = 5.0

_log = Log("redrive.worker.runner")


class Runner:
    """Runs jobs; whatever happens, there is an outcome."""

    def __init__(
        self,
        tools: Registry,
        values: Values,
        *,
        worker: str,
        clock: Clock,
        sinks: Sinks | None = None,
        keychain: Keychain | None = None,
        default_timeout_s: float | None = None,
        veil: Veil | None = None,
    ) -> None:
        self._tools = tools
        self._values = values
        self._worker = worker
        self._clock = clock
        self._sinks = sinks or Sinks()
        self._keychain = keychain or NoKeychain()
        self._default_timeout_s = default_timeout_s
        self._veil = veil or Veil()

    async def run(self, job: Job) -> Outcome:
        """Return the outcome of one attempt; nothing is raised, except that the caller cancels."""
        started_at, began = self._clock.now(), self._clock.monotonic()
        outcome = await self._outcome(job)
        meta = {
            **outcome.meta,
            "attempt": job.address.attempt,
            "duration_ms": round((self._clock.monotonic() - began) * 1000, 3),
            "started_at": started_at.isoformat(),
            "ended_at": self._clock.now().isoformat(),
            "worker": self._worker,
            "job_id": job.job_id,
        }
        return replace(outcome, meta=meta)

    async def _outcome(self, job: Job) -> Outcome:
        borrowed = Borrowed(self._keychain, job, self._veil.add)
        try:
            tool, storing = self._tool(job), self._storing(job)
            inputs = await resolve(job, self._values, borrowed)
            began = self._clock.monotonic()
            outcome = await self._called(tool, job, inputs, borrowed)
            if storing is not None and outcome.status == "success":
                left_s = self._left_s(job, began)
                outcome = await storing.store(job, without_secrets(outcome, borrowed.secrets), borrowed, left_s)
        except (InputError, CredentialError) as problem:
            outcome = problem.outcome
        except (UnavailableError, RejectedError) as problem:
            outcome = _not_at_hand("the inputs could not be loaded", problem)
        except Exception as problem:
            _log.error("tool_failed", problem, job_id=job.job_id, execution_id=job.execution_id, kind=job.kind)
            message = f"the tool '{job.kind}' broke: {_said(problem, borrowed.secrets)}"
            outcome = failure("exception", message, code=type(problem).__name__)
        await borrowed.judge(outcome)
        return await self._fit(outcome, borrowed.secrets, job)

    def _tool(self, job: Job) -> Tool:
        tool = self._tools.find(job.kind)
        if tool is None:
            known = ", ".join(self._tools.kinds)
            raise InputError(failure("exception", f"this worker has no tool '{job.kind}'; it has {known}"))
        return tool

    def _storing(self, job: Job) -> Storing | None:
        if job.sink is None:
            return None
        kind = str(job.sink.get("kind"))
        sink = self._sinks.find(kind)
        if sink is None:
            known = ", ".join(self._sinks.kinds) or "none"
            raise InputError(failure("sink", f"this worker has no sink '{kind}'; it has {known}"))
        return Storing(sink, self._values)

    def _timeout_s(self, job: Job) -> float | None:
        return job.timeout_s if job.timeout_s is not None else self._default_timeout_s

    def _left_s(self, job: Job, began: float) -> float | None:
        """Return how much of the task's time is left for its sink."""
        timeout_s = self._timeout_s(job)
        return None if timeout_s is None else max(0.0, timeout_s - (self._clock.monotonic() - began))

    async def _called(self, tool: Tool, job: Job, inputs: Inputs, borrowed: Borrowed) -> Outcome:
        timeout_s = self._timeout_s(job)
        call = Call(
            job_id=job.job_id,
            execution_id=job.execution_id,
            node=job.address.node,
            config=_mapping(inputs.config, "configuration"),
            input=_mapping(inputs.input, "inputs"),
            attempt=job.address.attempt or 1,
            timeout_s=timeout_s,
            role=job.role,
            code_line=_line(job.meta.get("code_line")),
            lend=borrowed.credential,
        )
        limit = asyncio.timeout(timeout_s if timeout_s is None or not tool.keeps_time else timeout_s + BACKSTOP_S)
        try:
            async with limit:
                outcome = await tool.run(call)
        except TimeoutError:
            if not limit.expired():
                raise
            return failure("timeout", f"timeout: the task took longer than {timeout_s:g} s")
        if not isinstance(outcome, Outcome):
            raise TypeError(f"it returned {type(outcome).__name__}, not an Outcome")
        if inputs.notes:
            notes = [*outcome.meta.get("notes", ()), *inputs.notes]
            outcome = replace(outcome, meta={**outcome.meta, "notes": notes})
        return outcome

    async def _fit(self, outcome: Outcome, secrets: tuple[str, ...], job: Job) -> Outcome:
        try:
            return await packed(without_secrets(outcome, secrets), job.select, self._values)
        except (UnavailableError, RejectedError) as problem:
            return _not_at_hand("the task ran, but its result could not be stored", problem)
        except Exception as problem:
            _log.error("result_not_sent", problem, job_id=job.job_id, execution_id=job.execution_id, kind=job.kind)
            return failure("exception", f"the task ran, but its result cannot be sent: {_said(problem, secrets)}")


def _not_at_hand(what: str, problem: Exception) -> Outcome:
    kind = "connection" if isinstance(problem, UnavailableError) else "exception"
    return failure(kind, f"{what}: {str(problem)[:300]}")


def _line(value: Any) -> int | None:
    return value if isinstance(value, int) and value > 0 else None


def _mapping(value: Any, what: str) -> dict[str, Any]:
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise InputError(failure("expression", f"the {what} of a task are a mapping, not {type(value).__name__}"))
    return value


def _said(problem: Exception, secrets: tuple[str, ...] = ()) -> str:
    return hiding(secrets)(f"{type(problem).__name__}: {problem}")[:500]
