"""Jumps: pages, polls and any other way back in a pipeline."""

from __future__ import annotations

from shared.contracts import payloads as p
from shared.contracts.jobs import Job
from shared.contracts.outcomes import Outcome, success
from tests.support.deciding import BUSY, body, play, takes

PAGES = """
workload: { endpoint: { page_size: 3 } }
workflow:
  - step: fetch_all
    tool:
      - name: init
        kind: noop
        eval: [ { else: { do: continue, set_iter: { page: 1, seen: [] } } } ]
      - name: fetch
        kind: http
        url: http://api
        params: { page: "{{ iter.page }}", size: "{{ workload.endpoint.page_size }}" }
        eval:
          - { expr: "{{ outcome.status == 'error' }}", do: retry, attempts: 3, delay: 1 }
          - else: { do: continue, set_iter: { seen: "{{ iter.seen + outcome.result.data }}" } }
      - name: store
        kind: noop
        input: { rows: "{{ _prev.data }}" }
        eval:
          - expr: "{{ fetch.body.more }}"
            do: jump
            to: fetch
            set_iter: { page: "{{ iter.page + 1 }}" }
          - else: { do: continue, set_ctx: { rows: "{{ iter.seen }}" } }
"""


def test_pages_are_jumps_back_to_the_fetching_task() -> None:  # req: D3, A13, A21
    def pages(job: Job) -> Outcome:
        number = job.config["params"]["page"]
        return success({"data": [number], "body": {"more": number < 3}})

    played = play(PAGES, {"fetch": pages})

    assert [job.config["params"]["page"] for job in played.asked("fetch")] == [1, 2, 3]
    assert [job.input["rows"] for job in played.asked("store")] == [[1], [2], [3]]
    assert played.state.ctx == {"rows": [1, 2, 3]}
    assert [said.directive for said in played.said(p.TaskAdvanced)] == [
        "continue", "continue", "jump", "continue", "jump", "continue", "continue",
    ]  # fmt: skip


def test_every_page_and_every_task_after_it_has_its_own_job() -> None:  # req: D2
    played = play(
        PAGES,
        {
            "fetch": [
                success({"data": [1], "body": {"more": True}}),
                BUSY,
                success({"data": [2], "body": {"more": False}}),
            ]
        },
    )

    assert [job.address.node for job in played.jobs] == [
        "fetch_all~1.init#1", "fetch_all~1.fetch#1", "fetch_all~1.store#1", "fetch_all~1.fetch@2#1",
        "fetch_all~1.fetch@2#2", "fetch_all~1.store@2#1",
    ]  # fmt: skip
    assert len({job.job_id for job in played.jobs}) == 6


def test_attempts_start_again_with_every_jump() -> None:
    more = success({"data": [1], "body": {"more": True}})
    last = success({"data": [1], "body": {"more": False}})
    played = play(PAGES, {"fetch": [BUSY, BUSY, more, BUSY, BUSY, last]})

    assert played.status == "completed"
    assert [(said.failed_attempt, said.delay_s) for said in played.said(p.TaskRetryScheduled)] == [
        (1, 1), (2, 2), (1, 1), (2, 2),
    ]  # fmt: skip


POLL = """
- step: poll
  tool:
    - name: check
      kind: http
      url: http://api/job
      eval:
        - { expr: "{{ outcome.result.state != 'done' }}", do: jump, to: check, delay: 5, max_jumps: 3 }
        - else: { do: break }
    - name: never
      kind: noop
"""


def test_polling_is_a_jump_with_a_pause() -> None:  # req: D3, G7
    played = play(
        POLL, {"check": [takes(1, body({"state": "busy"})), takes(1, body({"state": "busy"})), body({"state": "done"})]}
    )

    assert [played.at(event) for event in played.events("action_started")] == [0, 6, 12]
    assert [job.delay_s for job in played.jobs] == [0, 5, 5]
    assert played.status == "completed"


def test_a_jump_that_goes_on_for_ever_is_stopped() -> None:
    played = play(POLL, {"check": body({"state": "busy"})})

    assert len(played.jobs) == 4
    assert (played.status, played.error["kind"]) == ("failed", "limit")
    assert played.error["message"] == "eval[0] jumped 3 times to 'check', its limit"


def test_a_jump_forward_leaves_tasks_out() -> None:  # req: D1
    played = play(
        """
        - step: a
          tool:
            - { name: one, kind: noop, eval: [ { expr: "{{ outcome.result == 'skip' }}", do: jump, to: three } ] }
            - { name: two, kind: noop }
            - { name: three, kind: noop, input: { one: "{{ one }}", two: "{{ two | default('none') }}" } }
        """,
        {"one": success("skip")},
    )

    assert [job.address.task for job in played.jobs] == ["one", "three"]
    assert played.jobs[1].input == {"one": "skip", "two": "none"}


def test_every_rule_counts_its_own_jumps() -> None:
    played = play(
        """
        - step: a
          tool:
            - name: t
              kind: noop
              eval:
                - { expr: "{{ outcome.result == 'x' }}", do: jump, to: t, max_jumps: 2 }
                - { expr: "{{ outcome.result == 'y' }}", do: jump, to: t, max_jumps: 2 }
        """,
        {"t": [success("x"), success("y"), success("x"), success("y"), success("end")]},
    )

    assert (played.status, played.result) == ("completed", "end")
    assert [said.decision["jump"]["number"] for said in played.said(p.TaskAdvanced)[:4]] == [1, 1, 2, 2]
