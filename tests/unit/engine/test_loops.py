"""Loops: one pipeline per element, so many at once, and what becomes of their results."""

from __future__ import annotations

from typing import Any

import pytest

from shared.contracts import payloads as p
from shared.contracts.jobs import Job
from shared.contracts.outcomes import Outcome, failure, success
from shared.contracts.references import is_reference
from shared.engine.rehearsal import Reply
from tests.support.deciding import BUSY, Played, play, takes

NO = failure("exception", "no")


def loop(options: str, outcomes: Any = None, *, task: str = "", **more: Any) -> Played:
    return play(
        f"""
        - step: work
          loop: {{ {options} }}
          tool: {{ kind: noop, input: {{ it: "{{{{ item }}}}" }}{task} }}
          next: after
        - step: after
          tool: {{ kind: noop, input: {{ all: "{{{{ work }}}}" }} }}
        """,
        {"work": echo if outcomes is None else outcomes},
        **more,
    )


def echo(job: Job) -> Outcome:
    return success(job.input["it"])


def items(played: Played) -> list[Any]:
    return [job.input["it"] for job in played.asked("work")]


def failing(*indices: int) -> Any:
    return lambda job: NO if job.address.iteration in indices else success(job.address.iteration)


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("\"{{ ['a', 'b'] }}\"", ["a", "b"]),
        ("[1, 2, 3]", [1, 2, 3]),
        ("3", [0, 1, 2]),
        ('"{{ 1 + 1 }}"', [0, 1]),
        ("{ x: 1, y: 2 }", [{"key": "x", "value": 1}, {"key": "y", "value": 2}]),
        ('"{{ workload.rows }}"', [{"id": 1}, {"id": 2}]),
    ],
)  # req: F1, A15
def test_a_loop_runs_over_a_list_a_number_or_a_mapping(source: str, expected: list[Any]) -> None:
    played = loop(f"in: {source}", workload={"rows": [{"id": 1}, {"id": 2}]})

    assert items(played) == expected
    assert played.asked("after")[0].input == {"all": expected}


@pytest.mark.parametrize("source", ["\"{{ 'text' }}\"", '"{{ 1.5 }}"', '"{{ true }}"', '"{{ -1 }}"', '"{{ none }}"'])
def test_anything_else_fails_the_step_and_says_why(source: str) -> None:
    played = loop(f"in: {source}")

    assert (played.status, played.error["kind"]) == ("failed", "expression")
    assert "loop" in played.error["message"]


def test_an_empty_loop_completes_at_once() -> None:
    played = loop("in: []")
    (said,) = played.said(p.LoopCompleted)

    assert (said.total_iterations, said.success_rate, said.results) == (0, 1.0, [])
    assert played.steps() == ["work", "after"]


def test_a_sequential_loop_runs_one_iteration_after_the_other() -> None:
    played = loop("in: 3", lambda job: takes(2, success(job.address.iteration)))

    assert [played.at(event) for event in played.events("iteration_started")] == [0, 2, 4]
    assert (
        played.aliases("iteration_started", "iteration_completed") == ["iteration_started", "iteration_completed"] * 3
    )


def test_a_parallel_loop_keeps_to_its_number_in_flight() -> None:  # req: F3
    played = loop("in: 7, mode: parallel, max_in_flight: 3", lambda job: takes(1, success()))
    running, most = 0, 0
    for alias in played.aliases("iteration_started", "iteration_completed"):
        running += 1 if alias == "iteration_started" else -1
        most = max(most, running)

    assert most == 3
    assert [played.at(event) for event in played.events("iteration_started")] == [0, 0, 0, 1, 1, 1, 2]


def test_results_stand_in_the_order_of_the_elements_whichever_ends_first() -> None:  # req: F5
    def respond(job: Job) -> Reply:
        index = job.address.iteration or 0
        return takes(10 - index, success(index * index))

    played = loop("in: 4, mode: parallel", respond)

    assert [said.index for said in played.said(p.IterationCompleted)] == [3, 2, 1, 0]
    assert played.asked("after")[0].input == {"all": [0, 1, 4, 9]}


def test_chunks_hand_over_several_elements_at_once() -> None:
    played = loop("in: [1, 2, 3, 4, 5], chunk_size: 2")

    assert items(played) == [[1, 2], [3, 4], [5]]
    assert played.said(p.LoopStarted)[0].chunk_size == 2
    assert items(loop("in: 5, chunk_size: '{{ 3 }}'")) == [[0, 1, 2], [3, 4]]


