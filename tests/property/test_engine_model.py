"""The engine does what a small interpreter of the language, written apart from it, says of the same playbook."""

import json
from datetime import timedelta
from typing import Any

from hypothesis import event, given, settings

from shared.contracts import payloads as p
from shared.engine.program import Program
from shared.engine.rehearsal import START, Rehearsal, Rehearsed, Reply
from tests.support.generated_playbooks import Scenario, Tools, scenarios
from tests.support.model import Account, Run, interpret

ENDINGS = {p.StepCompleted: "completed", p.StepFailed: "failed", p.StepSkipped: "skipped"}


def told(scenario: Scenario) -> Account:
    """Return what the model says of a scenario."""

    def answer(*run: Any) -> tuple[dict[str, Any], int]:
        return scenario.answer(*run).as_json(), scenario.duration_us(*run)

    return interpret(scenario.plan, answer)


def rehearsed(scenario: Scenario) -> Rehearsed:
    """Run a scenario through the engine."""
    tools = Tools(scenario)
    rehearsal = Rehearsal(lambda job: Reply(*tools.run(job)))
    found = rehearsal.submit(Program(scenario.plan))
    rehearsal.run()
    return found


def done(found: Rehearsed) -> Account:
    """Return what the log of an execution says, in the words of the model."""
    state = found.state
    failed_step = state.failure["step"] if state.failure else None
    account = Account(state.status, state.result, state.ctx, failed_step)
    jobs = {job.job_id: job for job in found.jobs}
    for entry in found.log:
        said, address = entry.payload, entry.address
        match said:
            case p.TaskStarted():
                job = jobs[said.job_id]
                assert entry.occurred_at is not None
                at_us = (entry.occurred_at - START) // timedelta(microseconds=1)
                assert address is not None
                account.runs.append(Run(address.node, at_us, round(job.delay_s * 1e6), job.config, job.input))
            case p.StepCompleted() | p.StepFailed() | p.StepSkipped():
                assert address is not None
                account.visits.append((address.step, ENDINGS[type(said)]))
            case p.IterationCompleted():
                assert address is not None
                account.iterations[address.frame] = said.result
            case p.IterationFailed():
                assert address is not None
                account.iterations[address.frame] = "failed"
            case _:
                pass
    return account


def in_order(runs: list[Run]) -> list[Run]:
    """Return runs by time; which of two goes first at one instant means nothing."""
    return sorted(runs, key=lambda run: (run.at_us, run.node))


@settings(max_examples=3 * settings().max_examples)
@given(scenarios())
def test_the_engine_agrees_with_the_model(scenario: Scenario) -> None:
    expected, found = told(scenario), done(rehearsed(scenario))

    event(found.status)
    assert in_order(found.runs) == in_order(expected.runs)
    assert sorted(found.visits) == sorted(expected.visits)
    assert found.iterations == expected.iterations
    assert found.ctx == expected.ctx
    assert (found.status, found.failed_step) == (expected.status, expected.failed_step)
    assert json.dumps(found.result) == json.dumps(expected.result)
