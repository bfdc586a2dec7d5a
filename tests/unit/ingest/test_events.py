"""The log, read and explained; and events from outside."""

from typing import Any

import pytest

from shared.contracts.ids import Address, fact_id, job_id
from shared.engine.world import INLINE_BYTES
from tests.unit.ingest.service import NOBODY, RETRIED, Service

NODE = "fetch~1.fetch#1"


async def running(service: Service) -> str:
    execution_id = await service.started(RETRIED)
    await service.decide(execution_id)
    await service.woken()
    return execution_id


async def emit(service: Service, body: Any, path: str = "/api/v1/events", scope: str = "worker") -> Any:
    async with service.client(scope) as client:
        return await client.post(path, json=body)


async def log(service: Service, execution_id: str, query: str = "") -> list[dict[str, Any]]:
    async with service.client("read") as client:
        items: list[dict[str, Any]] = (await client.get(f"/api/v1/executions/{execution_id}/events{query}")).json()[
            "items"
        ]
        return items


async def test_the_log_shows_both_names_of_every_event(service: Service) -> None:  # req: I2
    execution_id = await running(service)
    await service.report(execution_id, NODE, status="error", error="timeout")

    events = await log(service, execution_id)

    assert [event["seq"] for event in events] == list(range(1, len(events) + 1))
    names = {event["type"]: event["alias"] for event in events}
    assert names["task.processed"] == "action_error"
    assert names["task.retry_scheduled"] == "step_retry"
    assert names["execution.requested"] == "playbook_execution_requested"
    assert events[-1]["node"].startswith("fetch~1.fetch")


@pytest.mark.parametrize(
    ("query", "types"),
    [
        ("?type=task.processed", {"task.processed"}),
        ("?type=action_error", {"task.processed"}),
        ("?type=step_retry&type=playbook_started", {"task.retry_scheduled", "execution.started"}),
        ("?step=other", set()),
        ("?type=step_completed", set()),
    ],
)
async def test_events_are_asked_for_by_either_name(service: Service, query: str, types: set[str]) -> None:
    execution_id = await running(service)
    await service.report(execution_id, NODE, status="error", error="timeout")

    assert {event["type"] for event in await log(service, execution_id, query)} == types


async def test_a_long_log_is_read_on_from_its_last_place(service: Service) -> None:
    execution_id = await running(service)

    async with service.client("read") as client:
        first = (await client.get(f"/api/v1/executions/{execution_id}/events?limit=2")).json()
        rest = (await client.get(f"/api/v1/executions/{execution_id}/events?after={first['after']}")).json()

    assert first["after"] == 2
    assert rest["items"][0]["seq"] == 3
    assert rest["after"] is None


@pytest.mark.parametrize("query", ["?type=nonsense", "?after=-1", "?after=x", "?limit=0", "?step=%00", "?type=%00"])
async def test_a_question_that_makes_no_sense_is_refused(service: Service, query: str) -> None:
    execution_id = await service.started()

    async with service.client("read") as client:
        answer = await client.get(f"/api/v1/executions/{execution_id}/events{query}")

    assert answer.status_code == 422


async def test_decisions_are_explained_in_words(service: Service) -> None:
    execution_id = await running(service)
    await service.report(execution_id, NODE, status="error", error="timeout")

    async with service.client("read") as client:
        whole = (await client.get(f"/api/v1/executions/{execution_id}/explain")).json()
        part = (await client.get(f"/api/v1/executions/{execution_id}/explain?node=fetch~1.fetch")).json()
        other = (await client.get(f"/api/v1/executions/{execution_id}/explain?node=other~1")).json()

    assert any("attempt 1 of 3" in item["text"] for item in whole["items"])
    assert part["items"] == [item for item in whole["items"] if item["node"].startswith("fetch~1.fetch")]
    assert other["items"] == []
    assert whole["truncated"] is False


@pytest.mark.parametrize("path", ["/api/v1/events", "/api/v1/event/emit"])
async def test_an_outcome_is_taken_at_both_addresses_and_decided_on(service: Service, path: str) -> None:  # req: I1
    execution_id = await running(service)
    event = {
        "type": "task.processed",
        "execution_id": execution_id,
        "node": NODE,
        "payload": {"outcome": {"status": "ok", "result": {"a": 1}}},
    }

    answer = await emit(service, event, path)

    assert answer.status_code == 202
    assert answer.json() == {
        "accepted": 1,
        "new": 1,
        "events": [
            {
                "event_id": fact_id(job_id(execution_id, Address("fetch", task="fetch", attempt=1)), "processed"),
                "execution_id": execution_id,
                "type": "task.processed",
                "new": True,
            }
        ],
    }
    assert await service.woken() == {execution_id}
    await service.decide(execution_id)
    row = await service.store.execution(execution_id)
    assert row is not None
    assert row.status == "completed"


