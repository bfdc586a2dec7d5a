"""A service that dies at its worst moment changes nothing but the time it takes."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.system import System, without_gaps

pytestmark = pytest.mark.timeout(240)

PLAYBOOK = """
apiVersion: redrive.io/v1
workflow:
  - step: each
    loop: { in: 6, iterator: n, mode: parallel, max_in_flight: 4 }
    tool:
      - name: flaky
        kind: python
        code: |
          def main(n, attempt):
              if n % 4 == 0 and attempt == 1:
                  raise ValueError("not yet")
              return n * n
        args: { n: "{{ n }}", attempt: "{{ _attempt }}" }
        retry: { max_attempts: 3, initial_delay: 0.2, jitter: false }
      - name: keep
        kind: noop
    next: total
  - step: total
    tool: { kind: python, code: "result = len(each)", args: { each: "{{ each }}" } }
"""
CRASHES = [
    ("worker", "worker.after_receive:2"),
    ("worker", "worker.after_run:2"),
    ("worker", "worker.before_ack:2"),
    ("worker", "worker.after_ack:2"),
    ("ingest", "ingest.after_receive:2"),
    ("ingest", "ingest.after_append:2"),
    ("ingest", "ingest.after_publish:2"),
    ("ingest", "ingest.before_ack:2"),
    ("orchestrator", "orchestrator.after_receive:2"),
    ("orchestrator", "orchestrator.before_commit:2"),
    ("orchestrator", "orchestrator.after_commit:2"),
    ("orchestrator", "orchestrator.before_publish:2"),
    ("orchestrator", "orchestrator.after_publish:2"),
    ("orchestrator", "orchestrator.before_ack:2"),
]


def story(events: list[dict[str, Any]]) -> dict[str, Any]:
    """Return what must be the same however often something died: who succeeded, who was retried, how it ended."""
    iterations = sorted(event["node"] for event in events if event["type"] == "loop.iteration_completed")
    retries = sorted(event["node"] for event in events if event["type"] == "task.retry_scheduled")
    outcomes = sorted(event["node"] for event in events if event["type"] == "task.processed")
    return {"iterations": iterations, "retries": retries, "outcomes": outcomes, "end": events[-1]["type"]}


def expected() -> dict[str, Any]:
    retried = {0, 4}
    outcomes = [f"each~1[{n}].flaky#{2 if n in retried else 1}" for n in range(6)]
    outcomes += [f"each~1[{n}].flaky#1" for n in retried] + [f"each~1[{n}].keep#1" for n in range(6)]
    return {
        "iterations": sorted(f"each~1[{n}]" for n in range(6)),
        "retries": sorted(f"each~1[{n}].flaky#2" for n in retried),
        "outcomes": sorted([*outcomes, "total~1.total#1"]),
        "end": "execution.completed",
    }


@pytest.mark.parametrize(("service", "place"), CRASHES, ids=[place for _, place in CRASHES])
def test_a_service_killed_at_a_crash_point_loses_nothing(system: System, service: str, place: str) -> None:
    others = [name for name in ("ingest", "orchestrator", "worker") if name != service]
    for name in others:
        system.start(name)
    doomed = system.start(service, REDRIVE_CRASH_AT=place)
    system.await_ready()
    execution = system.submit(PLAYBOOK)

    assert doomed.wait(60) == 137
    system.start(service)
    system.await_ready()

    assert system.ended(execution, within_s=90)["status"] == "completed"
    events = system.events(execution)
    assert without_gaps(events)
    assert story(events) == expected()


def test_services_that_are_asked_to_stop_end_well_and_lose_nothing(system: System) -> None:
    system.start_all(workers=2)
    execution = system.submit(PLAYBOOK)

    codes = [process.stop() for process in list(system.processes) if process.service != "ingest"]
    system.start("orchestrator")
    system.start("worker")

    assert codes == [0, 0, 0]
    assert system.ended(execution, within_s=90)["status"] == "completed"
    assert story(system.events(execution)) == expected()
