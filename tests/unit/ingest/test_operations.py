"""What operators look at: jobs, workers, queues, health, figures; and what is said when servers are down."""

from typing import Any

import pytest

from services.ingest.settings import Settings
from shared.broker.topology import OUTCOMES, jobs_queue, pool_topology
from shared.contracts.ids import Address, job_id
from shared.errors import ConflictError, RejectedError, UnavailableError
from shared.runtime.clock import ManualClock
from shared.store.records import Beat
from tests.unit.ingest.service import KEYS, NOBODY, NOOP, RETRIED, Service, made


async def test_jobs_are_listed_by_their_state(service: Service) -> None:
    execution_id = await service.started(RETRIED)
    await service.decide(execution_id)
    await service.report(execution_id, "fetch~1.fetch#1", status="error", error="timeout")
    waiting = job_id(execution_id, Address("fetch", task="fetch", attempt=2))

    async with service.client("read") as client:
        delayed = (await client.get("/api/v1/jobs?state=delayed")).json()["items"]
        done = (await client.get(f"/api/v1/jobs?state=completed&execution_id={execution_id}&pool=default")).json()
        none = (await client.get("/api/v1/jobs?pool=other")).json()
        one = (await client.get(f"/api/v1/jobs/{waiting}")).json()

    assert [job["job_id"] for job in delayed] == [waiting]
    assert (one["attempt"], one["available_at"], one["status"]) == (2, "2024-01-01T00:00:01Z", "queued")
    assert [job["last_error"] for job in done["items"]] == ["timeout"]
    assert none == {"items": [], "cursor": None}
    assert "config" not in one
    assert "message" not in one


@pytest.mark.parametrize("query", ["state=ready", "execution_id=7", "limit=0", "cursor=zzz", "pool=%00"])
async def test_a_question_about_jobs_that_makes_no_sense_is_refused(service: Service, query: str) -> None:
    async with service.client("read") as client:
        answer = await client.get(f"/api/v1/jobs?{query}")

    assert answer.status_code == 422


@pytest.mark.parametrize("name", [NOBODY, "x"])
async def test_a_job_that_is_not_there_is_not_found(service: Service, name: str) -> None:
    async with service.client("read") as client:
        assert (await client.get(f"/api/v1/jobs/{name}")).status_code == 404


async def test_workers_and_their_queues_are_shown_with_consumers_and_delays(service: Service) -> None:
    await service.store.heartbeat(Beat("w1", ("gpu",), concurrency=4, running=2, host="h"))
    await service.broker.declare(pool_topology("gpu"))
    await service.broker.consume(jobs_queue("gpu"), 1)
    execution_id = await service.started(RETRIED)
    await service.decide(execution_id)
    await service.report(execution_id, "fetch~1.fetch#1", status="error", error="timeout")

    async with service.client("read") as client:
        workers = (await client.get("/api/v1/workers")).json()["items"]
        queues = {item["name"]: item for item in (await client.get("/api/v1/queues")).json()["items"]}

    assert (workers[0]["worker_id"], workers[0]["concurrency"], workers[0]["pools"]) == ("w1", 4, ["gpu"])
    gpu = queues[jobs_queue("gpu")]
    assert (gpu["consumers"], gpu["served"], gpu["workers"]) == (1, True, 1)
    assert queues[jobs_queue("default")] | {"name": ""} == {
        "name": "",
        "pool": "default",
        "exists": True,
        "served": False,
        "ready": 1,
        "consumers": 0,
        "waiting": 0,
        "unrouted": 0,
        "delayed": 1,
        "leased": 0,
        "workers": 0,
        "oldest_due": None,
    }
    assert (queues[OUTCOMES]["consumers"], queues[OUTCOMES]["pool"]) == (1, None)


async def test_a_pool_that_only_a_job_names_is_shown_with_what_is_unrouted(service: Service) -> None:
    execution_id = await service.started(NOOP.replace("{kind: noop}", "{kind: noop, pool: far.away}"))
    await service.decide(execution_id)
    await service.clock.advance(5)

    async with service.client("read") as client:
        queues = {item["pool"]: item for item in (await client.get("/api/v1/queues")).json()["items"]}

    far = queues["far.away"]
    assert (far["exists"], far["served"], far["waiting"], far["unrouted"], far["workers"]) == (False, False, 1, 1, 0)
    assert far["oldest_due"] is not None
    assert "orchestrator" not in queues


