"""Where branches meet: a step runs once for all tokens of a fan-out, and nobody waits for who cannot come."""

from __future__ import annotations

from shared.contracts import payloads as p
from shared.contracts.jobs import Job
from shared.contracts.outcomes import success
from shared.engine.rehearsal import Reply
from tests.support.deciding import BUSY, Played, play, takes

SECONDS = {"a": 1, "b": 2, "c": 3, "d": 4, "e": 5}


def graph(text: str, outcomes: object = None, spec: str = "") -> Played:
    """Play a graph written as `a > b c` (fan-out), `a > b` (one way), one step a line; every step takes its time."""
    steps = []
    for line in text.strip().splitlines():
        name, _, ways = line.strip().partition(">")
        head, _, more = name.strip().partition(" ")
        targets = ways.split()
        arcs = f", next: [{', '.join(targets)}]" if targets else ""
        steps.append(f"  - {{ step: {head}, tool: {{ kind: noop }}{more}{arcs} }}")
    found = "executor: { spec: { " + spec + " } }\nworkflow:\n" + "\n".join(steps) + "\n"
    return play(found, outcomes or slowly)  # type: ignore[arg-type]


def slowly(job: Job) -> Reply:
    return takes(SECONDS.get(job.address.step, 0), success(job.address.step))


def runs(played: Played) -> list[str]:
    return played.nodes("step_started")


def test_branches_of_a_fan_out_meet_where_their_ways_do() -> None:
    played = graph("start > a b\na > m\nb > m\nm > end\nend")

    assert runs(played) == ["start~1", "a~1", "b~1", "m~1", "end~1"]
    assert played.at(played.events("step_started")[3]) == 2
    assert played.said(p.StepStarted)[3].tokens == (4, 5)


def test_a_fan_out_may_go_straight_to_the_step_where_its_branches_meet() -> None:
    assert runs(graph("start > a m\na > m\nm")) == ["start~1", "a~1", "m~1"]


def test_a_branch_that_ends_holds_nobody_up() -> None:
    played = graph("start > a b c\na > m\nb > m\nc\nm")

    assert runs(played) == ["start~1", "a~1", "b~1", "c~1", "m~1"]
    assert played.at(played.events("step_started")[4]) == 2


def test_a_branch_that_goes_elsewhere_holds_nobody_up() -> None:
    played = play(
        """
        - { step: start, next: [a, b] }
        - { step: a, tool: { kind: noop }, next: m }
        - step: b
          tool: { kind: noop }
          next: [ { step: m, when: "{{ b == 'm' }}" }, { step: other, when: "{{ b == 'b' }}" } ]
        - { step: other, tool: { kind: wait, for: 60 } }
        - { step: m }
        """,
        slowly,
    )

    assert runs(played) == ["start~1", "a~1", "b~1", "m~1", "other~1"]
    assert played.at(played.events("step_started")[3]) == 2


def test_a_branch_whose_step_is_skipped_arrives_all_the_same() -> None:
    played = play(
        """
        - { step: start, next: [a, b] }
        - { step: a, when: "{{ false == true }}", next: m }
        - { step: b, tool: { kind: noop }, next: m }
        - { step: m }
        """,
        slowly,
    )

    assert runs(played) == ["start~1", "b~1", "m~1"]


def test_a_branch_that_fails_and_is_taken_up_elsewhere_holds_nobody_up() -> None:
    played = play(
        """
        - { step: start, next: [a, b] }
        - { step: a, tool: { kind: noop }, next: m }
        - step: b
          tool: { kind: noop }
          next: [ { step: m, when: "{{ event.name == 'step.completed' }}" }, { step: alert,
              when: "{{ event.name == 'step.failed' }}" } ]
        - { step: alert }
        - { step: m }
        """,
        {"a": lambda job: takes(1, success()), "b": lambda job: takes(2, BUSY)},
    )

    assert runs(played) == ["start~1", "a~1", "b~1", "m~1", "alert~1"]
    assert played.status == "completed"


