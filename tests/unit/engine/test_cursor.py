"""Loops over a cursor: claims until no row comes back, and iterations of what they bring."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from shared.contracts import payloads as p
from shared.contracts.ids import Address, job_id
from shared.contracts.jobs import Job
from shared.contracts.outcomes import Outcome, success
from shared.contracts.references import is_reference
from shared.engine.explain import explain
from shared.engine.rehearsal import Rehearsal, Reply
from shared.engine.simulate import simulate
from shared.engine.snapshot import snapshot
from tests.support.deciding import BUSY, Played, play, program, takes

STATEMENT = "UPDATE t SET by = 1 RETURNING *"


def rows(*found: Any) -> Outcome:
    """Return what the postgres tool reports of a statement that returned rows."""
    counted = {"rows": list(found), "row_count": len(found)}
    return success({**counted, "command_0": counted})


def queue(count: int, at_once: int = 1) -> Callable[[Job], Outcome]:
    """Return claims that bring numbers from 0, so many at once, until none is left."""
    left = list(range(count))

    def claim(job: Job) -> Outcome:
        taken, left[:] = left[:at_once], left[at_once:]
        return rows(*taken)

    return claim


def cursor(
    spec: str = "", loop: str = "", *, claim: Any = None, work: Any = None, more: str = "", **options: Any
) -> Played:
    """Play a step whose loop claims, with a step behind it that reads what became of it."""
    return play(
        f"""
        - step: work
          loop:
            cursor: {{ kind: postgres, auth: pg, claim: "{STATEMENT}"{more} }}
            iterator: row
            spec: {{ mode: cursor{spec} }}
            {loop}
          tool: {{ kind: noop, input: {{ row: "{{{{ row }}}}" }} }}
          next: after
        - step: after
          tool: {{ kind: noop, input: {{ all: "{{{{ work }}}}" }} }}
        """,
        {"work.claim": queue(3) if claim is None else claim, "work.work": echo if work is None else work},
        **options,
    )


def echo(job: Job) -> Outcome:
    return success(job.input["row"])


def slow(job: Job) -> Reply:
    return takes(1, echo(job))


def worked(played: Played) -> list[Any]:
    return [job.input["row"] for job in played.asked("work")]


def most_at_once(played: Played, begins: str, ends: str) -> int:
    running = most = 0
    for alias in played.aliases(begins, ends):
        running += 1 if alias == begins else -1
        most = max(most, running)
    return most


def test_claims_are_made_until_no_row_comes_back() -> None:
    played = cursor()

    assert [job.address.node for job in played.jobs] == [
        "work~1.claim#1", "work~1[0].work#1", "work~1.claim@2#1", "work~1[1].work#1", "work~1.claim@3#1",
        "work~1[2].work#1", "work~1.claim@4#1", "after~1.after#1",
    ]  # fmt: skip
    assert worked(played) == [0, 1, 2]
    assert played.asked("after")[0].input == {"all": [0, 1, 2]}


def test_a_claim_is_an_ordinary_job_of_the_cursor_s_kind() -> None:
    played = cursor(", frame: { max_rows: 7 }", more=", params: [1], timeout: 9, pool: near")
    job = played.asked("claim")[0]

    assert (job.kind, job.pool, job.timeout_s, job.role, job.input) == ("postgres", "near", 9, "task", {})
    assert job.config == {"command": STATEMENT, "params": [1], "auth": "pg", "fetch": "rows"}
    assert (job.max_attempts, job.meta) == (3, {})
    assert job.job_id == job_id("e1", Address("work", 1, None, "claim", 1, 1))
    assert len({item.job_id for item in played.jobs}) == len(played.jobs)


def test_a_claim_runs_in_the_pool_of_its_step() -> None:
    played = play(
        """
        - step: work
          pool: near
          loop: { cursor: { kind: postgres, claim: x } }
          tool: { kind: noop }
        """
    )

    assert [job.pool for job in played.jobs] == ["near"]


def test_the_statement_can_say_how_many_rows_it_takes_and_for_which_claim() -> None:
    played = play(
        """
        - step: work
          args: { id: "{{ row.id }}" }
          loop:
            cursor:
              kind: postgres
              claim: "UPDATE {{ workload.table }} LIMIT {{ max_rows }}"
              params: { claim: "{{ claim_id }}", visit: "{{ iter.max_rows * 2 }}" }
              retry: 2
            spec: { mode: cursor, frame: { max_rows: "{{ workload.n + 1 }}" } }
            iterator: row
          tool: { kind: noop, input: { id: "{{ id }}" } }
        """,
        {"claim": [BUSY, rows({"id": 5}), rows()]},
        workload={"table": "t", "n": 3},
    )
    first, again, second = (job.config for job in played.asked("claim"))

    assert first["command"] == "UPDATE t LIMIT 4"
    assert first["params"]["visit"] == 8
    assert first["params"]["claim"] == again["params"]["claim"] != second["params"]["claim"]
    assert played.asked("work")[0].input == {"id": 5}


@pytest.mark.parametrize(
    ("brought", "expected"),
    [
        (success([1, 2]), [1, 2]),
        (rows({"id": 1}), [{"id": 1}]),
        (success({"rows": []}), []),
        (success([]), []),
        (success(None), []),
    ],
)
def test_the_rows_are_the_result_or_lie_in_it(brought: Outcome, expected: list[Any]) -> None:
    assert worked(cursor(claim=[brought, rows()])) == expected


@pytest.mark.parametrize("brought", ["text", 5, {"row_count": 3}, {"rows": 3}])
def test_a_claim_that_brings_something_else_fails_the_step(brought: Any) -> None:
    played = cursor(claim=success(brought))

    assert (played.status, played.error["kind"]) == ("failed", "expression")
    assert played.error["message"].startswith("a claim brings a list, or a mapping with a list 'rows', not ")


def test_a_frame_is_one_iteration_with_all_of_its_rows() -> None:
    played = cursor(", frame: { max_rows: 2, process: frame }", claim=queue(5, 2))

    assert worked(played) == [[0, 1], [2, 3], [4]]
    assert [(said.rows, said.first, said.iterations) for said in played.said(p.LoopClaimed)] == [
        (2, 0, 1), (2, 1, 1), (1, 2, 1), (0, 3, 0),
    ]  # fmt: skip


def test_iterations_run_beside_each_other_and_claims_one_by_one() -> None:
    brings = queue(9)
    played = cursor(", max_in_flight: 3", claim=lambda job: takes(0.1, brings(job)), work=slow)

    assert worked(played) == list(range(9))
    assert most_at_once(played, "iteration_started", "iteration_completed") == 3
    asked = [event.alias for event in played.log if event.address is not None and event.address.task == "claim"]
    assert asked == ["action_queued", "action_started", "action_completed", "task_advanced", "iterator_claimed"] * 10
    assert played.asked("after")[0].input == {"all": list(range(9))}


def test_the_next_claim_waits_until_all_that_was_brought_has_begun() -> None:
    played = cursor(", max_in_flight: 2, frame: { max_rows: 5 }", claim=queue(7, 5), work=slow)
    claims = [played.at(event) for event in played.log if event.alias == "iterator_claimed"]

    assert claims == [0, 2, 3]
    assert most_at_once(played, "iteration_started", "iteration_completed") == 2


def test_an_iteration_knows_its_index_and_not_how_many_there_will_be() -> None:
    played = play(
        """
        - step: work
          loop: { cursor: { kind: postgres, claim: x }, iterator: row, mode: parallel }
          tool:
            kind: noop
            input: { at: "{{ iter.index }}", it: "{{ iter.row }}", first: "{{ iter.first }}", total: "{{ iter.total }}",
                     last: "{{ iter.last }}", from: "{{ iter.source_index }}" }
        """,
        {"claim": [rows("a", "b"), rows("c"), rows()]},
    )

    assert [job.input for job in played.asked("work")] == [
        {"at": at, "it": it, "first": at == 0, "total": None, "last": None, "from": at} for at, it in enumerate("abc")
    ]
    assert played.asked("work")[2].meta["iterator"]["total_iterations"] is None


def test_the_start_says_what_is_claimed_and_the_end_what_came_of_it() -> None:
    played = cursor(", max_in_flight: 4, frame: { max_rows: 2 }", "tolerate: 1", claim=queue(3, 2),
                    work=lambda job: BUSY if job.input["row"] == 1 else echo(job))  # fmt: skip
    (started,), (ended,) = played.said(p.LoopStarted), played.said(p.LoopCompleted)

    assert (started.collection_size, started.mode, started.concurrency) == (None, "parallel", 4)
    assert started.cursor == {"kind": "postgres", "max_rows": 2, "process": "row", "tolerate_percent": False}
    assert (ended.total_iterations, ended.completed_iterations, ended.successful, ended.failed) == (3, 3, 2, 1)
    assert (ended.success_rate, ended.results) == (0.666667, [0, None, 2])
    assert played.asked("after")[0].input == {"all": [0, None, 2]}
    assert played.state.known["work"].stats == {"total": 3, "failed": 1, "succeeded": 2}


def test_a_first_claim_without_a_row_is_an_empty_loop() -> None:
    played = cursor(claim=rows())
    (ended,) = played.said(p.LoopCompleted)

    assert (ended.total_iterations, ended.success_rate, ended.results) == (0, 1.0, [])
    assert played.steps() == ["work", "after"]


@pytest.mark.parametrize(("collect", "given"), [("none", None), ("errors", [1])])
def test_a_loop_over_a_cursor_keeps_what_it_is_asked_to_keep(collect: str, given: Any) -> None:
    played = cursor("", f"collect: {collect}\n            on_failure: continue",
                    work=lambda job: BUSY if job.input["row"] == 1 else echo(job))  # fmt: skip
    found = played.asked("after")[0].input["all"]

    assert found is None if given is None else [error["index"] for error in found] == given


def test_rows_kept_elsewhere_are_taken_from_there() -> None:
    large = {"_ref": "sha256:big", "_size": 10**6}
    played = cursor(
        ", max_in_flight: 2, frame: { max_rows: 9 }",
        claim=[success(large), success({"_ref": "sha256:list", "_size": 10**6}), rows()],
        work=slow,
        values={"sha256:big": {"rows": [{"id": 1}, {"id": 2}, {"id": 3}]}, "sha256:list": [{"id": 4}]},
    )

    assert worked(played) == [{"id": 1}, {"id": 2}, {"id": 3}, {"id": 4}]
    assert [said.elements for said in played.said(p.LoopClaimed)[:2]] == [
        {**large, "_path": ["rows"]}, {"_ref": "sha256:list", "_size": 10**6},
    ]  # fmt: skip


def test_a_frame_kept_elsewhere_is_handed_on_by_reference() -> None:
    large = {"_ref": "sha256:big", "_size": 10**6}
    played = cursor(", frame: { process: frame, max_rows: 9 }", claim=[success(large), rows()],
                    work=success(), values={"sha256:big": {"rows": [1, 2]}})  # fmt: skip

    assert worked(played) == [{**large, "_path": ["rows"]}]


def test_many_rows_at_once_leave_the_state_by_reference() -> None:
    padded = [{"id": number, "pad": "x" * 100} for number in range(400)]
    played = cursor(claim=[rows(*padded), rows()], work=slow, run_for=0.5)
    (said,) = played.said(p.LoopClaimed)

    assert is_reference(said.elements)
    assert len(str(snapshot(played.state))) < 3000
    assert worked(played.go_on()) == padded


def test_many_results_stay_in_the_log() -> None:
    played = cursor(", max_in_flight: 50, frame: { max_rows: 100 }", claim=queue(1200, 100), work=success("x"))

    assert played.asked("after")[0].input == {"all": {"_ref": "loop:e1/work~1", "_count": 1200}}
    assert played.rehearsal.values.load("loop:e1/work~1") == ["x"] * 1200


def test_the_state_of_a_long_loop_stays_small() -> None:
    text = """
    - step: work
      loop: { cursor: { kind: postgres, claim: x }, spec: { mode: cursor, max_in_flight: 10, frame: { max_rows: 10 } } }
      tool: { kind: noop }
    """
    brings, sizes = queue(6000, 10), list[int]()

    def respond(job: Job) -> Outcome:
        if job.address.iteration in (1500, 5500):
            sizes.append(len(str(snapshot(root.state))))
        return brings(job) if job.address.task == "claim" else success("a result that the log keeps")

    rehearsal = Rehearsal(respond, keep_log=False)
    root = rehearsal.submit(program(text))
    rehearsal.run()

    assert root.state.status == "completed"
    assert abs(sizes[1] - sizes[0]) < 200
    assert sizes[1] < 8000


def test_every_iteration_has_retries_and_pages_of_its_own() -> None:
    played = play(
        """
        - step: work
          loop: { cursor: { kind: postgres, claim: x }, mode: parallel }
          tool:
            - name: t
              kind: noop
              eval:
                - { expr: "{{ outcome.status == 'error' }}", do: retry, attempts: 3 }
                - { expr: "{{ outcome.result == 'more' }}", do: jump, to: t }
        """,
        lambda job: {
            "work~1.claim#1": rows(1, 2), "work~1[0].t#1": BUSY, "work~1[1].t#1": success("more"),
            "work~1.claim@2#1": rows(),
        }.get(job.address.node, success("done")),
    )  # fmt: skip

    assert [job.address.node for job in played.asked("t")] == [
        "work~1[0].t#1", "work~1[1].t#1", "work~1[0].t#2", "work~1[1].t@2#1",
    ]  # fmt: skip
    assert played.result == ["done", "done"]


def test_explain_says_what_each_claim_brought() -> None:
    played = cursor(", max_in_flight: 2, frame: { max_rows: 2 }", claim=[rows(1, 2), rows(3), rows()])
    said = [item.text for item in explain(played.log, "work~1")]

    assert "claims of at most 2 rows, an iteration each, until no row comes back, parallel, at most 2 at once" in said
    assert [text for text in said if text.startswith("claim ")] == [
        "claim 1 brought 2 rows: iterations 0 to 1",
        "claim 2 brought 1 row: iteration 2",
        "claim 3 brought no row: nothing is left to claim",
    ]
    assert [item.text for item in explain(played.log, "work~1.claim@2")][-1] == "claim 2 brought 1 row: iteration 2"


def test_a_step_without_a_task_claims_all_there_is() -> None:
    played = play(
        "- { step: work, loop: { cursor: { kind: postgres, claim: x } } }", {"claim": [rows(1, 2), rows(3), rows()]}
    )

    assert (played.status, played.result) == ("completed", [None, None, None])


def test_a_simulation_makes_the_claims_that_were_recorded() -> None:
    played = cursor(", max_in_flight: 2", claim=[rows(1, 2), rows(3), rows()])
    found = simulate(played.root.program, played.log)

    assert (found.status, found.is_certain, found.changes) == ("completed", True, [])
    assert [event.type for event in found.log] == [event.type for event in played.log]