async def test_silent_workers_can_be_left_out(service: Service) -> None:
    await service.store.heartbeat(Beat("w1", ("default",)))
    await service.clock.advance(60)

    async with service.client("read") as client:
        heard = (await client.get("/api/v1/workers?silent=30")).json()
        wrong = await client.get("/api/v1/workers?silent=-1")

    assert heard["items"] == []
    assert wrong.status_code == 422


async def test_health_and_readiness_are_for_everybody(service: Service) -> None:
    async with service.client(None) as client:
        health = await client.get("/healthz")
        ready = await client.get("/readyz")

    assert health.json() == {"status": "ok"}
    assert ready.json() == {"status": "ready", "checks": {"database": "ok", "broker": "ok", "service": "ok"}}


async def test_readiness_names_what_is_down(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    async def down() -> None:
        raise UnavailableError("connection refused")

    monkeypatch.setattr(service.store, "ping", down)
    service.broker.block()

    async with service.client(None) as client:
        answer = await client.get("/readyz")
    service.broker.unblock()

    assert answer.status_code == 503
    assert answer.json()["checks"]["database"] == "connection refused"
    assert answer.json()["checks"]["broker"] == "it asked publishers to wait"


async def test_requests_are_counted_by_route(service: Service) -> None:
    execution_id = await service.finished()

    async with service.client("read") as client:
        await client.get(f"/api/v1/executions/{execution_id}")
        figures = (await client.get("/metrics")).text

    assert 'method="GET",route="/api/v1/executions/{execution_id:uuid}",status="200"' in figures
    assert "redrive_ingest_submitted_total 1.0" in figures
    assert execution_id not in figures


@pytest.mark.parametrize(
    ("raised", "status"),
    [
        (UnavailableError("host db:5432 refused"), 503),
        (ConflictError("someone else moved first"), 409),
        (RejectedError("the cursor is none"), 422),
        (RuntimeError("secret of the machine room"), 500),
    ],
)
async def test_whatever_goes_wrong_is_a_problem_document(
    service: Service, monkeypatch: pytest.MonkeyPatch, raised: Exception, status: int
) -> None:
    async def broken(*_: Any, **__: Any) -> None:
        raise raised

    monkeypatch.setattr(service.store, "executions", broken)

    async with service.client("read") as client:
        answer = await client.get("/api/v1/executions")

    body = answer.json()
    assert answer.status_code == body["status"] == status
    assert answer.headers["Content-Type"] == "application/problem+json"
    assert body["type"].startswith("https://")
    assert body["instance"] == "/api/v1/executions"
    assert "secret of the machine room" not in answer.text
    assert "db:5432" not in answer.text
    if status == 503:
        assert answer.headers["Retry-After"] == "1"


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/nowhere", 404),
        ("DELETE", "/api/v1/executions", 405),
        ("GET", "/api/v1/events", 405),
        ("PUT", "/healthz", 405),
    ],
)
async def test_what_is_not_there_is_a_problem_document_too(
    service: Service, method: str, path: str, status: int
) -> None:
    async with service.client() as client:
        answer = await client.request(method, path)

    assert answer.status_code == answer.json()["status"] == status
    assert answer.headers["Content-Type"] == "application/problem+json"
    assert ("Allow" in answer.headers) == (status == 405)


async def test_a_broker_that_is_down_does_not_fail_a_request() -> None:
    service = made(ManualClock(), Settings(keys=KEYS))
    service.broker.block()

    async with service.client() as client:
        answer = await client.post("/api/v1/executions", json={"playbook": RETRIED})

    assert answer.status_code == 202


async def test_every_answer_forbids_to_be_kept_or_guessed_at(service: Service) -> None:
    async with service.client("read") as client:
        answer = await client.get("/api/v1/executions")

    assert answer.headers["Cache-Control"] == "no-store"
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
