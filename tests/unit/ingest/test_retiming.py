"""Work that waits is hurried, re-timed and cancelled; what a worker may have in hand is not."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from services.orchestrator.due import Due
from shared.broker.topology import TIMERS, jobs_queue
from shared.contracts.ids import Address, job_id
from shared.contracts.jobs import Job
from shared.contracts.messages import decode_job
from shared.contracts.payloads import JobRescheduled
from shared.store.records import JobRow
from tests.unit.ingest.service import NOBODY, Service, serving

HOUR = 3600.0
PLAYBOOK = """\
metadata: {name: fetch, path: tests/fetch}
workflow:
  - step: fetch
    tool: http
    url: "http://api"
    retry: {max_attempts: ATTEMPTS, initial_delay: DELAY, max_delay: 9h, jitter: false}
"""
SIGNAL = "workflow:\n  - {step: gate, tool: {kind: wait, signal: go}}\n"


async def waiting(service: Service, delay: str, attempts: int = 3) -> JobRow:
    """Return the job of a second attempt that waits so long."""
    execution_id = await service.started(PLAYBOOK.replace("DELAY", delay).replace("ATTEMPTS", str(attempts)))
    await service.decide(execution_id)
    await service.taken(jobs_queue("default"))
    await service.report(execution_id, "fetch~1.fetch#1", status="error", error={"kind": "timeout", "message": "slow"})
    return await found(service, job_id(execution_id, Address("fetch", task="fetch", page=1, attempt=2)))


async def found(service: Service, identity: str) -> JobRow:
    row = await service.store.job(identity)
    assert row is not None
    return row


async def asked(service: Service, row: JobRow, what: str, scope: str = "run", **body: Any) -> Any:
    async with service.client(scope) as client:
        return await client.post(f"/api/v1/jobs/{row.job_id}:{what}", json=body)


async def arrived(service: Service) -> list[Job]:
    """Let the orchestrator hand on what is due, and return what workers would get."""
    due = [decode_job(each.body) for each in await service.taken(TIMERS)]
    await Due(service.store, service.broker).forward([job for job in due if job.role != "timer"])
    return [decode_job(each.body) for each in await service.taken(jobs_queue("default"))]


async def test_a_long_wait_ends_by_the_orchestrator_and_then_in_its_pool(service: Service) -> None:
    row = await waiting(service, "60s")
    await service.clock.advance(59)
    assert await arrived(service) == []

    await service.clock.advance(2)

    assert [job.job_id for job in await arrived(service)] == [row.job_id]


async def test_a_job_that_waits_runs_now_and_once(service: Service) -> None:
    row = await waiting(service, "60s")

    answer = await asked(service, row, "run-now", reason="they are up again")

    assert answer.status_code == 202, answer.text
    (job,) = await arrived(service)
    assert (job.job_id, job.delay_s) == (row.job_id, 0.0)
    await service.clock.advance(120)
    assert await arrived(service) == []


async def test_the_log_says_who_changed_the_time_and_why(service: Service) -> None:
    row = await waiting(service, "60s")

    await asked(service, row, "run-now", reason="they are up again")
    await service.decide(row.execution_id)

    (event,) = await service.store.events(row.execution_id, types={"job.rescheduled"})
    assert isinstance(event.payload, JobRescheduled)
    assert row.available_at is not None
    assert (event.payload.by, event.payload.reason) == ("runer", "they are up again")
    assert event.payload.was == row.available_at.isoformat()
    (retry,) = await service.store.retries(row.execution_id)
    assert retry.available_at is not None
    assert retry.available_at.isoformat() == event.payload.available_at
    async with service.client("read") as client:
        said = (await client.get(f"/api/v1/executions/{row.execution_id}/explain")).json()["items"]
    assert any("as runer asked: they are up again" in item["text"] for item in said)


async def test_a_job_that_is_put_off_does_not_run_at_its_old_time(service: Service) -> None:
    row = await waiting(service, "60s")

    answer = await asked(service, row, "reschedule", delay_s=300)

    assert answer.status_code == 202
    await service.clock.advance(200)
    assert await arrived(service) == []
    await service.clock.advance(101)
    assert [job.job_id for job in await arrived(service)] == [row.job_id]


async def test_a_wait_beyond_the_ladder_is_moved_into_it_and_out_of_it(service: Service) -> None:
    row = await waiting(service, "5h")
    assert row.published_at is None

    sooner = await asked(service, row, "reschedule", delay_s=20)
    later = await asked(service, row, "reschedule", available_at=(service.clock.now() + timedelta(hours=8)).isoformat())

    assert (sooner.json()["published_at"] is None, later.json()["published_at"]) == (False, None)
    await service.clock.advance(30)
    assert await arrived(service) == []


async def test_a_cancelled_wait_is_an_outcome_that_the_rules_see_and_nothing_runs(service: Service) -> None:
    row = await waiting(service, "60s", attempts=2)

    answer = await asked(service, row, "cancel", reason="no use")
    await service.decide(row.execution_id)

    assert answer.status_code == 202
    ended = await service.store.execution(row.execution_id)
    assert ended is not None
    assert ended.failure is not None
    assert ended.failure["error"]["kind"] == "cancelled"
    assert ended.failure["error"]["message"] == "cancelled by runer: no use"
    assert (await found(service, row.job_id)).status == "dead"
    await service.clock.advance(120)
    assert await arrived(service) == []


async def test_a_wait_for_a_signal_can_be_cancelled_but_has_no_time(service: Service) -> None:
    execution_id = await service.started(SIGNAL)
    await service.decide(execution_id)
    row = await found(service, job_id(execution_id, Address("gate", task="gate", page=1, attempt=1)))

    refused = await asked(service, row, "run-now")
    cancelled = await asked(service, row, "cancel")
    await service.decide(execution_id)

    assert (refused.status_code, cancelled.status_code) == (409, 202)
    assert "waits for a signal" in refused.json()["detail"]
    assert (await found(service, row.job_id)).status in ("completed", "dead")


@pytest.mark.parametrize("what", ["run-now", "reschedule", "cancel"])
@pytest.mark.parametrize(("delay", "later", "said"), [("5s", 0, "less than 10 s"), ("60s", 59.5, "is due")])
async def test_what_is_on_its_way_to_a_worker_is_left_alone(
    service: Service, what: str, delay: str, later: float, said: str
) -> None:
    row = await waiting(service, delay)
    await service.clock.advance(later)

    body: dict[str, Any] = {"delay_s": 5} if what == "reschedule" else {}
    answer = await asked(service, row, what, **body)

    assert answer.status_code == 409
    assert said in answer.json()["detail"]
    assert (await found(service, row.job_id)).available_at == row.available_at


async def test_a_job_that_has_ended_is_not_changed(service: Service) -> None:
    row = await waiting(service, "60s")
    await service.report(row.execution_id, "fetch~1.fetch#2", status="success")

    answer = await asked(service, row, "run-now")

    assert (answer.status_code, answer.json()["job_status"]) == (409, "completed")


@pytest.mark.parametrize(
    "body",
    [{}, {"delay_s": -1}, {"delay_s": 1e12}, {"delay_s": 1, "available_at": "2030-01-01T00:00:00Z"}, {"when": 1},
     {"available_at": "soon"}, {"available_at": "9999-01-01T00:00:00Z"}],
)  # fmt: skip
async def test_a_time_that_is_none_is_refused(service: Service, body: dict[str, Any]) -> None:
    row = await waiting(service, "60s")

    assert (await asked(service, row, "reschedule", **body)).status_code == 422


async def test_a_job_that_is_not_there_or_a_key_that_may_only_read_changes_nothing(service: Service) -> None:
    row = await waiting(service, "60s")

    assert (await asked(service, row, "run-now", "read")).status_code == 403
    async with service.client("run") as client:
        assert (await client.post(f"/api/v1/jobs/{NOBODY}:run-now")).status_code == 404


async def test_a_job_that_could_not_be_published_is_left_for_the_sweep() -> None:
    async with serving() as service:
        row = await waiting(service, "60s")
        changed = await service.store.retime(row.job_id, service.clock.now(), 1.0)

        assert changed is not None
        assert await service.store.take_unpublished(2, HOUR, 10) == []
        await service.clock.advance(11)
        assert [each.job_id for each in await service.store.take_unpublished(2, HOUR, 10)] == [row.job_id]
