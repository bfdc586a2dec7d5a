"""What is asked of an execution that exists."""

from typing import Any

import pytest

from tests.unit.ingest.service import NOBODY, NOOP, RETRIED, Service

WAITING = """\
workflow:
  - step: gate
    tool: {kind: wait, signal: go, timeout: 1h}
"""


async def asked(service: Service, execution_id: str, command: str, **more: Any) -> Any:
    async with service.client("run") as client:
        return await client.post(f"/api/v1/executions/{execution_id}:{command}", **more)


async def status(service: Service, execution_id: str) -> str:
    row = await service.store.execution(execution_id)
    assert row is not None
    return row.status


async def test_cancelling_is_recorded_with_who_and_why_and_then_decided(service: Service) -> None:
    execution_id = await service.started(RETRIED)
    await service.decide(execution_id)
    await service.woken()

    answer = await asked(service, execution_id, "cancel", json={"reason": "not needed"})

    assert answer.status_code == 202
    assert answer.json()["new"] is True
    assert await service.woken() == {execution_id}
    await service.decide(execution_id)
    assert await status(service, execution_id) == "cancelled"
    (event,) = await service.store.events(execution_id, types={"execution.cancelled"})
    assert (event.payload.by, event.payload.reason) == ("runer", "not needed")  # type: ignore[attr-defined]


async def test_an_execution_is_paused_resumed_and_redriven(service: Service) -> None:
    execution_id = await service.started(RETRIED)
    await service.decide(execution_id)

    for command, expected in [
        ("pause", "paused"),
        ("resume", "running"),
        ("cancel", "cancelled"),
        ("redrive", "running"),
    ]:
        answer = await asked(service, execution_id, command)
        assert answer.status_code == 202, answer.text
        await service.decide(execution_id)
        assert await status(service, execution_id) == expected


async def test_the_same_command_said_twice_counts_once(service: Service) -> None:
    execution_id = await service.started(RETRIED)
    await service.decide(execution_id)

    first, second = [(await asked(service, execution_id, "cancel")).json() for _ in "12"]

    assert (first["new"], second["new"]) == (True, False)
    assert first["event_id"] == second["event_id"]


async def test_a_command_with_a_key_may_be_repeated_after_it_was_obeyed(service: Service) -> None:
    execution_id = await service.started(RETRIED)
    await service.decide(execution_id)
    headers = {"Idempotency-Key": "a"}

    first = await asked(service, execution_id, "cancel", headers=headers)
    await service.decide(execution_id)
    second = await asked(service, execution_id, "cancel", headers=headers)
    other = await asked(service, execution_id, "cancel", headers={"Idempotency-Key": "b"})

    assert (first.json()["new"], second.json()["new"]) == (True, False)
    assert [first.status_code, second.status_code, other.status_code] == [202, 202, 409]


@pytest.mark.parametrize(
    ("command", "before", "said"),
    [
        ("cancel", "completed", "an execution that is completed cannot be asked to cancel"),
        ("pause", "new", "it would have to be running"),
        ("pause", "completed", "completed"),
        ("resume", "running", "it would have to be paused"),
        ("redrive", "running", "cancelled or completed or failed"),
    ],
)
async def test_what_the_state_does_not_allow_is_refused_with_the_reason(
    service: Service, command: str, before: str, said: str
) -> None:
    execution_id = await (service.finished() if before == "completed" else service.started())
    if before == "running":
        await service.decide(execution_id)

    answer = await asked(service, execution_id, command)

    assert answer.status_code == 409
    assert said in answer.json()["detail"]
    assert answer.json()["execution_status"] == before


async def test_a_redrive_may_name_a_step_a_workload_and_a_version(service: Service) -> None:
    async with service.client("run") as client:
        headers = {"Content-Type": "text/yaml"}
        await client.post("/api/v1/playbooks", content=RETRIED, headers=headers)
        execution_id = (await client.post("/api/v1/executions", json={"path": "tests/fetch"})).json()["execution_id"]
        newer = RETRIED.replace("size: 10", "size: 11")
        digest = (await client.post("/api/v1/playbooks", content=newer, headers=headers)).json()["digest"]
    await service.decide(execution_id)
    await asked(service, execution_id, "cancel")
    await service.decide(execution_id)

    body = {"step": "fetch", "workload": {"url": "http://other"}, "version": "latest"}
    answer = await asked(service, execution_id, "redrive", json=body)
    await service.decide(execution_id)

    assert answer.status_code == 202
    (event,) = await service.store.events(execution_id, types={"execution.redriven"})
    said: Any = event.payload
    assert said.workload == {"url": "http://other", "options": {"size": 11, "deep": True}}
    assert said.plan == digest


@pytest.mark.parametrize(
    ("body", "expected"), [({"step": "fetsh"}, 409), ({"version": 9}, 404), ({"steps": 1}, 422), ({"version": 0}, 422)]
)
async def test_a_redrive_that_cannot_be_is_refused(service: Service, body: Any, expected: int) -> None:
    execution_id = await service.finished()

    answer = await asked(service, execution_id, "redrive", json=body)

    assert answer.status_code == expected


@pytest.mark.parametrize("command", ["cancel", "pause", "resume", "redrive"])
async def test_an_execution_that_is_not_there_is_not_found(service: Service, command: str) -> None:
    assert (await asked(service, NOBODY, command)).status_code == 404


async def test_an_unknown_command_is_not_possible(service: Service) -> None:
    execution_id = await service.started()

    assert (await asked(service, execution_id, "explode")).status_code == 404


async def test_a_signal_reaches_the_task_that_waits_for_it(service: Service) -> None:
    execution_id = await service.started(WAITING)
    await service.decide(execution_id)

    async with service.client("run") as client:
        answer = await client.post(f"/api/v1/executions/{execution_id}/signals/go", json={"payload": {"ok": True}})
    await service.decide(execution_id)

    assert answer.status_code == 202
    assert await status(service, execution_id) == "completed"


async def test_a_signal_with_a_key_counts_once(service: Service) -> None:
    execution_id = await service.started(WAITING)
    address = f"/api/v1/executions/{execution_id}/signals/go"

    async with service.client("run") as client:
        keyed = [(await client.post(address, headers={"Idempotency-Key": "a"})).json()["new"] for _ in "12"]
        free = [(await client.post(address)).json()["new"] for _ in "12"]

    assert keyed == [True, False]
    assert free == [True, True]


async def test_a_signal_for_an_execution_that_is_over_is_refused(service: Service) -> None:
    execution_id = await service.finished(NOOP)

    async with service.client("run") as client:
        over = await client.post(f"/api/v1/executions/{execution_id}/signals/go", json={"payload": 1})
        unknown = await client.post(f"/api/v1/executions/{NOBODY}/signals/go")
        wrong = await client.post(f"/api/v1/executions/{execution_id}/signals/a%20b")

    assert [over.status_code, unknown.status_code, wrong.status_code] == [409, 404, 422]
