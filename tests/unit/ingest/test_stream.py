"""The log as it grows, as server-sent events."""

import asyncio
import json
from typing import Any

import pytest

from services.ingest.stream import ALIVE_EVERY_S, frames
from tests.support.eventually import eventually
from tests.unit.ingest.service import Service

AT_ONCE = 1.0


def parsed(text: str) -> list[dict[str, Any]]:
    """Return the events of a stream."""
    found = []
    for block in text.split("\n\n"):
        fields = dict(line.split(": ", 1) for line in block.splitlines() if ": " in line and not line.startswith(":"))
        if "data" in fields:
            found.append({**fields, "data": json.loads(fields["data"])})
    return found


async def test_the_whole_log_of_an_ended_execution_is_told_and_then_the_end(service: Service) -> None:
    execution_id = await service.finished()

    async with service.client("read") as client:
        answer = await client.get(f"/api/v1/executions/{execution_id}/events/stream")

    events = parsed(answer.text)
    assert answer.headers["Content-Type"].startswith("text/event-stream")
    assert [int(event["id"]) for event in events[:-1]] == list(range(1, len(events)))
    assert events[0]["event"] == "execution.requested"
    assert events[0]["data"]["alias"] == "playbook_execution_requested"
    assert events[-1] == {"event": "end", "data": {"status": "completed", "seq": len(events) - 1}}


@pytest.mark.parametrize("where", ["header", "query"])
async def test_a_broken_stream_is_taken_up_where_it_broke(service: Service, where: str) -> None:
    execution_id = await service.finished()
    headers = {"Last-Event-ID": "3"} if where == "header" else {}
    query = "?after=3" if where == "query" else ""

    async with service.client("read") as client:
        answer = await client.get(f"/api/v1/executions/{execution_id}/events/stream{query}", headers=headers)

    assert parsed(answer.text)[0]["id"] == "4"


async def test_a_last_event_that_is_no_number_is_refused(service: Service) -> None:
    execution_id = await service.started()

    async with service.client("read") as client:
        answer = await client.get(f"/api/v1/executions/{execution_id}/events/stream", headers={"Last-Event-ID": "abc"})

    assert answer.status_code == 422


async def test_events_are_told_as_they_come(service: Service) -> None:
    execution_id = await service.started()
    told: list[str] = []

    async def listen() -> None:
        async for text in frames(service.parts, execution_id, 0):
            told.append(text)

    async def heard() -> list[dict[str, Any]]:
        await service.clock.advance(AT_ONCE)
        return parsed("".join(told))

    listening = asyncio.create_task(listen())
    assert await heard() == []
    await service.decide(execution_id)
    first = await eventually(heard)
    await service.report(execution_id, "greet~1.greet#1", status="success")
    await service.clock.advance(AT_ONCE)
    await asyncio.wait_for(listening, 5)

    events = parsed("".join(told))
    assert events[: len(first)] == first
    assert events[-1]["event"] == "end"


async def test_a_silent_stream_says_that_it_lives_and_ends_with_the_service(service: Service) -> None:
    execution_id = await service.started()
    told: list[str] = []

    async def listen() -> None:
        async for text in frames(service.parts, execution_id, 0):
            told.append(text)

    listening = asyncio.create_task(listen())
    await service.clock.advance(ALIVE_EVERY_S + 1)
    service.parts.stopping.set()
    await asyncio.wait_for(listening, 5)

    assert ": alive\n\n" in told
