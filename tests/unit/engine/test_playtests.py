"""Playbook tests: which outcome answers which attempt, what is compared, and what is said about mistakes."""

import re
from collections.abc import Mapping
from textwrap import dedent, indent
from typing import Any

import pytest

from shared.contracts.jobs import Job
from shared.engine.playtest_outcomes import outcome_of
from shared.engine.playtests import Findings, Loaded, TestFile, Verdict, read_tests, run_test
from tests.support.repository import ROOT, shown

EXAMPLES = sorted((ROOT / "examples" / "tests").glob("*.yaml"))
GUIDE = ROOT / "docs" / "guide" / "testing-playbooks.md"

FLOW = """\
metadata: { name: flow, path: flows/main }
workload: { url: "http://127.0.0.1:9000", limits: { low: 1, high: 5 } }
workflow:
  - step: start
    tool:
      - name: fetch
        kind: http
        url: "{{ workload.url }}"
        timeout: 10s
        eval:
          - { expr: "{{ outcome.status == 'error' and outcome.error.retryable }}", do: retry, attempts: 3, delay: 1 }
          - { expr: "{{ outcome.status == 'error' }}", do: fail }
          - else: { do: continue, set_ctx: { got: "{{ outcome.result }}" } }
    next: work
  - step: work
    loop: { in: [10, 20, 30], iterator: item }
    tool: { kind: python, code: "result = n", input: { n: "{{ item }}" } }
  - step: never
    tool: { kind: noop }
"""


def read(text: str, files: Mapping[str, str] | None = None) -> TestFile:
    def load(path: str) -> Loaded | str:
        found = (files or {}).get(path)
        return "cannot be read: no such file" if found is None else Loaded(path, found.encode())

    return read_tests(text.encode(), "tests.yaml", load)


def played(tests: str, playbook: str = FLOW, files: Mapping[str, str] | None = None) -> list[Verdict]:
    """Run the tests of a file that holds its playbook."""
    found = read(f"inline:\n{indent(playbook, '  ')}\n{dedent(tests)}", files)
    assert [item.message for findings in found.findings for item in findings.diagnostics] == []
    return [run_test(test) for test in found.tests]


def verdict_on(
    outcomes: str = "{}", expect: str = "{}", more: str = "{}", playbook: str = FLOW,
    files: Mapping[str, str] | None = None,
) -> Verdict:  # fmt: skip
    (verdict,) = played(f"tests: [{{ name: t, <<: {more}, outcomes: {outcomes}, expect: {expect} }}]", playbook, files)
    return verdict


def differences(verdict: Verdict) -> list[tuple[str, Any, Any]]:
    return [(item.what, item.expected, item.actual) for item in verdict.failures]


# Outcomes


def test_outcomes_are_taken_in_order_and_the_last_one_stays() -> None:
    outcomes = "{ work: [{ result: a }, { result: b }] }"

    assert differences(verdict_on(outcomes, "{ result: [a, b, b] }")) == []


def test_an_outcome_can_answer_several_times() -> None:
    verdict = verdict_on("{ fetch: [{ error: { http: 503 }, times: 2 }, { result: x }] }", "{ attempts: { fetch: 3 } }")

    assert verdict.passed


def test_a_condition_comes_before_the_order() -> None:
    outcomes = """{ work: [{ result: a }, { when: "{{ job.iteration == 1 }}", result: second }, { result: b }] }"""

    assert differences(verdict_on(outcomes, "{ result: [a, second, b] }")) == []


def test_a_condition_sees_what_the_attempt_was_given() -> None:
    outcomes = (
        """{ work: [{ when: "{{ job.input.n > workload.limits.high * 4 }}", result: much }, { result: little }] }"""
    )

    assert differences(verdict_on(outcomes, "{ result: [little, little, much] }")) == []


def test_a_value_can_be_an_expression() -> None:
    outcomes = """{ work: { result: { twice: "{{ job.input.n * 2 }}" } } }"""

    assert differences(verdict_on(outcomes, "{ result: [{ twice: 20 }, { twice: 40 }, { twice: 60 }] }")) == []


