"""One job, one outcome, whatever happens."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from typing_extensions import override

from services.worker.keychain import Credential, Keychain
from services.worker.runner import Runner
from services.worker.tools.error import ErrorTool
from services.worker.tools.noop import NoopTool
from services.worker.tools.port import Call
from services.worker.tools.registry import Registry
from services.worker.tools.wait import WaitTool
from services.worker.values import MemoryValues, Values
from shared.contracts.jobs import Job
from shared.contracts.outcomes import Outcome, success
from shared.engine.world import canonical_json
from shared.errors import RejectedError, UnavailableError
from shared.runtime.clock import ManualClock
from tests.unit.worker.given import HeldTool, ToldTool, a_job

Does = Callable[[Call], Awaitable[Outcome]]


class BrokenValues(Values):
    def __init__(self, problem: Exception) -> None:
        self._problem = problem

    @override
    async def load(self, ref: str) -> Any:
        raise self._problem

    @override
    async def store(self, text: str) -> dict[str, Any]:
        raise self._problem


class OneCredential(Keychain):
    @override
    async def credential(self, name: str, job: Job) -> Credential | None:
        return Credential(name, "bearer", {"token": "s3cret"})


def runner(does: Does | None = None, values: Values | None = None, **more: Any) -> Runner:
    tools = [NoopTool(), ErrorTool(), WaitTool(), HeldTool(), *([ToldTool(does)] if does else [])]
    return Runner(Registry(tools), values or MemoryValues(), worker="w1", clock=ManualClock(), **more)


def error_of(outcome: Outcome) -> dict[str, Any]:
    assert outcome.status == "error"
    assert outcome.error is not None
    return outcome.error


async def test_an_outcome_says_which_attempt_it_is_of_and_how_long_it_took() -> None:
    clock = ManualClock()

    async def does(call: Call) -> Outcome:
        await clock.advance(1.5)
        return success(call.input["x"])

    told = Runner(Registry([ToldTool(does)]), MemoryValues(), worker="w1", clock=clock)
    job = a_job("told", input={"x": 1}, attempt=3)
    outcome = await told.run(job)

    assert (outcome.status, outcome.result) == ("success", 1)
    assert outcome.meta == {
        "attempt": 3,
        "duration_ms": 1500.0,
        "started_at": "2024-01-01T00:00:00+00:00",
        "ended_at": "2024-01-01T00:00:01.500000+00:00",
        "worker": "w1",
        "job_id": job.job_id,
    }


async def test_a_tool_is_given_the_job_with_everything_resolved() -> None:
    values = MemoryValues()
    reference = await values.store(canonical_json({"rows": [1]}))
    seen: list[Call] = []

    async def does(call: Call) -> Outcome:
        seen.append(call)
        return success()

    job = a_job("told", {"data": {**reference, "_path": ["rows"]}}, timeout_s=9.0, attempt=2)
    await runner(does, values).run(job)

    (call,) = seen
    assert call.config == {"data": [1]}
    assert call.input == {}
    assert (call.timeout_s, call.attempt, call.idempotency_key) == (9.0, 2, job.job_id)


async def test_nothing_to_do_succeeds_and_an_error_known_beforehand_is_the_outcome() -> None:
    error = {"kind": "expression", "message": "no such name", "retryable": False, "details": {"line": 3}}

    assert (await runner().run(a_job("noop"))).status == "success"
    assert (await runner().run(a_job("error", error))).error == error


async def test_a_wait_that_arrives_is_over_and_a_signal_that_did_not_come_is_a_timeout() -> None:
    over = await runner().run(a_job("wait", {"for": 1}))
    late = await runner().run(a_job("wait", {"signal": "go"}, role="signal"))

    assert over.status == "success"
    assert (error_of(late)["kind"], error_of(late)["message"]) == ("timeout", "no signal 'go' came in time")


async def test_a_tool_that_raises_is_an_outcome() -> None:
    async def does(call: Call) -> Outcome:
        raise KeyError("oops")

    error = error_of(await runner(does).run(a_job("told")))

    assert (error["kind"], error["code"]) == ("exception", "KeyError")
    assert "oops" in error["message"]


async def test_a_tool_that_returns_no_outcome_is_an_outcome() -> None:
    async def does(call: Call) -> Any:
        return {"status": "success"}

    assert "not an Outcome" in error_of(await runner(does).run(a_job("told")))["message"]


@pytest.mark.parametrize("default", [None, 0.01])
async def test_a_tool_that_takes_too_long_is_cancelled(default: float | None) -> None:
    job = a_job("held", timeout_s=None if default else 0.01)
    error = error_of(await runner(default_timeout_s=default).run(job))

    assert (error["kind"], error["retryable"]) == ("timeout", True)
    assert "0.01 s" in error["message"]


async def test_a_timeout_of_the_tools_own_is_no_timeout_of_the_task() -> None:
    async def does(call: Call) -> Outcome:
        raise TimeoutError("inner")

    assert error_of(await runner(does).run(a_job("told", timeout_s=5.0)))["kind"] == "exception"


async def test_a_caller_may_cancel() -> None:
    held = HeldTool()
    task = asyncio.create_task(
        Runner(Registry([held]), MemoryValues(), worker="w", clock=ManualClock()).run(a_job("held"))
    )
    await held.begun.wait()
    task.cancel()

    with pytest.raises(asyncio.CancelledError):
        await task


async def test_a_tool_that_is_not_there_is_an_outcome() -> None:
    error = error_of(await runner().run(a_job("fortran")))

    assert error["message"] == "this worker has no tool 'fortran'; it has error, held, noop, wait"


async def test_a_sink_that_is_not_there_fails_the_attempt_before_the_tool_runs() -> None:
    ran = False

    async def does(call: Call) -> Outcome:
        nonlocal ran
        ran = True
        return success()

    error = error_of(await runner(does).run(a_job("told", sink={"kind": "postgres", "config": {}})))

    assert error["kind"] == "sink"
    assert not ran


@pytest.mark.parametrize(
    ("problem", "kind", "retryable"),
    [(UnavailableError("down"), "connection", True), (RejectedError("HTTP 413"), "exception", False)],
)
async def test_values_that_cannot_be_loaded_or_stored_are_outcomes(
    problem: Exception, kind: str, retryable: bool
) -> None:
    async def does(call: Call) -> Outcome:
        return success("x" * 100_000)

    told = runner(does, BrokenValues(problem))
    loading = error_of(await told.run(a_job("told", input={"a": {"_ref": "sha256:" + "0" * 64}})))
    storing = error_of(await told.run(a_job("told")))

    assert (loading["kind"], loading["retryable"]) == (storing["kind"], storing["retryable"]) == (kind, retryable)
    assert "could not be loaded" in loading["message"]
    assert "could not be stored" in storing["message"]


@pytest.mark.parametrize(("config", "given"), [([1], {}), ({}, "text")])
async def test_inputs_that_are_no_mapping_are_an_outcome(config: Any, given: Any) -> None:
    assert error_of(await runner().run(a_job("noop", config, input=given)))["kind"] == "expression"


async def test_a_secret_is_hidden_from_everything_that_is_said() -> None:
    async def does(call: Call) -> Outcome:
        raise ValueError(f"cannot use {call.config['key']}")

    config = {"key": {"$template": "{{ keychain.api.token }}", "$scope": {}}}
    job = a_job("told", config, deferred=(("config", "key"),))
    error = error_of(await runner(does, keychain=OneCredential()).run(job))

    assert "cannot use" in error["message"]
    assert "s3cret" not in error["message"]


async def test_what_was_undefined_is_noted() -> None:
    values = MemoryValues()
    reference = await values.store(canonical_json({}))
    outcome = await runner(values=values).run(a_job("noop", input={"a": {**reference, "_path": ["x"]}}))

    assert outcome.meta["notes"] == ["'x' is undefined in the stored value"]


async def test_a_result_too_deep_to_look_for_secrets_in_is_an_outcome_and_not_a_broken_worker() -> None:
    async def does(call: Call) -> Outcome:
        await call.credential("api")
        deep: Any = "leaf"
        for _ in range(100_000):
            deep = [deep]
        return success(deep)

    error = error_of(await runner(does, keychain=OneCredential()).run(a_job("told")))

    assert error["kind"] == "exception"
    assert "cannot be sent" in error["message"] or "no JSON" in error["message"]
