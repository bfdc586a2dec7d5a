"""What else a recorded run brings to a simulation: its signals, the outcomes of its children, its stored values."""

from __future__ import annotations

import pytest

from shared.contracts.outcomes import success
from shared.engine.simulate import simulate
from shared.engine.world import MissingValueError
from tests.support.deciding import ROOT, play, program

GATE = "- { step: gate, tool: { kind: wait, signal: go }, next: after }\n- { step: after, tool: noop }\n"
CHILD = "- { step: call, tool: { kind: playbook, path: lib/child } }\n"
ANSWER = "- { step: only, tool: { kind: noop } }\n"


def test_signals_come_when_they_came() -> None:
    played = play(GATE, {"after": success("on")}, run_for=5)
    played.rehearsal.signal(ROOT, "go", {"by": "ada"})
    played.go_on()

    found = simulate(program(GATE), played.log)

    assert (played.status, found.status, found.is_certain, found.changes) == ("completed", "completed", True, [])


def test_a_child_ends_as_it_was_recorded() -> None:
    played = play(CHILD, {"only": success(7)}, playbooks={"lib/child": ANSWER})
    assert played.status == "completed"

    found = simulate(program(CHILD), played.log)

    assert (found.status, found.is_certain, found.result) == ("completed", True, played.result)


def test_a_stored_value_that_is_needed_is_asked_for_and_used() -> None:
    stored = {"_ref": "sha256:big", "_size": 9}
    text = "- { step: a, tool: noop, next: [ { step: b, when: '{{ a.count == 3 }}' } ] }\n- { step: b, tool: noop }\n"
    played = play(text, {"a": success(stored), "b": success("yes")}, values={"sha256:big": {"count": 3}})
    assert "b" in {event.address.step for event in played.log if event.address is not None}

    with pytest.raises(MissingValueError) as missing:
        simulate(program(text), played.log)
    found = simulate(program(text), played.log, {missing.value.ref: {"count": 3}})

    assert (found.status, found.is_certain, found.changes) == ("completed", True, [])
