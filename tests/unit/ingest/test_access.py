"""Who may do what."""

import httpx
import pytest

from services.ingest.app import ROUTES
from services.ingest.auth import SCOPES, access_of, parse_keys
from services.ingest.settings import Settings
from shared.runtime.clock import ManualClock
from tests.unit.ingest.service import NOBODY, SECRETS, Service, made

OPEN = {"/docs", "/docs/page.js", "/docs/page.css", "/healthz", "/readyz", "/metrics", "/api/v1/schema/playbook.json"}
CALLS = [
    ("GET", "/api/v1/playbooks", {"read", "run"}),
    ("POST", "/api/v1/playbooks/validate", {"read", "run"}),
    ("POST", "/api/v1/playbooks", {"run"}),
    ("POST", "/api/v1/executions", {"run"}),
    ("POST", "/api/v1/executions:batch", {"run"}),
    ("GET", "/api/v1/executions", {"read", "run"}),
    ("GET", f"/api/v1/executions/{NOBODY}", {"read", "run"}),
    ("GET", f"/api/v1/executions/{NOBODY}/events", {"read", "run"}),
    ("GET", f"/api/v1/executions/{NOBODY}/events/stream", {"read", "run"}),
    ("GET", f"/api/v1/executions/{NOBODY}/explain", {"read", "run"}),
    ("GET", f"/api/v1/executions/{NOBODY}/timeline", {"read", "run"}),
    ("POST", f"/api/v1/executions/{NOBODY}:simulate", {"read", "run"}),
    ("POST", f"/api/v1/executions/{NOBODY}:cancel", {"run"}),
    ("POST", f"/api/v1/executions/{NOBODY}:redrive", {"run"}),
    ("POST", f"/api/v1/executions/{NOBODY}/signals/go", {"run"}),
    ("POST", "/api/v1/events", {"worker"}),
    ("POST", "/api/v1/event/emit", {"worker"}),
    ("GET", "/api/v1/results/sha256:0", {"read", "run", "worker"}),
    ("POST", "/api/v1/results", {"worker"}),
    ("GET", "/api/v1/jobs", {"read", "run"}),
    ("POST", f"/api/v1/jobs/{NOBODY}:run-now", {"run"}),
    ("POST", f"/api/v1/jobs/{NOBODY}:reschedule", {"run"}),
    ("POST", f"/api/v1/jobs/{NOBODY}:cancel", {"run"}),
    ("GET", "/api/v1/dead-letters", {"read", "run"}),
    ("POST", f"/api/v1/dead-letters/{NOBODY}:redrive", {"run"}),
    ("POST", f"/api/v1/dead-letters/{NOBODY}:discard", {"run"}),
    ("GET", "/api/v1/workers", {"read", "run"}),
    ("GET", "/api/v1/queues", {"read", "run"}),
    ("GET", "/api/v1/credentials", {"read"}),
    ("GET", "/api/v1/credentials/api", {"read"}),
    ("PUT", "/api/v1/credentials/api", set()),
    ("DELETE", "/api/v1/credentials/api", set()),
]


@pytest.mark.parametrize(("method", "path", "allowed"), CALLS)
async def test_each_call_asks_for_a_scope(service: Service, method: str, path: str, allowed: set[str]) -> None:
    for scope in SCOPES:
        async with service.client(scope) as client:
            answer = await client.request(method, path)
        is_allowed = scope in allowed | {"admin"}
        assert (answer.status_code != 403) == is_allowed, scope
        assert answer.status_code != 401


@pytest.mark.parametrize(("method", "path", "allowed"), CALLS)
async def test_without_a_key_nothing_is_said(service: Service, method: str, path: str, allowed: set[str]) -> None:
    async with service.client(None) as client:
        answer = await client.request(method, path)

    assert answer.status_code == 401
    assert answer.headers["WWW-Authenticate"].startswith("Bearer")
    assert answer.headers["Content-Type"] == "application/problem+json"


@pytest.mark.parametrize(
    "header", ["Bearer nobody-knows-this-key", "Basic abc", "Bearer", "Bearer ", SECRETS["admin"], ""]
)
async def test_a_key_that_is_not_known_is_refused(service: Service, header: str) -> None:
    async with service.client(None) as client:
        answer = await client.get("/api/v1/executions", headers={"Authorization": header})

    assert answer.status_code == 401


async def test_who_asks_is_known_before_the_body_is_read(service: Service) -> None:
    async with service.client("read") as client:
        answer = await client.post("/api/v1/executions", content=b"{nonsense", headers={"Content-Type": "text/csv"})

    assert answer.status_code == 403
    assert "scope admin or run" in answer.json()["detail"]


async def test_dev_mode_without_keys_lets_everybody_in() -> None:
    service = made(ManualClock(), Settings(is_dev=True))

    async with service.client(None) as client:
        answer = await client.get("/api/v1/executions")

    assert answer.status_code == 200


async def test_dev_mode_with_keys_asks_for_them() -> None:
    keys = parse_keys("me:admin:short", is_dev=True).keys
    service = made(ManualClock(), Settings(is_dev=True, keys=tuple(keys)))

    async with service.client(None) as client:
        refused = await client.get("/api/v1/executions")
        allowed = await client.get("/api/v1/executions", headers={"Authorization": "bearer short"})

    assert (refused.status_code, allowed.status_code) == (401, 200)


def test_every_endpoint_but_the_open_ones_is_guarded() -> None:
    unguarded = {route.path for route in ROUTES if access_of(route.endpoint) is None}

    assert unguarded == OPEN


async def test_no_answer_repeats_a_key(service: Service) -> None:
    secret = "a-secret-that-nobody-should-see"

    async with service.client(None) as client:
        answer: httpx.Response = await client.get("/api/v1/jobs", headers={"Authorization": f"Bearer {secret}"})

    assert secret not in answer.text