def test_the_pattern_that_says_more_counts() -> None:
    outcomes = '{ "*": { result: any }, work: { result: step }, "work[1]": { result: it }, fetch: { result: f } }'

    assert differences(verdict_on(outcomes, "{ result: [step, it, step], ctx: { got: f } }")) == []


def test_a_task_without_an_outcome_succeeds_with_null() -> None:
    verdict = verdict_on("{}", "{ result: [null, null, null], status: completed }")

    assert verdict.passed
    assert verdict.remarks == ("no outcome was given for start.fetch, work.work: success with null was taken",)


def test_an_attempt_that_must_not_happen_fails_the_test() -> None:
    verdict = verdict_on("{ fetch: [{ error: { http: 503 } }, { fail_test: once is enough }] }", "{ status: failed }")

    assert differences(verdict) == [("outcomes.fetch", "no such attempt", "once is enough")]


def test_an_outcome_that_cannot_be_evaluated_fails_the_test() -> None:
    (found,) = differences(verdict_on("""{ work: { result: "{{ job.input.n / 0 }}" } }"""))

    assert found[0] == "outcomes"
    assert "{{ job.input.n / 0 }}: division by zero" in found[2]


def test_an_answer_that_takes_longer_than_it_may_is_a_timeout() -> None:
    verdict = verdict_on("{ fetch: { result: x, takes: 11s } }", "{ error: { kind: timeout }, duration: 33s }")

    assert differences(verdict) == []


def test_time_passes_while_tasks_run() -> None:
    assert differences(verdict_on("{ work: { result: x, takes: 1500ms } }", "{ duration: 4.5s }")) == []


@pytest.mark.parametrize(
    ("said", "error", "extras"),
    [
        (
            {"http": 503},
            {"kind": "server_error", "code": 503, "retryable": True},
            {"http": {"status": 503, "headers": {}}},
        ),
        (
            {"http": 429, "headers": {"Retry-After": 7}},
            {"kind": "rate_limit", "retryable": True},
            {"http": {"status": 429, "headers": {"retry-after": "7"}}},
        ),
        ({"http": 404, "message": "gone"}, {"kind": "client_error", "message": "gone", "retryable": False}, {}),
        ({"http": 401}, {"kind": "auth"}, {}),
        ({"sql": "40001"}, {"kind": "sql", "code": "40001", "retryable": True}, {"pg": {"code": "40001"}}),
        ({"sql": "23505", "retryable": True}, {"kind": "sql", "retryable": True}, {}),
        ({"exception": "ValueError", "message": "no"}, {"kind": "exception", "message": "no"}, {}),
        ({"exit_code": 2}, {"kind": "exception", "message": "exit code 2"}, {}),
        ({"kind": "connection"}, {"kind": "connection", "retryable": True}, {}),
        ({"kind": "child", "details": {"a": 1}, "code": "X"}, {"details": {"a": 1}, "code": "X"}, {}),
    ],
)
def test_an_error_is_what_its_tool_would_report(
    said: dict[str, Any], error: dict[str, Any], extras: dict[str, Any]
) -> None:
    outcome = outcome_of({"error": said}, {"kind": "postgres", "config": {}})

    assert outcome.status == "error"
    assert error.items() <= (outcome.error or {}).items()
    assert extras.items() <= outcome.extras.items()


def test_an_http_success_is_the_envelope_of_the_answer() -> None:
    outcome = outcome_of(
        {"http": 200, "headers": {"ETag": "x"}, "body": [1]}, {"kind": "http", "config": {"url": "u"}}, 2
    )

    assert outcome.extras == {"http": {"status": 200, "headers": {"etag": "x"}}}
    assert outcome.result == {
        "status_code": 200, "headers": {"etag": "x"}, "body": [1], "data": [1], "url": "u", "elapsed": 2,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("kind", "result"),
    [
        ("postgres", {"rows": [{"id": 1}], "row_count": 1, "command_0": {"rows": [{"id": 1}], "row_count": 1}}),
        ("duckdb", [{"id": 1}]),
    ],
)
def test_rows_come_as_their_database_gives_them(kind: str, result: Any) -> None:
    assert outcome_of({"rows": [{"id": 1}]}, {"kind": kind, "config": {}}).result == result


