"""Repeated calls on success: what goes into the next call, and what becomes of all their results."""

from __future__ import annotations

from typing import Any

import pytest

from shared.contracts import payloads as p
from shared.contracts.outcomes import Outcome, success
from shared.contracts.references import is_reference
from tests.support.deciding import BUSY, Played, body, page, play


def fetch(on_success: str, outcomes: Any, on_error: str = "", more: str = "") -> Played:
    return play(
        f"""
        - step: fetch
          tool: http
          url: http://api/1
          params: {{ page: 1, size: 2 }}
          headers: {{ x: "1" }}
          retry:
            {on_error}
            on_success:
              while: "{{{{ response.more }}}}"
              {on_success}
          next: after
        - step: after
          tool: {{ kind: noop, input: {{ all: "{{{{ fetch }}}}" }} }}
          {more}
        """,
        {"fetch": outcomes},
    )


NEXT = 'next_call: { params: { page: "{{ response.next }}" } }'


def pages(*sizes: int) -> list[Outcome]:
    last = len(sizes)
    return [
        page([f"{number}.{n}" for n in range(size)], more=number < last, next=number + 1)
        for number, size in enumerate(sizes, start=1)
    ]


def gathered(played: Played) -> Any:
    (said,) = played.said(p.TaskSequenceCompleted)
    return said.aggregated_result


def test_the_next_call_is_merged_into_the_first() -> None:  # req: G2
    played = fetch(
        'next_call: { url: "http://api/{{ response.next }}", params: { page: "{{ response.next }}" },'
        ' headers: { y: "2" } }',
        pages(1, 1, 1),
    )

    assert [job.config for job in played.asked("fetch")] == [
        {"url": "http://api/1", "params": {"page": 1, "size": 2}, "headers": {"x": "1"}},
        {"url": "http://api/2", "params": {"page": 2, "size": 2}, "headers": {"x": "1", "y": "2"}},
        {"url": "http://api/3", "params": {"page": 3, "size": 2}, "headers": {"x": "1", "y": "2"}},
    ]


@pytest.mark.parametrize(
    ("collect", "result"),
    [
        ("collect: append\n              merge_path: data", ["1.0", "1.1", "2.0"]),
        ("merge_path: data", ["1.0", "1.1", "2.0"]),
        ("collect: { strategy: append, path: $.data }", ["1.0", "1.1", "2.0"]),
        ("collect: replace", {"data": ["2.0"], "more": False, "next": 3}),
        (
            "collect: collect",
            [{"data": ["1.0", "1.1"], "more": True, "next": 2}, {"data": ["2.0"], "more": False, "next": 3}],
        ),
        ("delay: 0", [{"data": ["1.0", "1.1"], "more": True, "next": 2}, {"data": ["2.0"], "more": False, "next": 3}]),
    ],
)  # req: G4, G5
def test_results_become_one_as_the_strategy_says(collect: str, result: Any) -> None:
    played = fetch(f"{NEXT}\n              {collect}", pages(2, 1))

    assert gathered(played) == result
    assert played.asked("after")[0].input == {"all": result}


def test_a_path_leads_into_nested_answers() -> None:  # req: G5
    answers = [body({"a": {"b": [[1], [2]]}, "more": True}), body({"a": {"b": [[3]]}}), body({})]

    assert gathered(fetch("merge_path: a.b", answers)) == [[1], [2], [3]]


def test_appending_takes_what_is_no_list_as_one_element_and_nothing_as_none() -> None:
    answers = [body({"data": 1, "more": True}), body({"more": True}), body({"data": [2]})]

    assert gathered(fetch("merge_path: data", answers)) == [1, 2]


def test_the_gathered_result_may_have_a_name_of_its_own() -> None:
    played = play(
        """
        - step: a
          tool:
            - name: fetch
              kind: http
              url: http://api
              retry: { on_success: { while: "{{ response.more }}", collect: { strategy: append, path: data,
                  into: rows } } }
            - { name: store, kind: noop, input: { rows: "{{ rows }}", n: "{{ rows | length }}" } }
        """,
        {"fetch": pages(2, 2)},
    )

    assert played.asked("store")[0].input == {"rows": ["1.0", "1.1", "2.0", "2.1"], "n": 4}


def test_calls_end_where_their_number_is_spent() -> None:  # req: G3
    played = fetch(f"{NEXT}\n              max_attempts: 2\n              merge_path: data", pages(1, 1, 1))
    (said,) = played.said(p.TaskSequenceCompleted)

    assert (said.pages, said.aggregated_result) == (2, ["1.0", "2.0"])
    assert played.status == "completed"
    assert played.said(p.TaskAdvanced)[0].decision["stopped"] == "2 calls, the most that are allowed"