def test_a_branch_that_fails_while_others_finish_holds_nobody_up() -> None:
    played = graph(
        "start > a b\na > m\nb > m\nm", {"a": success(), "b": takes(3, BUSY), "m": success()}, "on_failure: finish"
    )

    assert (runs(played), played.status) == (["start~1", "a~1", "b~1", "m~1"], "failed")


def test_nested_fan_outs_meet_each_at_its_own_step() -> None:
    played = graph("start > a b\na > c d\nc > n\nd > n\nn > m\nb > m\nm")

    assert runs(played) == ["start~1", "a~1", "b~1", "c~1", "d~1", "n~1", "m~1"]


def test_nested_fan_outs_may_meet_all_at_one_step() -> None:
    played = graph("start > a b\na > c d\nc > m\nd > m\nb > m\nm > end\nend")

    assert runs(played) == ["start~1", "a~1", "b~1", "c~1", "d~1", "m~1", "end~1"]


def test_branches_may_meet_some_here_and_some_there() -> None:
    played = graph("start > a b c\na > one\nb > one\none > two\nc > two\ntwo > end\nend")

    assert runs(played) == ["start~1", "a~1", "b~1", "c~1", "one~1", "two~1", "end~1"]


def test_a_cycle_inside_a_branch_does_not_dead_lock_the_meeting() -> None:
    played = play(
        """
        - { step: start, next: [a, b] }
        - step: a
          tool: { kind: noop }
          set: { ctx.n: "{{ (ctx.n | default(0)) + 1 }}" }
          next: [ { step: a, when: "{{ ctx.n < 3 }}" }, { step: m, when: "{{ ctx.n == 3 }}" } ]
        - { step: b, tool: { kind: noop }, next: m }
        - { step: m }
        """,
        slowly,
    )

    assert runs(played) == ["start~1", "a~1", "b~1", "a~2", "a~3", "m~1"]


def test_branches_start_together_even_if_a_way_leads_back_from_their_meeting() -> None:
    played = play(
        """
        - { step: start, next: [a, b] }
        - { step: a, tool: { kind: noop }, next: m }
        - { step: b, tool: { kind: noop }, next: m }
        - step: m
          tool: { kind: noop }
          set: { ctx.n: "{{ (ctx.n | default(0)) + 1 }}" }
          next: [ { step: a, when: "{{ ctx.n < 2 }}" } ]
        """,
        slowly,
    )

    times = [played.at(event) for event in played.events("step_started")]
    assert list(zip(runs(played), times, strict=True)) == [
        ("start~1", 0), ("a~1", 0), ("b~1", 0), ("m~1", 2), ("a~2", 2), ("m~2", 3),
    ]  # fmt: skip


def test_a_fan_out_inside_a_cycle_meets_again_in_every_round() -> None:
    played = play(
        """
        - { step: fan, next: [a, b] }
        - { step: a, tool: { kind: noop }, next: m }
        - { step: b, tool: { kind: noop }, next: m }
        - step: m
          tool: { kind: noop }
          set: { ctx.n: "{{ (ctx.n | default(0)) + 1 }}" }
          next: [ { step: fan, when: "{{ ctx.n < 3 }}" } ]
        """,
        slowly,
    )

    assert [node for node in runs(played) if node.startswith("m")] == ["m~1", "m~2", "m~3"]
    assert len(runs(played)) == 12
    assert played.state.groups == {}


def test_a_fan_out_that_starts_itself_again_does_not_grow() -> None:
    played = play(
        """
        - step: spawn
          tool: { kind: noop }
          set: { ctx.n: "{{ (ctx.n | default(0)) + 1 }}" }
          next: { mode: inclusive, arcs: [ { step: a }, { step: spawn, when: "{{ ctx.n < 50 }}" } ] }
        - { step: a, tool: { kind: noop } }
        """
    )

    assert len(runs(played)) == 100
    assert max(len(said.groups) for said in played.said(p.NextEvaluated)) <= 3