# What is around an execution


def test_the_workload_of_the_test_is_merged_with_that_of_the_file_and_the_playbook() -> None:
    (verdict,) = played(
        """
        workload: { url: "http://file" , limits: { high: 6 } }
        tests:
          - name: t
            workload: { limits: { high: 7 } }
            outcomes: { work: { result: "{{ workload.limits }}" } }
            expect:
              calls: { fetch: [{ config: { url: "http://file" } }] }
              result_contains: [{ low: 1, high: 7 }, {}, {}]
        """
    )

    assert differences(verdict) == []


def test_environment_and_time_are_given() -> None:
    playbook = """\
        workflow:
          - step: only
            tool: { kind: noop, input: { zone: "{{ env.ZONE }}", now: "{{ now() }}" } }
        """
    verdict = verdict_on(
        expect='{ calls: { only: [{ input: { zone: eu, now: "2026-03-01T12:00:00Z" } }] } }',
        more='{ env: { ZONE: eu }, starts_at: "2026-03-01T12:00:00Z" }',
        playbook=dedent(playbook),
    )

    assert differences(verdict) == []


WAITING = """\
workflow:
  - step: ask
    tool: { kind: wait, signal: approve }
"""


def test_a_signal_comes_when_its_time_has_come() -> None:
    verdict = verdict_on(
        expect="{ result: { by: ann }, duration: 5m }",
        more="{ signals: [{ name: other, after: 1s }, { name: approve, after: 5m, payload: { by: ann } }] }",
        playbook=WAITING,
    )

    assert differences(verdict) == []


def test_an_execution_that_waits_for_ever_is_still_running() -> None:
    verdict = verdict_on(expect="{ result: 1 }", playbook=WAITING)

    assert differences(verdict) == [("status", "completed", "running")]
    assert verdict.timeline[-1].said == "still waits for signal 'approve'"


def test_an_execution_can_be_cancelled() -> None:
    verdict = verdict_on(expect="{ status: cancelled, duration: 3s }", more="{ cancel_after: 3s }", playbook=WAITING)

    assert differences(verdict) == []


CALLING = """\
metadata: { name: parent }
workflow:
  - step: call
    tool: { kind: playbook, path: kids/one, input: { n: 4 } }
"""
CHILD = """\
metadata: { name: one, path: kids/one }
workflow:
  - step: inner
    tool: { kind: python, code: "result = n", input: { n: "{{ workload.n }}" } }
"""


def test_a_child_that_is_given_runs() -> None:
    verdict = verdict_on(
        outcomes='{ "kids/one:inner": { result: "{{ job.input.n + 1 }}" } }',
        expect="{ result: 5, path: [call], attempts: { inner: 1, call: 1 }, calls: { call: [{ input: { n: 4 } }] } }",
        more="{ playbooks: [one.yaml] }",
        playbook=CALLING,
        files={"one.yaml": CHILD},
    )

    assert differences(verdict) == []
    assert [moment.said for moment in verdict.timeline if "child" in moment.said] == ["child kids/one"]


def test_a_child_that_is_not_given_is_answered_like_any_task() -> None:
    expect = "{ result: 9, duration: 2s, attempts: { call: 1 }, calls: { call: [{ config: { path: kids/one } }] } }"
    verdict = verdict_on("{ call: { result: 9, takes: 2s } }", expect, playbook=CALLING)

    assert differences(verdict) == []


def test_a_child_that_is_not_given_can_fail() -> None:
    verdict = verdict_on(
        "{ call: { error: { kind: timeout, message: too slow } } }",
        "{ error: { kind: child, message: too slow, step: call } }",
        playbook=CALLING,
    )

    assert differences(verdict) == []


def test_a_playbook_that_never_ends_is_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shared.engine.playtest_stage.MAX_DECISIONS", 100)
    playbook = "workflow: [{ step: round, tool: { kind: wait, for: 1s }, next: round }]"

    (found,) = differences(verdict_on(playbook=playbook))

    assert found == ("end", "an end", "none after 100 decisions: the playbook goes on for ever")