def test_a_single_page_is_gathered_too() -> None:
    played = fetch("merge_path: data", pages(2))

    assert (gathered(played), played.said(p.TaskSequenceCompleted)[0].total_attempts) == (["1.0", "1.1"], 1)


def test_an_error_in_the_middle_is_retried_and_no_page_is_lost() -> None:  # req: A8, A17
    first, second, third = pages(1, 1, 1)
    played = fetch(
        f"{NEXT}\n              merge_path: data",
        [first, BUSY, BUSY, second, BUSY, third],
        on_error="on_error: { max_attempts: 3, jitter: false }",
    )

    assert gathered(played) == ["1.0", "2.0", "3.0"]
    assert [job.config["params"]["page"] for job in played.asked("fetch")] == [1, 2, 2, 2, 3, 3]
    assert [(said.retry_type, said.delay_s) for said in played.said(p.TaskRetryScheduled)] == [
        ("on_success", 0), ("on_error", 1), ("on_error", 2), ("on_success", 0), ("on_error", 1),
    ]  # fmt: skip
    (said,) = played.said(p.TaskSequenceCompleted)
    assert (said.total_attempts, said.pages) == (6, 3)


def test_pages_survive_when_the_attempts_at_the_next_are_spent() -> None:
    first, second, _ = pages(1, 1, 1)
    played = fetch(
        f"{NEXT}\n              merge_path: data",
        [first, second, BUSY, BUSY],
        on_error="on_error: { max_attempts: 2, jitter: false, on_exhausted: continue }",
    )

    assert (played.status, gathered(played)) == ("completed", ["1.0", "2.0"])


def test_without_a_rule_for_errors_a_failing_page_fails_the_step() -> None:
    first, _ = pages(1, 1)
    played = fetch(NEXT, [first, BUSY])

    assert played.status == "failed"
    assert played.said(p.TaskSequenceCompleted) == []


def test_a_pause_between_calls_is_kept() -> None:  # req: G7
    played = fetch(f"{NEXT}\n              delay: 2", pages(1, 1, 1))

    assert [played.at(event) for event in played.events("action_completed")][:3] == [0, 2, 4]


def test_large_pages_are_kept_by_reference_until_the_end() -> None:
    first, second = page(["x" * 5000], more=True, next=2), page(["y"], more=False)
    played = fetch(f"{NEXT}\n              merge_path: data", [first, second])
    (said,) = played.said(p.TaskRetryScheduled)

    assert is_reference(said.gathered)
    assert gathered(played) == ["x" * 5000, "y"]


def test_a_large_result_goes_on_by_reference_and_can_be_read_at_once() -> None:
    played = play(
        """
        - step: fetch
          tool: http
          url: http://api
          retry: { on_success: { while: "{{ response.more }}", merge_path: data } }
          next: [ { step: after, when: "{{ (fetch | length) == 3 and fetch[2] == 'z' }}" } ]
        - step: after
          tool: { kind: noop, input: { all: "{{ fetch }}", first: "{{ fetch[0] }}", size: "{{ fetch | length }}" } }
        """,
        {"fetch": [page(["x" * 50_000, "y" * 50_000], more=True), page(["z"])]},
    )
    (job,) = played.asked("after")

    assert is_reference(gathered(played))
    assert is_reference(job.input["all"])
    assert job.input["first"]["_path"] == [0]
    assert job.input["size"] == 3


def test_results_that_are_no_answers_of_http_can_be_paged_too() -> None:
    played = play(
        """
        - step: a
          tool:
            - name: t
              kind: python
              code: "def main(): ..."
              input: { token: "" }
              retry:
                on_success:
                  while: "{{ response.token != '' }}"
                  next_call: { memory: "{{ response.token }}" }
                  merge_path: data
        """,
        {"t": [success({"data": [1], "token": "b"}), success({"data": [2], "token": ""})]},
    )

    assert gathered(played) == [1, 2]
    assert [job.config.get("memory") for job in played.jobs] == [None, "b"]


def test_a_stored_answer_is_loaded_to_be_judged() -> None:
    played = play(
        """
        - step: a
          tool:
            - name: t
              kind: noop
              retry: { on_success: { while: "{{ response.more }}", merge_path: data } }
        """,
        {"t": [success({"_ref": "sha256:one", "_size": 90_000}), success({"data": [3]})]},
        values={"sha256:one": {"data": [1, 2], "more": True}},
    )

    assert gathered(played) == [1, 2, 3]
