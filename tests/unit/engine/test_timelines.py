"""The event timelines that the retry and loop architecture promises, name by name and second by second."""

from __future__ import annotations

from typing import Any

from shared.contracts import payloads as p
from shared.contracts.jobs import Job
from shared.contracts.outcomes import Outcome, failure, success
from shared.engine.rehearsal import Reply
from tests.support.deciding import BUSY, Played, body, node, page, play, takes

RETRY_WORDS = (
    "action_started", "action_error", "action_completed", "step_retry", "step_retry_exhausted", "step_completed",
    "step_failed_terminal", "execution_failed",
)  # fmt: skip
LOOP_WORDS = ("iterator_started", "iteration_started", "iteration_completed", "iterator_completed")
FETCH = """
- step: fetch_data
  type: http
  url: https://api.example.com/data
  retry:
    max_attempts: 3
    initial_delay: 1.0
    backoff_multiplier: 2.0
    max_delay: 60.0
    jitter: false
    retry_when: "{{ status_code >= 500 or error != None }}"
    stop_when: "{{ status_code == 200 and success == True }}"
  next:
    - step: process_data
- step: process_data
"""
FAILS_TWICE = [
    ("action_started", 1),
    ("action_error", 1),
    ("step_retry", 1, 1.0),
    ("action_started", 2),
    ("action_error", 2),
    ("step_retry", 2, 2.0),
    ("action_started", 3),
]


def retry_timeline(played: Played) -> list[tuple[Any, ...]]:
    out: list[tuple[Any, ...]] = []
    for event in played.log:
        if event.alias not in RETRY_WORDS or node(event).startswith("process_data"):
            continue
        match event.payload:
            case p.TaskRetryScheduled(failed_attempt=attempt, delay_s=delay):
                out.append((event.alias, attempt, delay))
            case p.TaskRetryExhausted(attempts=attempts, max_attempts=allowed):
                out.append((event.alias, attempts, allowed))
            case p.TaskStarted() | p.TaskProcessed():
                assert event.address is not None
                out.append((event.alias, event.address.attempt))
            case _:
                out.append((event.alias,))
    return out


def test_success_after_two_failures() -> None:  # req: I3, C3, B6, N1, O5
    played = play(FETCH, {"fetch_data": [BUSY, BUSY, body({"ok": True})]})

    assert retry_timeline(played) == [*FAILS_TWICE, ("action_completed", 3), ("step_completed",)]
    assert played.steps() == ["fetch_data", "process_data"]


def test_all_attempts_fail() -> None:  # req: I4, B3, K4
    played = play(FETCH, {"fetch_data": [BUSY, BUSY, BUSY]})

    assert retry_timeline(played) == [
        *FAILS_TWICE,
        ("action_error", 3),
        ("step_retry_exhausted", 3, 3),
        ("step_failed_terminal",),
        ("execution_failed",),
    ]
    assert [event.payload.outcome["error"]["message"] for event in played.events("action_error")] == [  # type: ignore[attr-defined]
        "503 Service Unavailable"
    ] * 3


def test_times_when_every_call_takes_a_second() -> None:  # req: K2, K5, C9
    played = play(FETCH, {"fetch_data": [takes(1, BUSY), takes(1, BUSY), takes(1, body({}))]})
    timed = [(played.at(event), event.alias) for event in played.log if event.alias in RETRY_WORDS[:4]]

    assert timed == [
        (0, "action_started"),
        (1, "action_error"),
        (1, "step_retry"),
        (2, "action_started"),
        (3, "action_error"),
        (3, "step_retry"),
        (5, "action_started"),
        (6, "action_completed"),
    ]
    assert [said.available_at[17:19] for said in played.said(p.TaskRetryScheduled)] == ["02", "05"]
    assert [played.at(event) for event in played.events("step_started")] == [0, 6]


def test_times_when_the_last_call_fails_too() -> None:  # req: I4
    played = play(FETCH, {"fetch_data": [takes(1, BUSY)] * 3})
    last = [(played.at(event), event.alias) for event in played.log][-5:]

    assert last == [
        (5, "action_started"),
        (6, "action_error"),
        (6, "step_retry_exhausted"),
        (6, "step_failed_terminal"),
        (6, "execution_failed"),
    ]