def test_results_that_are_stored_elsewhere_are_compared_by_value() -> None:
    playbook = 'workflow: [{ step: all, loop: { in: 1200 }, tool: { kind: noop, input: { n: "{{ item }}" } } }]'
    verdict = verdict_on(
        '{ all: { result: "{{ job.input.n }}" } }', f"{{ result: {list(range(1200))} }}", playbook=playbook
    )

    assert differences(verdict) == []


def test_a_loop_too_large_to_be_read_back_says_so() -> None:
    playbook = """\
        workflow:
          - { step: all, loop: { in: 1001 }, tool: { kind: noop }, next: sum }
          - { step: sum, tool: { kind: noop, input: { n: "{{ all | length }}" } } }
        """

    verdict = verdict_on(playbook=dedent(playbook))

    assert verdict.passed or "test it with fewer elements" in differences(verdict)[0][2]


def test_the_same_test_gives_the_same_verdict() -> None:
    found = read(f"inline:\n{indent(FLOW, '  ')}\ntests: [{{ name: t, expect: {{ result: 1 }} }}]")
    (test,) = found.tests

    assert run_test(test) == run_test(test)


# Expectations

SINKING = """\
workflow:
  - step: s
    tool:
      kind: http
      url: "http://127.0.0.1:9000"
      retry: { max_attempts: 2, jitter: false }
      sink: { tool: postgres, dsn: "postgresql:///x", table: "t_{{ workload.n }}", data: "{{ result.body }}" }
workload: { n: 1 }
"""


@pytest.mark.parametrize("size", [1, 40_000], ids=["sent", "stored"])
def test_what_looks_like_an_expression_in_a_sink_is_data(size: int) -> None:
    playbook = f"""\
workflow:
  - step: s
    tool: {{ kind: http, url: "http://127.0.0.1:9000", input: {{ token: "{{{{ keychain.api.token }}}}" }} }}
    sink:
      tool: postgres
      table: t
      data: {{ like: "{{{{ like }}}}", got: "{{{{ [args.n, result.body] }}}}", more: "{{{{ more }}}}" }}
    args: {{ n: 1 }}
workload: {{ like: {{ $template: evaluated, $scope: {{}} }}, more: {"x" * size} }}
"""
    mark = "{ $template: evaluated, $scope: {} }"
    verdict = verdict_on(
        f"{{ s: [{{ http: 200, body: [{mark}] }}] }}",
        f"{{ sinks: {{ s: [{{ data: {{ like: {mark}, got: [1, [{mark}]], more: {'x' * size} }} }}] }} }}",
        playbook=playbook,
    )

    assert differences(verdict) == []


def test_sinks_are_what_successful_attempts_write() -> None:
    verdict = verdict_on(
        "{ s: [{ error: { http: 500 } }, { http: 200, body: [1] }] }",
        "{ sinks: { s: [{ kind: postgres, table: t_1, data: [1] }] } }",
        playbook=SINKING,
    )

    assert differences(verdict) == []


@pytest.mark.parametrize(
    ("expect", "difference"),
    [
        ("{ status: failed }", ("status", "failed", "completed")),
        ("{ result: [a, b, c] }", ("result", ["a", "b", "c"], ["a", "b", "b"])),
        ("{ result_contains: [a] }", ("result_contains", ["a"], ["a", "b", "b"])),
        ("{ path: [start] }", ("path", ["start"], ["start", "work"])),
        ("{ not_reached: [work, never] }", ("not_reached", ["work", "never"], "started: work")),
        ("{ attempts: { fetch: 3 } }", ("attempts.fetch", 3, 2)),
        ("{ attempts: { work: { at_most: 2 } } }", ("attempts.work", {"at_most": 2}, 3)),
        ("{ delays: { fetch: [2s] } }", ("delays.fetch", ["2s"], [1])),
        ("{ delays: { fetch: [1, 2] } }", ("delays.fetch", [1, 2], [1])),
        ("{ delays: { fetch: [{ at_least: 1.5 }] } }", ("delays.fetch", [{"at_least": 1.5}], [1])),
        ("{ duration: 2 }", ("duration", 2, 1.0)),
        ("{ ctx: { got: g, more: 1 } }", ("ctx", {"got": "g", "more": 1}, {"got": "g"})),
        ('{ calls: { "work[0]": [{ input: { n: 9 } }] } }',
         ("calls.work[0][0]", {"input": {"n": 9}}, {"input": {"n": 10}})),
        ("{ calls: { fetch: [{}] } }", ("calls.fetch (how many)", 1, 2)),
        ("{ sinks: { fetch: [{}] } }", ("sinks.fetch (how many)", 1, 0)),
        ("{ error: {} }", ("status", "failed", "completed")),
    ],
)  # fmt: skip
def test_each_expectation_that_is_not_met_is_told_with_what_came(expect: str, difference: tuple[str, Any, Any]) -> None:
    outcomes = "{ fetch: [{ error: { http: 503 } }, { result: g }], work: [{ result: a }, { result: b }] }"

    assert differences(verdict_on(outcomes, expect)) == [difference]


