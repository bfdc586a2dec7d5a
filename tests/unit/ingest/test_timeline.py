"""An execution in time, and what would have become of it under other rules."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.ingest.service import NOBODY, NOOP, RETRIED, Service

SLOW = {"kind": "timeout", "message": "slow"}


async def got(service: Service, path: str, **params: Any) -> Any:
    async with service.client("read") as client:
        answer = await client.get(f"/api/v1/executions/{path}", params=params)
    assert answer.status_code == 200, answer.text
    return answer.json()


async def retried(service: Service) -> str:
    """Run a playbook whose only task fails once, waits a second and then succeeds."""
    execution_id = await service.started(RETRIED)
    await service.decide(execution_id)
    await service.clock.advance(2)
    await service.report(execution_id, "fetch~1.fetch#1", status="error", error=SLOW)
    await service.clock.advance(3)
    await service.report(execution_id, "fetch~1.fetch#2", status="success", result={"rows": 7})
    return execution_id


def seconds(found: dict[str, Any], start: str) -> list[tuple[str, int, int | None]]:
    def since(text: str | None) -> int | None:
        return None if text is None else int(text[17:19]) - int(start[17:19])

    return [(item["kind"], since(item["start"]) or 0, since(item["end"])) for item in found["intervals"]]


async def test_attempts_and_waits_are_intervals(service: Service) -> None:
    execution_id = await retried(service)

    found = await got(service, f"{execution_id}/timeline")

    first, second = found["attempts"]
    assert (first["node"], first["status"], first["error"]) == ("fetch~1.fetch#1", "failed", "slow")
    assert (second["node"], second["status"], second["error"]) == ("fetch~1.fetch#2", "completed", None)
    assert seconds(first, found["start"]) == [("queue", 0, 2)]
    assert seconds(second, found["start"]) == [("wait", 2, 3), ("queue", 3, 5)]
    (step,) = found["steps"]
    assert (step["node"], step["status"], step["end"]) == ("fetch~1", "completed", found["end"])
    assert found["truncated"] is False


async def test_what_goes_on_has_no_end_and_what_was_cancelled_has(service: Service) -> None:
    execution_id = await service.started(RETRIED)
    await service.decide(execution_id)
    before = await got(service, f"{execution_id}/timeline", step="fetch")
    async with service.client("run") as client:
        await client.post(f"/api/v1/executions/{execution_id}:cancel")
    await service.clock.advance(1)
    await service.decide(execution_id)

    after = await got(service, f"{execution_id}/timeline")

    assert [item["end"] for item in before["attempts"][0]["intervals"]] == [None]
    assert (after["attempts"][0]["status"], after["steps"][0]["status"]) == ("cancelled", "cancelled")
    assert after["attempts"][0]["intervals"][-1]["end"] is not None


async def test_a_step_that_nobody_has_leaves_nothing(service: Service) -> None:
    found = await got(service, f"{await retried(service)}/timeline", step="nothing")

    assert (found["steps"], found["attempts"]) == ([], [])


async def simulated(service: Service, execution_id: str, **body: Any) -> Any:
    async with service.client("run") as client:
        return await client.post(f"/api/v1/executions/{execution_id}:simulate", json=body)


async def test_other_rules_over_a_recorded_run_say_what_would_have_been(service: Service) -> None:
    execution_id = await retried(service)
    before = len(await service.store.events(execution_id))

    same = (await simulated(service, execution_id, playbook=RETRIED)).json()
    other = (
        await simulated(service, execution_id, playbook=RETRIED.replace("max_attempts: 3", "max_attempts: 1"))
    ).json()

    assert (same["status"], same["recorded_status"], same["certain"], same["changes"]) == (
        "completed",
        "completed",
        True,
        [],
    )
    assert same["result"] == {"rows": 7}
    assert (other["status"], other["recorded_status"]) == ("failed", "completed")
    assert any(change.startswith("fetch~1.fetch#1: retry in 1 s") for change in other["changes"])
    assert len(await service.store.events(execution_id)) == before


async def test_attempts_that_were_never_recorded_are_conjecture(service: Service) -> None:
    execution_id = await retried(service)
    longer = RETRIED + "    next: after\n  - {step: after, tool: noop}\n"

    found = (await simulated(service, execution_id, playbook=longer)).json()

    assert (found["status"], found["certain"]) == ("completed", False)
    assert [item["node"] for item in found["conjectures"]] == ["after~1.after#1"]


async def test_a_large_recorded_result_is_loaded(service: Service) -> None:
    execution_id = await service.started(NOOP)
    await service.decide(execution_id)
    large = {"rows": ["x" * 100] * 2000, "count": 3}
    await service.report(execution_id, "greet~1.greet#1", status="success", result=large)
    counting = NOOP + "    next: [{step: on, when: '{{ greet.count == 3 }}'}]\n  - {step: on, tool: noop}\n"

    found = await simulated(service, execution_id, playbook=counting)

    assert found.status_code == 200, found.text
    assert [item["node"] for item in found.json()["conjectures"]] == ["on~1.on#1"]


async def test_another_version_of_the_same_playbook_can_be_laid_over_a_run(service: Service) -> None:
    async with service.client("run") as client:
        headers = {"Content-Type": "text/yaml"}
        await client.post("/api/v1/playbooks", content=NOOP, headers=headers)
        execution_id = (await client.post("/api/v1/executions", json={"path": "tests/greet"})).json()["execution_id"]
    await service.decide(execution_id)
    await service.report(execution_id, "greet~1.greet#1", status="success", result=1)

    assert (await simulated(service, execution_id, version="latest")).json()["changes"] == []
    assert (await simulated(service, execution_id, version=9)).status_code == 404


@pytest.mark.parametrize(
    ("body", "status"),
    [({}, 422), ({"playbook": NOOP, "version": 1}, 422), ({"playbook": "workflow: []"}, 422), ({"version": 0}, 422)],
)
async def test_what_cannot_be_simulated_is_refused(service: Service, body: dict[str, Any], status: int) -> None:
    assert (await simulated(service, await retried(service), **body)).status_code == status


async def test_an_execution_that_has_no_log_yet_cannot_be_simulated(service: Service) -> None:
    execution_id = await service.started(NOOP)

    assert (await simulated(service, execution_id, playbook=NOOP)).status_code == 409
    assert (await simulated(service, NOBODY, playbook=NOOP)).status_code == 404


async def test_rules_that_never_end_are_told_apart_from_those_that_do(service: Service) -> None:
    execution_id = await service.finished()

    answer = await simulated(service, execution_id, playbook=NOOP + "    next: greet\n")

    assert answer.status_code == 409
    assert "cannot be simulated" in answer.json()["detail"]


async def test_a_redrive_that_would_be_refused_is_refused_at_once_with_the_reason(service: Service) -> None:
    execution_id = await service.finished()
    async with service.client("run") as client:
        nothing = await client.post(f"/api/v1/executions/{execution_id}:redrive")
        step = await client.post(f"/api/v1/executions/{execution_id}:redrive", json={"step": "greet"})

    assert nothing.status_code == 409
    assert "nothing failed or was cut off; name the step" in nothing.json()["detail"]
    assert await service.store.events(execution_id, types={"control.requested"}) == []
    assert step.status_code == 202


async def test_a_redrive_with_a_version_that_lost_the_step_is_refused(service: Service) -> None:
    headers = {"Content-Type": "text/yaml"}
    async with service.client("run") as client:
        await client.post("/api/v1/playbooks", content=NOOP, headers=headers)
        execution_id = (await client.post("/api/v1/executions", json={"path": "tests/greet"})).json()["execution_id"]
        await service.decide(execution_id)
        await service.report(execution_id, "greet~1.greet#1", status="error", error=SLOW)
        await client.post("/api/v1/playbooks", content=NOOP.replace("step: greet", "step: other"), headers=headers)
        answer = await client.post(f"/api/v1/executions/{execution_id}:redrive", json={"version": "latest"})

    assert answer.status_code == 409
    assert "no step 'greet' any more" in answer.json()["detail"]