def test_elements_that_do_not_match_leave_no_place() -> None:
    played = play(
        """
        - step: work
          loop: { in: [5, 6, 7, 8], iterator: n, where: "{{ n % 2 == 0 and iter.n == n and iter.index < 9 }}" }
          tool: { kind: noop, input: { n: "{{ n }}", at: "{{ iter.index }}", from: "{{ iter.source_index }}",
                                       total: "{{ iter.total }}", first: "{{ iter.first }}", last: "{{ iter.last }}" } }
        """,
        {"work": lambda job: success(job.input["n"])},
    )

    assert [job.input for job in played.jobs] == [
        {"n": 6, "at": 0, "from": 1, "total": 2, "first": True, "last": False},
        {"n": 8, "at": 1, "from": 3, "total": 2, "first": False, "last": True},
    ]
    assert played.result == [6, 8]
    assert [said.source_index for said in played.said(p.IterationStarted)] == [1, 3]


def test_elements_are_filtered_before_they_are_put_in_chunks() -> None:
    assert items(loop("in: 7, where: '{{ item != 3 }}', chunk_size: 4")) == [[0, 1, 2, 4], [5, 6]]


def test_a_filter_that_cannot_be_evaluated_fails_the_step() -> None:
    played = loop("in: [1, x], where: '{{ item / 1 > 0 }}'")

    assert (played.status, played.error["kind"]) == ("failed", "expression")


@pytest.mark.parametrize(
    ("tolerate", "failures", "status"),
    [
        ("", 0, "completed"),
        ("", 1, "failed"),
        ("tolerate: 2", 2, "completed"),
        ("tolerate: 2", 3, "failed"),
        ("tolerate: 20%", 2, "completed"),
        ("tolerate: 20%", 3, "failed"),
        ("tolerate: 5%", 1, "failed"),
        ("tolerate: '{{ 1 + 1 }}'", 2, "completed"),
        ("on_failure: continue", 10, "completed"),
    ],
)  # req: F6
def test_so_many_failures_are_tolerated(tolerate: str, failures: int, status: str) -> None:
    played = loop(f"in: 10, {tolerate}".rstrip(", "), failing(*range(failures)))

    assert played.status == status


def test_tolerated_failures_leave_nothing_in_their_place_and_their_errors_beside() -> None:  # req: F6
    played = play(
        """
        - step: work
          loop: { in: 4, on_failure: continue }
          tool: { kind: noop }
          next: after
        - step: after
          tool:
            kind: noop
            input:
              all: "{{ work }}"
              results: "{{ work.results }}"
              failed: "{{ work.stats.failed }}"
              total: "{{ work.stats.total }}"
              errors: "{{ work.errors }}"
              status: "{{ work.status }}"
        """,
        {"work": failing(1, 2)},
    )
    given = played.asked("after")[0].input

    assert given["all"] == given["results"] == [0, None, None, 3]
    assert (given["failed"], given["total"], given["status"]) == (2, 4, "success")
    assert [(error["index"], error["message"], error["node"]) for error in given["errors"]] == [
        (1, "no", "work~1[1].work#1"), (2, "no", "work~1[2].work#1"),
    ]  # fmt: skip


@pytest.mark.parametrize(("collect", "given"), [("none", None), ("errors", [{"index": 1}])])
def test_a_loop_keeps_what_it_is_asked_to_keep(collect: str, given: Any) -> None:
    played = loop(f"in: 3, on_failure: continue, collect: {collect}", failing(1))
    found = played.asked("after")[0].input["all"]

    assert found is None if given is None else [{"index": error["index"]} for error in found] == given


def test_too_many_failures_end_the_loop_at_once_and_cancel_what_is_in_flight() -> None:  # req: F6
    def respond(job: Job) -> Reply:
        return takes(1, NO) if job.address.iteration == 1 else takes(5, success())

    played = loop("in: 100, mode: parallel, max_in_flight: 3", respond)
    (said,) = played.said(p.LoopCompleted)

    assert [said.index for said in played.said(p.IterationStarted)] == [0, 1, 2]
    assert (said.total_iterations, said.completed_iterations, said.failed) == (100, 1, 1)
    assert played.at(played.events("execution_failed")[0]) == 1
    assert played.error["message"] == "1 of 100 iterations failed; the first: no"
    assert played.state.failure is not None
    assert played.state.failure["node"] == "work~1[1].work#1"
    assert played.aliases("action_completed") == []


def test_a_sequential_loop_that_fails_starts_nothing_more() -> None:
    played = loop("in: 5", failing(1))

    assert len(played.asked("work")) == 2
    assert played.steps() == ["work"]


def test_every_iteration_has_retries_of_its_own() -> None:  # req: F6, P7
    def respond(job: Job) -> Outcome:
        return BUSY if job.address.iteration == 1 and job.address.attempt != 3 else success(job.address.iteration)

    text = """
    - step: work
      loop: { in: 3, mode: parallel }
      tool:
        - name: t
          kind: noop
          eval: [ { expr: "{{ outcome.status == 'error' }}", do: retry, attempts: 3 } ]
    """
    played = play(text, respond)

    assert [job.address.node for job in played.jobs] == [
        "work~1[0].t#1", "work~1[1].t#1", "work~1[2].t#1", "work~1[1].t#2", "work~1[1].t#3",
    ]  # fmt: skip
    assert played.result == [0, 1, 2]


