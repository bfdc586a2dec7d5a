"""A recorded run can be explained in words, replayed, and judged again by other rules."""

from __future__ import annotations

from dataclasses import replace

from shared.contracts.events import Event, event_from_json, event_to_json
from shared.contracts.jobs import Job
from shared.contracts.outcomes import Outcome, http_failure, success
from shared.contracts.payloads import TaskRetryScheduled
from shared.engine.explain import explain
from shared.engine.program import Program
from shared.engine.rehearsal import Rehearsal, Rehearsed
from shared.engine.replay import replay
from shared.engine.simulate import simulate, simulate_many
from shared.engine.stimuli import Cancel, Pause, Redrive, Resume
from shared.language.compile import compile_playbook

FETCH = """\
apiVersion: redrive.io/v1
workload: { api_key: s3cret }
workflow:
  - step: fetch
    tool: http
    url: "http://api/users"
    timeout: 5
    eval:
      - expr: "{{ outcome.status == 'error' and outcome.http.status == 503 and workload.api_key != 'x' }}"
        do: retry
        attempts: 5
        backoff: exponential
        delay: 2.0
      - expr: "{{ outcome.status == 'error' }}"
        do: fail
      - else: { do: continue }
    next: report
  - step: report
    tool: noop
"""


SLOW = """\
apiVersion: redrive.io/v1
workflow:
  - step: fetch
    timeout: 30
    tool:
      - name: fetch
        kind: http
        url: http://api/users
        retry: { max_attempts: 9, initial_delay: 8, jitter: true }
    next: report
  - step: report
    tool: noop
"""


def program(text: str) -> Program:
    compiled = compile_playbook(text)
    assert compiled.plan is not None, compiled.errors
    return Program(compiled.plan)


def run(text: str, *answers: Outcome) -> tuple[Rehearsal, Rehearsed]:
    """Run a playbook whose HTTP task answers so, the last answer again and again."""
    given = list(answers)

    def respond(job: Job) -> Outcome:
        if job.kind != "http":
            return success()
        return given.pop(0) if len(given) > 1 else given[0]

    rehearsal = Rehearsal(respond)
    found = rehearsal.submit(program(text))
    rehearsal.run()
    return rehearsal, found


def test_a_retry_is_explained_by_its_rule_its_values_and_the_sum_of_its_delay() -> None:
    _, found = run(FETCH, http_failure(503), http_failure(503), success({"users": []}))
    texts = {sentence.seq: sentence.text for sentence in explain(found.log, node="fetch")}
    retries = [text for text in texts.values() if "retry in" in text]
    assert retries[1] == (
        "attempt 2 of 5 failed with http 503; rule eval[0] (line 9) matched because outcome.http.status = 503, "
        "outcome.status = 'error', workload.api_key = '•••'; retry in 4.0 s = 2.0 × 2¹"
    )


def test_an_explanation_says_why_it_was_not_retried() -> None:
    _, found = run(FETCH, http_failure(404))
    texts = [sentence.text for sentence in explain(found.log)]
    assert (
        "attempt 1 failed with http 404; rule eval[1] (line 14) matched because outcome.status = 'error'; fail" in texts
    )
    assert "the step failed: HTTP 404; no arc takes it up" in texts


def test_spent_attempts_are_explained() -> None:
    _, found = run(FETCH, http_failure(503))
    spent = next(s.text for s in explain(found.log) if "the last" in s.text)
    assert spent.startswith("attempt 5 of 5, the last, failed with http 503; rule eval[0] (line 9) matched because")
    assert spent.endswith("but nothing is left; the task fails")


def test_an_explanation_can_be_narrowed_to_a_node() -> None:
    _, found = run(FETCH, success({}))
    assert {s.node for s in explain(found.log, node="report")} <= {"report~1", "report~1.report#1"}
    assert {s.node for s in explain(found.log, node="fetch~1")} == {"fetch~1", "fetch~1.fetch#1"}