def test_an_error_is_compared_field_by_field() -> None:
    verdict = verdict_on(
        "{ fetch: { error: { http: 404, message: not here } } }",
        "{ error: { kind: auth, code: 403, message: there, step: work } }",
    )

    assert differences(verdict) == [
        ("error.kind", "auth", "client_error"),
        ("error.code", 403, 404),
        ("error.message", "there", "not here"),
        ("error.step", "work", "start"),
    ]


def test_true_is_not_one() -> None:
    assert differences(verdict_on("{ work: { result: 1 } }", "{ result: [true, 1, 1.0] }")) == [
        ("result", [True, 1, 1.0], [1, 1, 1])
    ]


@pytest.mark.parametrize(
    "events",
    [
        "[action_started, action_error, step_retry, action_started, action_completed]",
        "[task.started, task.processed, task.retry_scheduled, task.processed]",
        "[playbook_started, action_failed, step_completed, execution.completed]",
    ],
)
def test_events_are_found_in_their_order_by_any_of_their_names(events: str) -> None:
    assert verdict_on("{ fetch: [{ error: { http: 503 } }, { result: g }] }", f"{{ events: {events} }}").passed


def test_the_first_event_that_does_not_follow_is_told() -> None:
    (found,) = differences(verdict_on("{}", "{ events: [step_started, step_retry, step_completed] }"))

    assert found[:2] == ("events[1]", "step_retry after step_started")
    assert "playbook_completed" in found[2]


def test_the_pause_of_a_jump_is_a_delay_and_a_jump_without_one_is_not() -> None:
    playbook = """\
        workflow:
          - step: s
            tool:
              - name: a
                kind: noop
                eval: [{ expr: "{{ outcome.result == 1 }}", do: jump, to: a }, { else: { do: continue } }]
              - name: b
                kind: noop
                eval: [{ expr: "{{ outcome.result == 1 }}", do: jump, to: a, delay: 3 }, { else: { do: continue } }]
        """
    verdict = verdict_on(
        "{ a: [{ result: 1 }, { result: 2 }], b: [{ result: 1 }, { result: 2 }] }",
        "{ delays: { a: [3s], b: [] }, attempts: { a: 3 } }",
        playbook=dedent(playbook),
    )

    assert differences(verdict) == []


def test_a_failed_test_comes_with_what_happened_and_what_is_worth_knowing() -> None:
    verdict = verdict_on(
        "{ fetch: [{ error: { http: 503 } }, { error: { http: 404 } }, { result: unused }] }", "{ duration: 1s }"
    )

    told = [(moment.at_s, moment.node, moment.said, moment.decision) for moment in verdict.timeline]
    assert told == [
        (0, "start.fetch#1", "error: server_error: HTTP 503", "retry in 1 s, 1 of 3 attempts used (eval[0], line 12)"),
        (1, "start.fetch#2", "error: client_error: HTTP 404", "fail (eval[1], line 13)"),
        (1, "start", "failed, and nothing takes it up: client_error: HTTP 404", ""),
        (1, "", "execution failed: client_error: HTTP 404", ""),
    ]
    assert verdict.remarks == ("1 of 3 outcomes of 'fetch' were not used",)


