"""The `artifact` tool as a worker runs it: through the runner, on values that are really stored."""

from __future__ import annotations

from typing import Any

import pytest

from services.worker.runner import Runner
from services.worker.tools.artifact import ArtifactTool
from services.worker.tools.registry import Registry
from services.worker.values import MemoryValues
from shared.contracts.outcomes import Outcome
from shared.contracts.references import is_reference
from shared.engine.world import canonical_json
from shared.runtime.clock import ManualClock
from tests.unit.worker.given import a_job

ROWS = [{"id": number, "name": f"name {number}"} for number in range(5000)]
GONE = "sha256:" + "0" * 64


async def loaded(values: MemoryValues, limit: int | None = None, **job: Any) -> Outcome:
    tool = ArtifactTool(values) if limit is None else ArtifactTool(values, limit)
    runner = Runner(Registry([tool]), values, worker="w1", clock=ManualClock())
    return await runner.run(a_job("artifact", job.get("config") or {"action": "get"}, input=job.get("input")))


def error_of(outcome: Outcome) -> dict[str, Any]:
    assert outcome.status == "error", outcome.result
    assert outcome.error is not None
    return outcome.error


async def test_a_stored_result_comes_back_by_its_reference_however_that_is_given() -> None:
    values = MemoryValues()
    small = await values.store(canonical_json({"rows": [1, 2]}))
    ways: list[dict[str, Any]] = [
        {"config": {"action": "get", "result_ref": small["_ref"]}},
        {"config": {"action": "get", "result_ref": small}},
        {"config": {"result_ref": small["_ref"]}},
        {"input": {"result_ref": small["_ref"]}},
        {"input": {"result_ref": small}},
    ]

    for way in ways:
        outcome = await loaded(values, **way)
        assert outcome.status == "success", (way, outcome.error)
        assert outcome.result == {"rows": [1, 2]}


async def test_a_large_result_is_stored_once_and_comes_back_by_reference() -> None:
    values = MemoryValues()
    reference = await values.store(canonical_json(ROWS))
    outcome = await loaded(values, input={"result_ref": reference["_ref"]})

    assert is_reference(outcome.result)
    assert outcome.result["_ref"] == reference["_ref"]
    assert len(values.texts) == 1


async def test_what_a_stored_result_refers_to_comes_with_it() -> None:
    values = MemoryValues()
    inner = await values.store(canonical_json([1, 2, 3]))
    outer = await values.store(canonical_json({"inner": inner}))
    outcome = await loaded(values, input={"result_ref": outer["_ref"]})

    assert outcome.result == {"inner": [1, 2, 3]}


@pytest.mark.parametrize(
    ("result_ref", "kind", "message"),
    [
        (GONE, "client_error", f"nothing is stored as {GONE}"),
        ("loop:gone", "client_error", "nothing is stored as loop:gone"),
        ("not a reference", "expression", "artifact: result_ref is no reference; one begins with sha256: or loop:"),
        (None, "expression", "artifact: result_ref is needed"),
        ({"_ref": GONE}, "expression", "a stored value that the call needs is gone"),
    ],
)
async def test_what_is_not_there_says_so(result_ref: Any, kind: str, message: str) -> None:
    error = error_of(await loaded(MemoryValues(), input={"result_ref": result_ref}))

    assert error["kind"] == kind
    assert error["message"].startswith(message)
    assert error["retryable"] is False


async def test_a_value_over_the_limit_is_not_returned() -> None:
    values = MemoryValues()
    reference = await values.store(canonical_json(ROWS))
    error = error_of(await loaded(values, 1000, input={"result_ref": reference["_ref"]}))

    assert error["kind"] == "limit"
    assert error["message"].endswith("stands for more than 1000 bytes")


async def test_another_action_and_another_field_are_refused() -> None:
    for config in ({"action": "put", "result_ref": GONE}, {"result_ref": GONE, "extra": 1}):
        error = error_of(await loaded(MemoryValues(), config=config))
        assert error["message"].startswith("artifact: ")
