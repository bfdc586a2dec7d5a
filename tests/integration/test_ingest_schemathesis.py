"""The OpenAPI document against the application: whatever is asked, answers are as described and nothing breaks."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis.errors import Unsatisfiable

from services.ingest.app import create_app
from services.ingest.settings import Settings
from shared.broker.memory import MemoryBroker
from shared.broker.topology import topology
from shared.contracts.ids import Address, job_id
from shared.runtime.clock import ManualClock
from shared.runtime.sealing import new_key, parse_ring
from shared.store.memory.store import MemoryStore
from shared.store.records import DeadLetter
from tests.unit.ingest.service import KEYS, NOBODY, NOOP, RETRIED, SECRETS, Service, made

EXAMPLES = 15
KEY = {"Authorization": f"Bearer {SECRETS['admin']}"}
# What fits the document may still be refused: a text need not be a playbook, nor a playbook be registered.
NOT_CHECKED = {"positive_data_acceptance"}

DOCUMENT = create_app(MemoryStore(ManualClock().now), MemoryBroker(), Settings(is_dev=True), ManualClock()).openapi()
LABELS = [f"{method.upper()} {path}" for path, operations in DOCUMENT["paths"].items() for method in operations]

Try = Callable[..., None]


async def prepare(service: Service) -> dict[str, str]:
    """Put something to find into the service, and return where it is found."""
    await service.broker.declare(topology(["default"]))
    async with service.client() as client:
        await client.post("/api/v1/playbooks", content=NOOP, headers={"Content-Type": "text/yaml"})
        stored = await client.post("/api/v1/results", json={"some": "value"})
        await client.put("/api/v1/credentials/go", json={"kind": "bearer", "fields": {"token": "a-secret"}})
    letter = DeadLetter(NOBODY, "m1", "unreadable", "", "", "", None, "application/json", {}, b"")
    await service.store.keep_dead_letters([letter])
    finished = await service.finished()
    await service.decide(await service.started(RETRIED))
    return {
        "execution_id": finished,
        "job_id": job_id(finished, Address("greet", task="greet", attempt=1)),
        "path": "tests/greet",
        "version": "1",
        "ref": stored.json()["_ref"],
        "dead_letter_id": letter.dead_letter_id,
        "name": "go",
    }


@pytest.fixture(scope="module")
def service() -> Service:
    return made(ManualClock(), Settings(keys=KEYS, keyring=parse_ring(new_key()).ring))


@pytest.fixture(scope="module")
def there(service: Service) -> dict[str, str]:
    return asyncio.run(prepare(service))


@pytest.fixture(scope="module")
def tried(service: Service, there: dict[str, str]) -> Try:
    # Loaded here, because it takes seconds and every run of pytest would wait for it.
    import schemathesis
    from schemathesis.checks import CHECKS
    from schemathesis.core.result import Ok

    schema = schemathesis.openapi.from_asgi("/api/v1/openapi.json", service.app)
    found: list[Any] = [each.ok() for each in schema.get_all_operations() if isinstance(each, Ok)]
    operations = {operation.label: operation for operation in found}
    checks: list[Any] = CHECKS.get_by_names([name for name in CHECKS.get_all_names() if name not in NOT_CHECKED])

    def ask_often(label: str, mode: str, **known: Any) -> None:
        @given(case=operations[label].as_strategy(schemathesis.GenerationMode(mode), **known))
        @settings(
            max_examples=EXAMPLES,
            phases=[Phase.generate, Phase.shrink],
            suppress_health_check=list(HealthCheck),
            database=None,
            derandomize=True,
        )
        def ask(case: Any) -> None:
            case.validate_response(case.call(headers=KEY), checks=checks, headers=KEY)

        try:
            ask()
        except Unsatisfiable:
            # Only of a request that says nothing can there be no wrong one.
            operation = operations[label]
            said = (operation.path_parameters, operation.query, operation.headers, operation.cookies, operation.body)
            assert mode == "negative"
            assert not any(len(part.items) for part in said)

    return ask_often


@pytest.mark.parametrize("mode", ["positive", "negative"])
@pytest.mark.parametrize("label", LABELS)
def test_every_answer_is_as_described(tried: Try, label: str, mode: str) -> None:
    tried(label, mode)


@pytest.mark.parametrize("label", [label for label in LABELS if "{" in label])
def test_every_answer_about_what_is_there_is_as_described(tried: Try, there: dict[str, str], label: str) -> None:
    known = {name: value for name, value in there.items() if f"{{{name}}}" in label}
    tried(label, "positive", path_parameters=known)


def test_the_document_is_openapi_3_1_and_names_every_operation_once() -> None:
    names = [operation["operationId"] for path in DOCUMENT["paths"].values() for operation in path.values()]

    assert DOCUMENT["openapi"].startswith("3.1")
    assert len(names) == len(set(names)) == len(LABELS)
