"""Waits: for a time, until a time, for a signal that comes before, after or not at all."""

from __future__ import annotations

import pytest

from shared.contracts import payloads as p
from tests.support.deciding import Played, play

SIGNAL = """
- step: ask
  tool: { kind: wait, signal: approved, timeout: 60 }
  next:
    - { step: go, when: "{{ event.name == 'step.completed' }}", args: { by: "{{ ask.by }}" } }
    - { step: stop, when: "{{ outcome.error.kind == 'timeout' }}" }
- { step: go, tool: { kind: noop } }
- { step: stop }
"""


def ended_at(played: Played) -> float:
    return played.at(played.events("step_completed")[0])


@pytest.mark.parametrize(
    ("wait", "seconds"),
    [
        ("for: 5", 5),
        ("for: 2m", 120),
        ("for: '{{ workload.n }}'", 7),
        ("until: '2026-01-01T00:01:00Z'", 60),
        ("until: '2026-01-01T00:01:00+00:00'", 60),
        ("until: '2026-01-01T00:01:00'", 60),
        ("until: '2020-01-01T00:00:00Z'", 0),
        ("for: 0", 0),
    ],
)
def test_a_wait_ends_when_its_time_has_come(wait: str, seconds: float) -> None:
    played = play(f"- step: a\n  tool: {{ kind: wait, {wait} }}\n", workload={"n": 7})

    assert (ended_at(played), played.status) == (seconds, "completed")
    assert played.jobs[0].delay_s == seconds


@pytest.mark.parametrize("wait", ["for: '{{ \"soon\" }}'", "until: '{{ \"tomorrow\" }}'", "until: '{{ 5 }}'"])
def test_a_time_that_cannot_be_read_is_an_error_of_the_task(wait: str) -> None:
    played = play(f"- step: a\n  tool: {{ kind: wait, {wait} }}\n")

    assert (played.status, played.error["kind"]) == ("failed", "expression")


def test_a_wait_of_ages_is_no_crash() -> None:
    assert play("- step: a\n  tool: { kind: wait, for: '{{ 10 ** 15 }}' }\n", run_for=1).status == "running"
    assert play("- step: a\n  tool: { kind: wait, until: '9999-12-31T23:59:59Z' }\n", run_for=1).status == "running"


def test_a_signal_ends_the_wait_and_its_payload_is_the_result() -> None:
    played = play(SIGNAL, run_for=10)
    played.rehearsal.signal("e1", "approved", {"by": "ann"})
    played.go_on()

    assert played.asked("go")[0].input == {"by": "ann"}
    assert ended_at(played) == 10
    assert played.aliases("signal_received", "action_completed")[:2] == ["signal_received", "action_completed"]
    assert played.state.signals == {}


def test_a_signal_that_came_before_the_wait_is_not_lost() -> None:
    played = play("- { step: first, tool: { kind: wait, for: 5 }, next: ask }\n" + SIGNAL.strip("\n"), run_for=1)
    played.rehearsal.signal("e1", "approved", {"by": "early"})
    assert played.state.signals == {"approved": [{"by": "early"}]}
    played.go_on()

    assert played.asked("go")[0].input == {"by": "early"}
    assert played.at(played.events("playbook_completed")[0]) == 5


def test_a_signal_that_does_not_come_is_a_timeout() -> None:
    played = play(SIGNAL)

    assert played.steps() == ["ask", "stop"]
    assert played.at(played.events("step_failed_terminal")[0]) == 60


def test_without_a_timeout_a_wait_lasts() -> None:
    played = play("- step: ask\n  tool: { kind: wait, signal: go }\n")

    assert (played.status, played.jobs[0].available_at, played.jobs[0].role) == ("running", None, "signal")
    played.rehearsal.signal("e1", "go")
    assert played.go_on().status == "completed"


def test_another_signal_ends_no_wait() -> None:
    played = play(SIGNAL, run_for=10)
    played.rehearsal.signal("e1", "rejected")

    assert played.go_on(1).status == "running"
    assert played.state.signals == {"rejected": [None]}


def test_every_signal_ends_one_wait_in_the_order_in_which_they_began() -> None:
    played = play(
        """
        - step: work
          loop: { in: 3, mode: parallel }
          tool: { kind: wait, signal: next }
        """,
        run_for=1,
    )
    for number in (1, 2, 3):
        played.rehearsal.signal("e1", "next", number)
    played.go_on()

    assert played.result == [1, 2, 3]
    assert [said.index for said in played.said(p.IterationCompleted)] == [0, 1, 2]


def test_one_signal_for_two_who_wait_is_not_given_twice() -> None:
    played = play("- step: work\n  loop: { in: 2, mode: parallel }\n  tool: { kind: wait, signal: next }\n", run_for=1)
    played.rehearsal.signal("e1", "next", "only")

    assert played.go_on(1).status == "running"
    assert [said.result for said in played.said(p.IterationCompleted)] == ["only"]


def test_a_signal_can_be_waited_for_again() -> None:
    played = play(
        """
        - step: work
          tool:
            - name: ask
              kind: wait
              signal: answer
              eval: [ { expr: "{{ outcome.result != 'yes' }}", do: jump, to: ask } ]
        """,
        run_for=1,
    )
    played.rehearsal.signal("e1", "answer", "no")
    played.rehearsal.signal("e1", "answer", "yes")

    assert (played.go_on().status, played.result) == ("completed", "yes")


def test_signals_that_nobody_takes_are_bounded() -> None:
    played = play("- step: a\n  tool: { kind: wait, for: 1000 }\n", run_for=1)
    for number in range(150):
        played.rehearsal.signal("e1", "noise", number)

    assert len(played.state.signals["noise"]) == 100
