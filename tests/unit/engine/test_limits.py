"""Large playbooks and loops: bounded state, bounded decisions, and an end to what goes round for nothing."""

from __future__ import annotations

import json
from typing import Any

import pytest

from shared.contracts.jobs import Job
from shared.contracts.outcomes import failure, success
from shared.engine import decide
from shared.engine.rehearsal import Rehearsal, Rehearsed
from shared.engine.snapshot import restore, snapshot
from tests.support.deciding import play, program

LOOP = """
workflow:
  - step: work
    loop: { in: "{{ workload.rows }}", mode: parallel, max_in_flight: 50, on_failure: continue }
    tool: { kind: noop, input: { row: "{{ item }}" } }
"""


def chain(count: int, tool: str) -> str:
    steps = [f"  - {{ step: s{number}{tool}, next: s{number + 1} }}" for number in range(count)]
    return "workflow:\n" + "\n".join(steps) + f"\n  - {{ step: s{count} }}\n"


def rehearse(text: str, respond: Any = None, workload: dict[str, Any] | None = None) -> tuple[Rehearsal, Rehearsed]:
    rehearsal = Rehearsal(respond or (lambda job: success()), keep_log=False)
    return rehearsal, rehearsal.submit(program(text), workload)


def size(root: Rehearsed) -> int:
    return len(json.dumps(snapshot(root.state)))


def test_a_chain_of_two_thousand_steps_runs_to_its_end() -> None:
    rehearsal, root = rehearse(chain(2000, ", tool: { kind: noop }"))
    rehearsal.run()

    assert (root.state.status, len(root.state.visits)) == ("completed", 2001)


def test_two_thousand_steps_without_work_are_one_decision() -> None:
    _, root = rehearse(chain(2000, ""))

    assert root.state.status == "completed"


def test_a_cycle_without_work_is_stopped() -> None:
    _, root = rehearse("workflow: [ { step: a, next: b }, { step: b, next: a } ]\n")

    assert root.state.failure is not None
    assert root.state.failure["error"] == {
        "kind": "limit", "message": "the execution goes round without doing any work", "retryable": False,
    }  # fmt: skip


def test_a_cycle_with_work_in_it_goes_on_until_its_limit() -> None:
    played = play(
        """
        executor: { spec: { limits: { max_steps: 7 } } }
        workflow: [ { step: a, tool: { kind: noop }, next: b }, { step: b, next: a } ]
        """
    )

    assert (played.status, played.error["message"]) == ("failed", "max_steps is reached")
    assert len(played.steps()) == 8


def test_a_loop_with_many_in_flight_is_no_idle_cycle(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decide, "MAX_IDLE_MOVES", 20)
    _, root = rehearse(
        "workflow: [ { step: a, loop: { in: 500, mode: parallel, max_in_flight: 500 }, tool: { kind: noop } } ]"
    )

    assert (root.state.status, len(root.state.runs["a~1"].frames)) == ("running", 500)


def test_the_state_of_a_long_loop_stays_small() -> None:  # req: F11
    def respond(job: Job) -> Any:
        number = job.address.iteration or 0
        if number % 1000 == 0:
            sizes.append(size(rehearsal.executions["e1"]))
        return failure("exception", "no") if number % 3 == 0 else success({"id": number})

    sizes: list[int] = []
    rehearsal, root = rehearse(LOOP, respond, {"rows": 10_000})
    rehearsal.run()

    assert (root.state.status, len(sizes)) == ("completed", 10)
    assert max(sizes) < 110_000
    assert root.state.known["work"].stats == {"total": 10_000, "failed": 3334, "succeeded": 6666}


def test_the_snapshot_of_a_hundred_thousand_iterations_is_below_a_megabyte() -> None:  # req: F11
    _, root = rehearse(LOOP, None, {"rows": 100_000})
    loop = root.state.runs["work~1"].loop
    assert loop is not None
    loop.next, loop.succeeded = 90_000, 45_000
    for index in range(0, 90_000, 2):
        loop.failed.add(index)

    assert size(root) < 1_000_000
    assert root.state.runs["work~1"].loop == restore(json.loads(json.dumps(snapshot(root.state)))).runs["work~1"].loop


def test_a_hundred_thousand_elements_are_held_by_reference() -> None:
    rows = [{"id": number} for number in range(100_000)]
    rehearsal, root = rehearse(
        'workflow: [ { step: a, loop: { in: "{{ workload.rows }}", mode: parallel }, tool: { kind: noop } } ]\n',
        lambda job: success(),
        {"rows": rows},
    )
    held = root.state.workload
    root.state.workload = {}

    assert size(root) < 100_000
    assert len(held["rows"]) == 100_000
    assert len(rehearsal.values.by_ref) == 1


def test_the_errors_of_a_loop_that_are_kept_are_bounded() -> None:
    rehearsal, root = rehearse(
        "workflow: [ { step: a, loop: { in: 1000, on_failure: continue }, tool: { kind: noop } } ]\n",
        lambda job: failure("exception", "x" * 500),
    )
    rehearsal.run()

    assert len(root.state.known["a"].errors) == 100
    assert root.state.known["a"].stats == {"total": 1000, "failed": 1000, "succeeded": 0}