async def test_the_older_names_and_fields_say_the_same(service: Service) -> None:  # req: I8
    execution_id = await running(service)
    common = {
        "execution_id": execution_id,
        "node_id": "fetch",
        "node_name": "fetch",
        "node_type": "http",
        "catalog_id": 7,
    }
    started = {**common, "event_type": "action_started", "catalog_id": 7, "worker_id": "w1", "context": {"work": 1}}
    failed = {
        **common,
        "event_type": "action_error",
        "status": "FAILED",
        "duration": 1.5,
        "data": {"result": None, "error": "rate limit", "retry_config": {"max_attempts": 3}, "attempt_number": 1},
        "context": {"workload": {"password": "x"}, "vars": {}, "_secret": 1},
        "meta": {"error": {"message": "x" * 600}},
        "parent_event_id": None,
        "parent_execution_id": 12,
        "timestamp": "2024-01-01T00:00:00.123Z",
    }

    answer = await emit(service, [started, failed], "/api/v1/event/emit")
    await service.decide(execution_id)

    assert answer.status_code == 202, answer.text
    events = {event["alias"]: event for event in await log(service, execution_id)}
    assert events["action_started"]["source"] == "worker:w1"
    error = events["action_error"]
    assert error["attempt"] == 1
    assert error["payload"]["outcome"]["error"]["message"] == "rate limit"
    assert error["payload"]["outcome"]["meta"] == {"duration_ms": 1500.0}
    assert error["context"] == {"workload": {}, "vars": {}}
    assert len(error["meta"]["error"]["message"]) == 500
    assert error["meta"]["parent_execution_id"] == 12
    assert error["occurred_at"] == "2024-01-01T00:00:00.123000Z"
    assert "step_retry" in events


async def test_an_event_that_is_said_twice_counts_once(service: Service) -> None:
    execution_id = await running(service)
    event = {"type": "task.started", "execution_id": execution_id, "node": NODE}
    named = {"event_type": "action_completed", "execution_id": execution_id, "node_id": NODE, "event_id": "evt-1"}

    first = (await emit(service, {"events": [event, event, named]})).json()
    second = (await emit(service, [named, event])).json()

    assert [item["new"] for item in first["events"]] == [True, False, True]
    assert second["new"] == 0
    assert second["events"][0]["event_id"] == first["events"][2]["event_id"]


async def test_events_of_unknown_executions_are_named_and_the_others_stored(service: Service) -> None:
    execution_id = await running(service)
    events = [{"type": "task.started", "execution_id": each, "node": NODE} for each in (execution_id, NOBODY)]

    answer = await emit(service, events)

    assert answer.status_code == 404
    assert answer.json()["unknown_executions"] == [NOBODY]
    assert answer.json()["stored"] == 1
    assert await service.woken() == {execution_id}


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"type": None}, "type"),
        ({"type": "task.processd"}, "type"),
        ({"type": "step.completed"}, "type"),
        ({"type": "control.requested"}, "type"),
        ({"type": "execution.requested"}, "type"),
        ({"type": None, "event_type": "iterator_completed"}, "event_type"),
        ({"node": None}, "node"),
        ({"node": "no address!"}, "node"),
        ({"node": "fetch~99999999999.fetch#1"}, "node"),
        ({"status": "maybe"}, "status"),
        ({"execution_id": "x"}, "execution_id"),
        ({"execution_id": None}, "execution_id"),
        ({"job_id": "7"}, "job_id"),
        ({"payload": {"outcome": {"status": "maybe"}}}, "payload"),
        ({"payload": {"outcome": 1}}, "payload"),
        ({"payload": {"out": 1}}, "payload"),
        ({"data": {"outcome": {"status": 7}}}, "data.outcome"),
        ({"occurred_at": "yesterday"}, "occurred_at"),
        ({"occurred_at": "9999-12-31T23:59:59-12:00"}, "occurred_at"),
        ({"attempt": 0}, "attempt"),
        ({"surprise": 1}, "surprise"),
        ({"type": "signal.received"}, "name"),
    ],
)
async def test_what_is_no_fact_is_refused_with_its_field(service: Service, change: dict[str, Any], field: str) -> None:
    event = {"type": "task.processed", "execution_id": NOBODY, "node": NODE, "status": "success", **change}
    event = {key: value for key, value in event.items() if value is not None}

    one = await emit(service, event)
    many = await emit(service, {"events": [event]})

    assert one.status_code == many.status_code == 422, one.text
    assert one.json()["errors"][0]["path"] == field
    assert many.json()["errors"][0]["path"] == f"events.0.{field}"


@pytest.mark.parametrize("body", [[], 1, "x", {"events": []}, {"events": 1}, [1], [{}] * 1001])
async def test_a_body_without_events_is_refused(service: Service, body: Any) -> None:
    assert (await emit(service, body)).status_code == 422


async def test_a_large_result_is_stored_apart_and_referred_to(service: Service) -> None:
    execution_id = await running(service)
    large = {"rows": ["x" * 100] * (INLINE_BYTES // 100)}

    await service.report(execution_id, NODE, status="success", result=large)

    (event,) = await log(service, execution_id, "?type=action_completed")
    reference = event["payload"]["outcome"]["result"]
    assert await service.store.result(reference["_ref"]) == large
    assert len(str(event)) < 4000


async def test_a_signal_may_be_reported_as_an_event(service: Service) -> None:
    execution_id = await running(service)

    answer = await emit(
        service, {"type": "signal.received", "execution_id": execution_id, "name": "go", "result": {"a": 1}}
    )
    await service.decide(execution_id)

    assert answer.status_code == 202
    (logged,) = await log(service, execution_id, "?type=signal.received")
    assert logged["payload"] == {"name": "go", "payload": {"a": 1}}