def test_tokens_of_no_common_fan_out_never_meet() -> None:
    played = play(
        """
        - step: a
          tool: { kind: noop }
          set: { ctx.n: "{{ (ctx.n | default(0)) + 1 }}" }
          next: [ { step: m, when: "{{ ctx.n == 1 }}" }, { step: m, when: "{{ ctx.n == 2 }}" } ]
        - { step: m, tool: { kind: noop }, next: [ { step: a, when: "{{ ctx.n == 1 }}" } ] }
        """
    )

    assert runs(played) == ["a~1", "m~1", "a~2", "m~2"]


def test_arguments_of_all_tokens_that_meet_are_put_together() -> None:
    played = play(
        """
        - { step: start, next: [a, b] }
        - { step: a, next: [ { step: m, args: { x: 1, who: a } } ] }
        - { step: b, next: [ { step: m, args: { y: 2, who: b } } ] }
        - { step: m, tool: { kind: noop } }
        """
    )

    assert played.jobs[0].input == {"x": 1, "y": 2, "who": "b"}


def test_a_join_of_named_steps_waits_for_just_those() -> None:
    played = graph("start > a b c\na > m\nb > m\nc > m\nm , join: { of: [a, b], mode: all }")

    assert runs(played) == ["start~1", "a~1", "b~1", "c~1", "m~1"]
    assert played.at(played.events("step_started")[4]) == 2
    assert [said.reason for said in played.said(p.StepSkipped)] == ["absorbed"]


def test_a_join_of_any_runs_for_the_first_and_absorbs_the_rest() -> None:
    played = graph("start > a b c\na > m\nb > m\nc > m\nm , join: { mode: any }\n")

    assert [node for node in runs(played) if node.startswith("m")] == ["m~1"]
    assert played.at(played.events("step_started")[4]) == 1
    assert [said.reason for said in played.said(p.StepSkipped)] == ["absorbed", "absorbed"]


def test_a_join_of_a_number_runs_when_so_many_came() -> None:
    played = graph("start > a b c\na > m\nb > m\nc > m\nm , join: { mode: 2 }")

    assert played.at(played.events("step_started")[4]) == 2
    assert [said.reason for said in played.said(p.StepSkipped)] == ["absorbed"]


def test_a_join_of_a_number_that_cannot_come_any_more_is_skipped() -> None:
    played = graph("start > a b\na > m\nb\nm , join: { mode: 2 } > end\nend")

    assert runs(played) == ["start~1", "a~1", "b~1", "end~1"]
    assert [said.reason for said in played.said(p.StepSkipped)] == ["join"]


def test_without_a_join_every_token_runs_the_step() -> None:
    played = graph("start > a b\na > m\nb > m\nm , join: none")

    assert runs(played) == ["start~1", "a~1", "b~1", "m~1", "m~2"]


def test_a_join_in_a_branch_that_goes_round_runs_in_every_round() -> None:
    played = play(
        """
        - { step: start, next: [slow, a] }
        - { step: slow, tool: { kind: wait, for: 100 } }
        - { step: a, next: [b, c] }
        - { step: b, tool: { kind: noop }, next: m }
        - { step: c, tool: { kind: noop }, next: m }
        - step: m
          join: { of: [b, c], mode: all }
          tool: { kind: noop }
          set: { ctx.n: "{{ (ctx.n | default(0)) + 1 }}" }
          next: [ { step: a, when: "{{ ctx.n < 3 }}" } ]
        """,
        slowly,
    )

    assert [node for node in runs(played) if node.startswith("m")] == ["m~1", "m~2", "m~3"]


def test_a_wide_fan_out_meets_once_and_quickly() -> None:
    names = [f"w{number}" for number in range(100)]
    lines = [f"start > {' '.join(names)}", *[f"{name} > m" for name in names], "m"]
    played = graph("\n".join(lines))

    assert len(runs(played)) == 102
    assert runs(played)[-1] == "m~1"