def test_a_recorded_run_replays_without_a_difference() -> None:
    rehearsal, found = run(FETCH, http_failure(503), success({"users": [1]}))
    assert replay(found.program, found.log, rehearsal.values) == []


def test_a_log_that_went_over_the_wire_replays_without_a_difference() -> None:
    rehearsal, found = run(FETCH, http_failure(503), success({"users": [1]}))
    log = [event_from_json(event_to_json(event)) for event in found.log]
    assert replay(found.program, log, rehearsal.values) == []


def test_commands_and_timers_replay_too() -> None:
    given = [http_failure(503)]
    rehearsal = Rehearsal(lambda job: given[0] if job.kind == "http" else success())
    found = rehearsal.submit(program(SLOW))
    rehearsal.tell("e1", Pause("me", "lunch"))
    rehearsal.run()
    rehearsal.tell("e1", Resume("me"))
    rehearsal.release("e1")
    rehearsal.run()
    assert found.state.status == "failed"
    assert found.state.failure is not None
    assert found.state.failure["error"]["kind"] == "timeout"
    given[0] = success()
    rehearsal.tell("e1", Redrive(by="me"))
    rehearsal.run()
    assert found.state.status == "completed"
    rehearsal.tell("e1", Redrive("step", "report"))
    rehearsal.tell("e1", Cancel("me", "enough"))
    assert replay(found.program, found.log, rehearsal.values) == []


def test_a_log_that_was_tampered_with_names_the_event_the_rule_and_both_values() -> None:
    rehearsal, found = run(FETCH, http_failure(503), success({"users": [1]}))
    log: list[Event] = []
    for event in found.log:
        payload = event.payload
        if isinstance(payload, TaskRetryScheduled):
            event = replace(event, payload=replace(payload, delay_s=9.0))
        log.append(event)
    first = replay(found.program, log, rehearsal.values)[0]
    assert (first.type, first.node, first.rule) == ("task.retry_scheduled", "fetch~1.fetch#2", "eval[0]")
    assert (first.field, first.recorded, first.replayed) == ("payload.delay_s", 9.0, 2.0)
    assert str(first) == "#7 task.retry_scheduled fetch~1.fetch#2, rule eval[0]: payload.delay_s was 9.0, now 2.0"


def test_stricter_rules_are_simulated_from_recorded_outcomes_alone() -> None:
    _, found = run(FETCH, http_failure(503), http_failure(503), success({"users": [1]}))
    edited = program(FETCH.replace("attempts: 5", "attempts: 2"))
    simulated = simulate(edited, found.log)
    assert (simulated.recorded_status, simulated.status, simulated.is_certain) == ("completed", "failed", True)
    assert simulated.changes[:2] == [
        "fetch~1.fetch#2: retry in 4 s → attempts spent, fail",
        "fetch~1.fetch#3: continue → not decided",
    ]


def test_laxer_rules_are_marked_as_conjecture_from_the_first_attempt_that_was_not_recorded() -> None:
    _, found = run(FETCH, http_failure(404))
    edited = program(FETCH.replace("outcome.http.status == 503", "outcome.http.status >= 404"))
    simulated = simulate(edited, found.log)
    assert not simulated.is_certain
    assert simulated.conjectures[0].node == "fetch~1.fetch#2"
    assert simulated.conjectures[0].assumed == "the last recorded outcome of this task"
    assert simulated.conjecture_from is not None
    assert simulated.log[simulated.conjecture_from - 1].address is not None
    assert simulated.changes[0] == "fetch~1.fetch#1: fail → retry in 2 s"


def test_many_executions_are_simulated_at_once() -> None:
    logs = {name: run(FETCH, answer)[1].log for name, answer in (("a", success()), ("b", http_failure(404)))}
    found = simulate_many(program(FETCH), logs)
    assert {name: item.status for name, item in found.items()} == {"a": "completed", "b": "failed"}
    assert all(item.is_certain and not item.changes for item in found.values())