def test_an_iteration_may_break_and_its_result_is_that_of_its_last_task() -> None:
    played = play(
        """
        - step: work
          loop: { in: 2 }
          tool:
            - { name: one, kind: noop, eval: [ { expr: "{{ iter.index == 0 }}", do: break } ] }
            - { name: two, kind: noop }
        """,
        {"one": success("one"), "two": success("two")},
    )

    assert played.result == ["one", "two"]


def test_many_results_stay_in_the_log_and_can_be_read_from_there() -> None:  # req: F11
    played = play(
        """
        - step: work
          loop: { in: 1500, mode: parallel, max_in_flight: 2 }
          tool: { kind: noop }
          next:
            - { step: after, when: "{{ work.stats.total == 1500 and work[7] == 7 and (work | length) == 1500 }}" }
        - step: after
          tool: { kind: noop, input: { all: "{{ work }}", same: "{{ work.results }}", one: "{{ work[3] }}",
                                       failed: "{{ work.stats.failed }}" } }
        """,
        {"work": lambda job: success(job.address.iteration)},
    )
    (job,) = played.asked("after")
    reference = {"_ref": "loop:e1/work~1", "_count": 1500}

    assert played.said(p.LoopCompleted)[0].results == reference
    assert job.input["all"] == job.input["same"] == reference
    assert job.input["one"] == {**reference, "_path": [3]}
    assert job.input["failed"] == 0


def test_large_results_leave_the_state_before_the_loop_ends() -> None:  # req: F11
    played = loop("in: 5", lambda job: success("x" * 20_000))

    assert played.said(p.LoopCompleted)[0].results == {"_ref": "loop:e1/work~1", "_count": 5}


def test_figures_of_a_loop_are_read_without_loading_its_results() -> None:
    text = """
    - step: work
      loop: { in: 2, collect: all }
      tool: { kind: noop }
      next: [ { step: after, when: "{{ work.stats.failed == 0 }}" } ]
    - step: after
    """
    played = play(text, {"work": success("y" * 40_000)})

    assert is_reference(played.state.known["work"].value)
    assert played.steps() == ["work", "after"]


def test_a_large_element_travels_by_reference_and_can_be_read_into() -> None:
    big = {"name": "big", "text": "x" * 20_000}
    played = play(
        """
        - step: work
          loop: { in: "{{ workload.rows }}", iterator: row }
          tool:
            - name: t
              kind: noop
              input: { row: "{{ row }}", text: "{{ row.text }}", name: "{{ row.name ~ '!' }}",
                  too: "{{ iter.row.name ~ '?' }}" }
              eval: [ { expr: "{{ row.name == 'small' or iter.row.name == 'small' }}", do: break } ]
        """,
        workload={"rows": [big, {"name": "small", "text": "y"}]},
    )
    large, small = (job.input for job in played.jobs)

    assert is_reference(large["row"])
    assert large["text"]["_path"] == ["text"]
    assert (large["name"], large["too"]) == ("big!", "big?")
    assert small == {"row": {"name": "small", "text": "y"}, "text": "y", "name": "small!", "too": "small?"}
    assert [said.directive for said in played.said(p.TaskAdvanced)] == ["continue", "break"]


def test_a_stored_collection_is_looped_over() -> None:
    played = play(
        """
        - step: fetch
          tool: { kind: noop }
          next: work
        - step: work
          loop: { in: "{{ fetch.body.rows }}" }
          tool: { kind: noop, input: { it: "{{ item }}" } }
        """,
        {"fetch": success({"_ref": "sha256:big", "_size": 10**6})},
        values={"sha256:big": {"status_code": 200, "body": {"rows": [1, 2]}}},
    )

    assert items(played) == [1, 2]


def test_a_collection_that_is_not_there_fails_the_step() -> None:
    played = play(
        """
        - step: fetch
          tool: { kind: noop }
          next: work
        - step: work
          loop: { in: "{{ fetch.body.rows }}" }
          tool: { kind: noop }
        """,
        {"fetch": success({"_ref": "sha256:big", "_size": 10**6})},
        values={"sha256:big": {"status_code": 200, "body": {}}},
    )

    assert (played.status, played.error["message"]) == (
        "failed", "a loop runs over a list, a mapping or a number, not nothing",
    )  # fmt: skip


def test_a_loop_over_a_loop_s_results_gets_every_one_of_them() -> None:
    played = play(
        """
        - step: one
          loop: { in: 3 }
          tool: { kind: noop }
          next: two
        - step: two
          loop: { in: "{{ one }}" }
          tool: { kind: noop, input: { it: "{{ item.n }}" } }
        """,
        {"one": lambda job: success({"n": job.address.iteration, "pad": "x" * 30_000})},
    )

    assert [job.address.iteration for job in played.asked("two")] == [0, 1, 2]
    assert [job.input["it"] for job in played.asked("two")] == [
        {**job.input["it"], "_path": ["n"]} for job in played.asked("two")
    ]