# Mistakes

TESTS = """\
playbook: flow.yaml
tests:
  - name: t
    outcomes:
      fetch: [{ http: 200 }]
    expect:
      path: [start]
"""


@pytest.mark.parametrize(
    ("right", "wrong", "place", "code", "hint"),
    [
        ("outcomes:", "outcome:", (4, 5), "unknown-key", "did you mean 'outcomes'?"),
        ("path:", "pat:", (7, 7), "unknown-key", "did you mean 'path'?"),
        ("http: 200", "htp: 200", (5, 17), "unknown-key", "did you mean 'http'?"),
        ("http: 200", "http: many", (5, 23), "wrong-type", None),
        ("http: 200", "error: { kind: timout }", (5, 32), "wrong-choice", "did you mean 'timeout'?"),
        ("http: 200", "error: { message: x }", (5, 24), "missing-key", None),
        ("http: 200", "error: { kind: sql, headers: {} }", (5, 37), "missing-key", "add the status: http: 200"),
        ("http: 200", "result: 1, body: {}", (5, 28), "missing-key", "add the status: http: 200"),
        ("http: 200", "http: 200, result: 1", (5, 17), "said-twice", "keep one of the two"),
        ("http: 200", "http: 200, takes: soon", (5, 35), "wrong-type", None),
        ("http: 200", 'http: 200, when: "{{ job. }}"', (5, 35), "template-syntax", None),
        (
            "http: 200",
            "http: 200, when: job.page",
            (5, 34),
            "wrong-type",
            'write it as an expression: "{{ job.page }}"',
        ),
        ("fetch:", "fetc:", (5, 7), "unknown-task", "did you mean 'fetch'?"),
        ("fetch:", "start.fetc:", (5, 7), "unknown-task", "did you mean 'fetch'?"),
        ("fetch:", "strat.fetch:", (5, 7), "unknown-step", "did you mean 'start'?"),
        ("fetch:", '"start[0]":', (5, 7), "no-loop", None),
        ("fetch:", '"flows/mian:fetch":', (5, 7), "unknown-playbook", "did you mean 'flows/main'?"),
        ("fetch:", '"a b":', (5, 7), "unknown-task", None),
        ("[start]", "[strat]", (7, 14), "unknown-step", "did you mean 'start'?"),
        ("path: [start]", "attempts: { wrk: 1 }", (7, 19), "unknown-task", "did you mean 'work'?"),
        ("path: [start]", "events: [action_eror]", (7, 16), "unknown-event", "did you mean 'action_error'?"),
        ("path: [start]", "error: { step: wrk }", (7, 22), "unknown-step", "did you mean 'work'?"),
        ("path: [start]", "result: 1\n      result_contains: 1", (8, 7), "said-twice", "keep one of the two"),
        ("path: [start]", "attempts: { fetch: { at_last: 1 } }", (7, 28), "unknown-key", "did you mean 'at_least'?"),
        ("flow.yaml", "flw.yaml", (1, 11), "unreadable", None),
        ("  - name: t\n", "  - name: t\n    expect: {}\n  - name: t\n", (5, 11), "said-twice", None),
        ("playbook: flow.yaml\n", "", (1, 1), "missing-key", None),
    ],
)
def test_a_mistake_is_told_with_its_place_and_a_suggestion(
    right: str, wrong: str, place: tuple[int, int], code: str, hint: str | None
) -> None:
    found = read(TESTS.replace(right, wrong, 1), {"flow.yaml": FLOW})

    (findings,) = found.findings
    told = [(item.line, item.column, item.code) for item in findings.diagnostics]
    assert (*place, code) in told
    first = findings.diagnostics[told.index((*place, code))]
    assert hint is None or first.hint == hint


def test_a_wait_is_not_answered() -> None:
    found = read(
        f"inline:\n{indent(WAITING, '  ')}tests: [{{ name: t, outcomes: {{ ask: {{ result: 1 }} }}, expect: {{}} }}]"
    )

    assert [item.code for item in found.findings[0].diagnostics] == ["not-asked"]