def test_a_retry_event_says_what_failed_and_when_it_goes_on() -> None:  # req: I6
    played = play(FETCH, {"fetch_data": [BUSY, body({})]})
    (event,) = played.events("step_retry")
    said = event.payload

    assert isinstance(said, p.TaskRetryScheduled)
    assert event.status == "PENDING"
    assert (said.failed_attempt, said.next_attempt, said.max_attempts, said.delay_s) == (1, 2, 3, 1.0)
    assert said.last_error == "503 Service Unavailable"
    assert said.available_at == "2026-01-01T00:00:01+00:00"
    assert event.parent_event_id == played.events("action_error")[0].identity


def test_a_started_attempt_says_which_it_is() -> None:  # req: I5
    played = play(FETCH, {"fetch_data": [BUSY, BUSY, body({})]})

    assert [said.retry for said in played.said(p.TaskStarted)] == [
        {"attempt": 1, "max_attempts": 3, "is_retry": False},
        {"attempt": 2, "max_attempts": 3, "is_retry": True},
        {"attempt": 3, "max_attempts": 3, "is_retry": True},
    ]


def test_a_retry_on_error_leads_back_to_the_attempt_before() -> None:  # req: B14, B15, I11
    played = play(
        """
        - step: fetch_data
          tool: http
          url: http://api
          retry: { on_error: { max_attempts: 3, backoff: exponential, jitter: false } }
        """,
        {"fetch_data": [failure("connection", "Connection timeout"), body({"n": 1})]},
    )
    first = played.events("action_error")[0]
    second = [event for event in played.log if event.address is not None and event.address.attempt == 2]

    assert played.aliases("action_started", "action_error", "action_completed") == [
        "action_started", "action_error", "action_started", "action_completed",
    ]  # fmt: skip
    assert {event.parent_event_id for event in second if event.is_fact} == {first.identity}
    assert {event.retry_sequence_id for event in second} == {"fetch_data~1.fetch_data"}
    assert played.asked("fetch_data")[1].meta["retry"] == {  # req: K6
        "type": "on_error",
        "attempt_number": 2,
        "max_attempts": 3,
        "parent_event_id": first.identity,
        "backoff_seconds": 1.0,
        "scheduled_at": "2026-01-01T00:00:01+00:00",
    }


def test_a_loop_of_a_hundred_with_two_failures_tolerated() -> None:  # req: F1, F4, F5, F6, F12, I10
    def respond(job: Job) -> Outcome:
        index = job.address.iteration
        return failure("exception", "no") if index in (7, 70) else success(index)

    played = play(
        """
        workload: { n: 100 }
        workflow:
          - step: work
            loop: { collection: "{{ workload.n }}", element: item, mode: async, concurrency: 5, tolerate: 2 }
            tool: { kind: noop }
            next: after
          - step: after
        """,
        respond,
    )
    (started,), (ended,) = played.said(p.LoopStarted), played.said(p.LoopCompleted)

    assert (started.iterator_name, started.collection_size, started.mode) == ("item", 100, "parallel")
    assert (started.concurrency, started.chunk_size) == (5, None)
    assert played.aliases(*LOOP_WORDS)[0] == "iterator_started"
    assert played.aliases(*LOOP_WORDS)[-1] == "iterator_completed"
    assert len(played.events("iteration_started")) == len(played.events("iteration_completed")) == 100
    assert (ended.total_iterations, ended.successful, ended.failed, ended.success_rate) == (100, 98, 2, 0.98)
    assert ended.completed_iterations == 100
    assert ended.results == [None if index in (7, 70) else index for index in range(100)]
    assert [said.status for said in played.said(p.IterationFailed)] == ["failed", "failed"]
    assert {said.status for said in played.said(p.IterationCompleted)} == {"success"}
    assert (played.status, played.steps()) == ("completed", ["work", "after"])


