"""A snapshot is the state: restored at any place of a log it goes on as if nothing had happened."""

from __future__ import annotations

import json

import pytest

from shared.contracts.jobs import Job
from shared.contracts.outcomes import success
from shared.engine.evolve import evolve
from shared.engine.rehearsal import Reply
from shared.engine.snapshot import copy_of, restore, snapshot
from shared.engine.state import State
from shared.engine.stimuli import Cancel, Redrive
from tests.support.deciding import BUSY, Played, page, play, takes

EVERYTHING = """
executor: { spec: { reducers: { total: sum } } }
workload: { rows: [1, 2, 3, 4] }
workflow:
  - step: start
    timeout: 1h
    tool:
      - name: fetch
        kind: http
        url: http://x
        retry: { on_error: { max_attempts: 3 }, on_success: { while: "{{ response.more }}", merge_path: data,
            into: all } }
      - { name: poll, kind: noop, eval: [ { expr: "{{ iter.n | default(0) < 2 }}", do: jump, to: poll,
          set_iter: { n: "{{ (iter.n | default(0)) + 1 }}" } } ] }
    set: { ctx.all: "{{ all }}" }
    next: [work, wait, child]
  - step: work
    loop: { in: "{{ workload.rows }}", mode: parallel, max_in_flight: 2, tolerate: 1 }
    tool: { kind: noop, eval: [ { expr: "{{ outcome.status == 'error' }}", do: fail }, { else: { do: continue,
        set_ctx: { total: "{{ item }}", same: 1 } } } ] }
    next: end
  - { step: wait, tool: { kind: wait, signal: go, timeout: 30 }, next: [ { step: end,
      when: "{{ event.name != 'x' }}" } ] }
  - { step: child, tool: { kind: playbook, path: child, input: { n: 1 } }, next: end }
  - { step: end, join: { mode: any }, tool: { kind: noop } }
"""
CHILD = "- { step: c, tool: { kind: noop, input: { outer: '{{ workload.n }}' } } }\n"


def respond() -> object:
    pages = [page([1], more=True), BUSY, page([2], more=False)]

    def answer(job: Job) -> Reply:
        if job.address.task == "fetch":
            return Reply(pages.pop(0))
        return takes(1, BUSY if job.address.iteration == 2 else success(job.address.iteration))

    return answer


def everything() -> Played:
    played = play(EVERYTHING, respond(), playbooks={"child": CHILD}, run_for=10)  # type: ignore[arg-type]
    played.rehearsal.signal("e1", "unheard", {"a": 1})
    return played.go_on()


def redriven() -> Played:
    played = play(
        "- { step: a, loop: { in: 9, mode: parallel, max_in_flight: 4 }, tool: { kind: noop }, next: [b, c] }\n"
        "- { step: b, tool: { kind: wait, for: 5 } }\n- { step: c, tool: { kind: wait, for: 9 } }\n",
        {
            "a": lambda job: takes(
                job.address.iteration or 0, BUSY if job.address.iteration == 4 and job.address.visit == 1 else success()
            )
        },
    )
    played.tell(Redrive())
    played.go_on(12)
    played.tell(Cancel())
    played.tell(Redrive())
    return played.go_on()


@pytest.mark.parametrize("make", [everything, redriven])
def test_a_snapshot_at_any_place_of_the_log_goes_on_like_the_log(make: object) -> None:
    played: Played = make()  # type: ignore[operator]
    assert played.state.is_over
    for found in played.rehearsal.executions.values():
        whole = State(found.state.execution_id)
        for cut, event in enumerate(found.log):
            restored = restore(json.loads(json.dumps(snapshot(whole))))
            assert restored == whole, f"before #{cut + 1}"
            for later in found.log[cut:]:
                evolve(restored, later)
            assert restored == found.state, f"from #{cut + 1} on"
            evolve(whole, event)


def test_a_copy_shares_nothing_that_changes() -> None:
    played = play(EVERYTHING, respond(), playbooks={"child": CHILD}, run_for=3)  # type: ignore[arg-type]
    before = snapshot(played.state)
    copy = copy_of(played.state)
    played.go_on()

    assert snapshot(copy) == before


def test_a_snapshot_of_another_version_is_refused() -> None:
    with pytest.raises(ValueError, match="unknown version of snapshots: 9"):
        restore({"v": 9, "state": {}})


def test_what_is_at_its_default_takes_no_room() -> None:
    assert snapshot(State("e1")) == {"v": 1, "state": {"execution_id": "e1"}}