def test_a_playbook_that_is_not_valid_is_shown_with_its_own_problems() -> None:
    found = read(TESTS, {"flow.yaml": FLOW.replace("kind: http", "kind: htp")})

    own, others = found.findings
    assert [item.code for item in own.diagnostics] == ["invalid-playbook"]
    assert [(item.file, item.code) for item in others.diagnostics] == [("flow.yaml", "unknown-kind")]
    assert "kind: htp" in others.text


def test_an_inline_playbook_has_its_mistakes_at_their_places() -> None:
    playbook = "workflow:\n  - step: a\n    tool: { kind: noop }\n    next: b"
    found = read(f"inline:\n{indent(playbook, '  ')}\ntests: [{{ name: t, expect: {{}} }}]")

    assert [(item.line, item.code) for item in found.findings[0].diagnostics] == [(5, "unknown-step")]


def test_a_child_needs_a_path_to_be_called_by() -> None:
    child = CHILD.replace(", path: kids/one", "")
    found = read(TESTS.replace("tests:", "playbooks: [one.yaml]\ntests:"), {"flow.yaml": FLOW, "one.yaml": child})

    assert [(item.line, item.code) for item in found.findings[0].diagnostics] == [(2, "missing-key")]


@pytest.mark.parametrize(
    "text", ["", "[]", "just text", "tests: [", "tests: 5", "playbook: flow.yaml\ntests: [1]", "a: b"]
)
def test_what_is_no_file_of_tests_is_told_so(text: str) -> None:
    found = read(text, {"flow.yaml": FLOW})

    assert not found.ok
    assert found.tests == ()


def test_a_playbook_is_recognised_as_one() -> None:
    found = read(FLOW)

    assert found.is_playbook
    assert "not a file of tests" in found.findings[0].diagnostics[0].message


# Examples and guide


def beside(folder: str) -> Any:
    def load(path: str) -> Loaded | str:
        file = (ROOT / folder / path).resolve()
        return Loaded(file.name, file.read_bytes()) if file.is_file() else "cannot be read"

    return load


def messages(findings: list[Findings]) -> list[str]:
    return [item.message for found in findings for item in found.diagnostics]


@pytest.mark.parametrize("file", EXAMPLES, ids=lambda file: file.stem)
def test_every_example_is_as_its_tests_say(file: Any) -> None:
    found = read_tests(file.read_bytes(), shown(file), beside("examples/tests"))

    assert messages(found.findings) == []
    assert found.tests
    assert {test.name: differences(run_test(test)) for test in found.tests} == {test.name: [] for test in found.tests}


def test_every_example_playbook_has_tests_of_the_same_name() -> None:
    playbooks = {file.name for file in (ROOT / "examples").glob("*.yaml")}

    assert {file.name for file in EXAMPLES} <= playbooks


def blocks() -> list[str]:
    return re.findall(r"^```yaml\n(.*?)^```$", GUIDE.read_text(encoding="utf-8"), re.S | re.M)


def test_the_guide_shows_every_example_with_its_tests() -> None:
    playbooks = [ROOT / "examples" / file.name for file in EXAMPLES]

    assert [shown(file) for file in [*playbooks, *EXAMPLES] if file.read_text(encoding="utf-8") not in blocks()] == []


def test_every_block_of_the_guide_is_an_example_or_passes_by_itself() -> None:
    examples = {file.read_text(encoding="utf-8") for file in (ROOT / "examples").rglob("*.yaml")}
    others = [block for block in blocks() if block not in examples]

    assert others
    for block in others:
        found = read_tests(block.encode(), "guide.yaml", beside("docs/guide"))
        assert messages(found.findings) == []
        assert [differences(run_test(test)) for test in found.tests] == [[]] * len(found.tests)


def test_a_job_is_what_conditions_and_calls_speak_of() -> None:
    from shared.contracts.ids import Address
    from shared.engine.playtest_outcomes import view_of
    from shared.engine.playtest_shapes import CALL

    assert set(view_of(Job("j", "e", Address("s"), "noop"))) == set(CALL.fields)