def test_the_job_of_an_iteration_says_where_it_belongs() -> None:  # req: F2, K6, K7
    played = play(
        """
        - step: work
          loop: { in: "{{ ['a', 'b'] }}", iterator: item, mode: parallel }
          tool: { kind: noop, input: { what: "{{ item }}" } }
        """
    )

    assert [job.meta["iterator"] for job in played.jobs] == [
        {"parent_execution_id": "e1", "iteration_index": index, "total_iterations": 2, "iterator_name": "item",
         "mode": "parallel"}
        for index in (0, 1)
    ]  # fmt: skip
    assert [job.input for job in played.jobs] == [{"what": "a"}, {"what": "b"}]


PAGES = """
- step: fetch_users
  tool: http
  url: http://api/users
  params: { page: 1, pageSize: 10 }
  retry:
    on_success:
      while: "{{ response.paging.hasMore }}"
      max_attempts: 100
      next_call:
        params:
          page: "{{ response.paging.page + 1 }}"
      collect: append
      merge_path: data
"""


def answer(job: Job) -> Outcome:
    number = job.config["params"]["page"]
    items = list(range((number - 1) * 10, number * 10))
    return page(items, paging={"hasMore": number < 4, "page": number})


def test_four_pages_of_forty_items() -> None:  # req: G1, G2, G3, G4, G5, G6, G8
    played = play(PAGES, {"fetch_users": answer})
    completed = played.events("action_completed")
    (said,) = played.said(p.TaskSequenceCompleted)

    assert [event.address.attempt for event in completed if event.address is not None] == [1, 2, 3, 4]
    assert [event.parent_event_id for event in completed[1:]] == [event.identity for event in completed[:-1]]
    assert [job.config["params"] for job in played.jobs] == [{"page": n, "pageSize": 10} for n in (1, 2, 3, 4)]
    assert (said.total_attempts, said.pages, said.aggregated_result) == (4, 4, list(range(40)))
    assert played.aliases("action_completed", "step_retry", "retry_sequence_completed", "step_completed") == [
        *["action_completed", "step_retry"] * 3, "action_completed", "retry_sequence_completed", "step_completed",
    ]  # fmt: skip
    assert played.result == list(range(40))


def test_the_job_of_a_further_page_says_that_it_is_one() -> None:  # req: K6, G7
    played = play(PAGES, {"fetch_users": answer})
    first = played.events("action_completed")[0]

    assert played.jobs[1].meta["retry"] == {
        "type": "on_success",
        "attempt_number": 2,
        "max_attempts": 100,
        "parent_event_id": first.identity,
        "continuation": "pagination",
    }


def test_pages_of_one_endpoint_interleave_with_those_of_another() -> None:  # req: F10, F3, A17
    def respond(job: Job) -> Reply:
        number = job.config["params"]["page"]
        slow = job.config["url"].startswith("http://a")
        more = {"hasMore": number < 3, "page": number}
        return takes(2 if slow else 3, page([f"{job.config['url']}:{number}"], paging=more))

    played = play(
        """
        workload: { endpoints: ["http://a", "http://b"] }
        workflow:
          - step: fetch_multiple_apis
            tool: http
            url: "{{ endpoint }}/data"
            params: { page: 1 }
            loop: { collection: "{{ workload.endpoints }}", element: endpoint, mode: async }
            retry:
              on_success:
                while: "{{ response.paging.hasMore }}"
                next_call: { params: { page: "{{ response.paging.page + 1 }}" } }
                collect: append
                merge_path: data
        """,
        respond,
    )
    pages = [
        (played.at(event), event.address.iteration, event.address.attempt)
        for event in played.events("action_completed")
        if event.address is not None
    ]

    assert pages == [(2, 0, 1), (3, 1, 1), (4, 0, 2), (6, 1, 2), (6, 0, 3), (9, 1, 3)]
    assert played.result == [
        ["http://a/data:1", "http://a/data:2", "http://a/data:3"],
        ["http://b/data:1", "http://b/data:2", "http://b/data:3"],
    ]
    assert played.aliases("iteration_completed", "iterator_completed")[-1] == "iterator_completed"
