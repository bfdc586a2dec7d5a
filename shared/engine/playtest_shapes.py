"""What may stand in a file of playbook tests, checked like a playbook: places, carets, suggestions."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

from shared.contracts.outcomes import ERROR_KINDS
from shared.language.nodes import ScalarValue
from shared.language.scalars import ANY, CONDITION, FIXED_DURATION, SWITCH, TEXT, at_least
from shared.language.shapes import Case, Choice, Either, Field, ListOf, MapOf, Record, Shape, is_list, is_mapping

FORMS = ("result", "http", "rows", "error", "fail_test")
ERROR_FORMS = ("http", "sql", "exception", "exit_code", "kind")
ENGINE_ERRORS = ("exhausted", "failed_by_rule", "loop")


def _is_status(value: ScalarValue) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 100 <= value <= 599


def _is_time(value: ScalarValue) -> bool:
    try:
        return isinstance(value, str) and datetime.fromisoformat(value).tzinfo is not None
    except ValueError:
        return False


HTTP_STATUS = replace(TEXT, expected="an HTTP status such as 503", accepts=_is_status, json={"type": "integer"})
TIME = replace(TEXT, expected="a time such as '2026-03-01T12:00:00Z'", accepts=_is_time)
NUMBER_OF_TIMES = at_least(1, whole=True, templated=False)
MESSAGE = Field(TEXT, "What the error says.")

ERROR = Record(
    "error",
    {
        "http": Field(HTTP_STATUS, "The status of an HTTP answer that is no success."),
        "headers": Field(MapOf(ANY), "The headers of that answer."),
        "sql": Field(TEXT, "A SQLSTATE, in quotes."),
        "exception": Field(TEXT, "The Python exception that was raised."),
        "exit_code": Field(at_least(1, whole=True, templated=False), "How a shell command ended."),
        "kind": Field(Choice(ERROR_KINDS, what="kind of error"), "The kind, for any other error."),
        "code": Field(ANY, "The error's code."),
        "message": MESSAGE,
        "retryable": Field(SWITCH, "Whether trying again may help, if it does not follow from the rest."),
        "details": Field(MapOf(ANY), "Whatever else the tool tells."),
    },
    one_of=(ERROR_FORMS,),
    exclusive=(ERROR_FORMS,),
)
OUTCOME = Record(
    "outcome",
    {
        "result": Field(ANY, "Success with this result."),
        "http": Field(HTTP_STATUS, "Success of an HTTP call with this status."),
        "headers": Field(MapOf(ANY), "The headers of that answer."),
        "body": Field(ANY, "The body of that answer."),
        "rows": Field(ListOf(ANY), "Success of a database query that gave these rows."),
        "error": Field(ERROR, "Failure."),
        "fail_test": Field(TEXT, "The task must not be asked this: the test fails and says why."),
        "takes": Field(FIXED_DURATION, "How long it takes, in simulated time; nothing unless given."),
        "when": Field(CONDITION, "Answers every attempt for which this holds, before those given in order."),
        "times": Field(NUMBER_OF_TIMES, "How many attempts in a row it answers; one unless given."),
    },
    one_of=(FORMS,),
    exclusive=(FORMS, ("when", "times")),
)
OUTCOMES = MapOf(
    Either(
        "an outcome, or a list of outcomes",
        (Case(is_list, ListOf(OUTCOME, "a list of outcomes", at_least=1)), Case(is_mapping, OUTCOME)),
    ),
    "a mapping from tasks to their outcomes",
)
SIGNAL = Record(
    "signal",
    {
        "name": Field(TEXT, "The name of the signal.", required=True),
        "after": Field(FIXED_DURATION, "When it is sent, from the start on.", required=True),
        "payload": Field(ANY, "What it carries."),
    },
)


def bounded(shape: Shape, what: str) -> Either:
    """Return the shape of an exact number, or of the bounds it must keep."""
    bounds = Record(
        "range",
        {"at_least": Field(shape, "Not less than this."), "at_most": Field(shape, "Not more than this.")},
        one_of=(("at_least", "at_most"),),
    )
    expected = f"{what}, or a mapping with at_least and at_most"
    return Either(expected, (Case(is_mapping, bounds), Case(lambda node: not is_list(node), shape)))


SECONDS = bounded(FIXED_DURATION, "a duration")
CALL = Record(
    "call",
    {
        "kind": Field(TEXT, "The kind of the tool."),
        "step": Field(TEXT, "The step."),
        "visit": Field(ANY, "Which run of the step."),
        "iteration": Field(ANY, "The iteration, counted from 0."),
        "task": Field(TEXT, "The task."),
        "page": Field(ANY, "How often a jump has come back to the task."),
        "attempt": Field(ANY, "The attempt."),
        "config": Field(MapOf(ANY), "The tool's fields, expressions evaluated."),
        "input": Field(MapOf(ANY), "What was handed over by name."),
        "timeout": Field(ANY, "Seconds one attempt may take."),
        "pool": Field(TEXT, "The worker pool."),
    },
)
EXPECT = Record(
    "expect block",
    {
        "status": Field(
            Choice(("completed", "failed", "cancelled", "running"), what="status"), "completed unless given."
        ),
        "result": Field(ANY, "The result, exactly."),
        "result_contains": Field(ANY, "A part of the result: keys that are not named do not matter."),
        "error": Field(
            Record(
                "expected error",
                {
                    "kind": Field(Choice((*ERROR_KINDS, *ENGINE_ERRORS), what="kind of error"), "Its kind."),
                    "code": Field(ANY, "Its code."),
                    "message": Field(TEXT, "A part of its message."),
                    "step": Field(TEXT, "The step that failed."),
                },
            ),
            "Why the execution failed.",
        ),
        "path": Field(ListOf(TEXT, "a list of steps"), "The steps in the order they started."),
        "not_reached": Field(ListOf(TEXT, "a list of steps"), "Steps that never started."),
        "attempts": Field(
            MapOf(bounded(at_least(0, whole=True, templated=False), "a whole number")), "Attempts in all, by task."
        ),
        "delays": Field(MapOf(ListOf(SECONDS, "a list of durations")), "The waits before further attempts, by task."),
        "duration": Field(SECONDS, "Simulated time from the start to the end."),
        "calls": Field(MapOf(ListOf(CALL, "a list of calls")), "What each attempt was given, by task."),
        "sinks": Field(MapOf(ListOf(MapOf(ANY), "a list of writes")), "What each sink was given, by task."),
        "ctx": Field(MapOf(ANY), "Values in `ctx` at the end."),
        "events": Field(ListOf(TEXT, "a list of events"), "Events in this order, others may stand between them."),
    },
    exclusive=(("result", "result_contains"),),
)
SHARED: dict[str, Field] = {
    "playbooks": Field(ListOf(TEXT, "a list of files"), "Child playbooks, found by their `metadata.path`."),
    "workload": Field(MapOf(ANY), "What is submitted; merged with the playbook's defaults."),
    "env": Field(MapOf(TEXT), "The environment names that the playbook may read."),
    "outcomes": Field(OUTCOMES, "What the tasks answer."),
    "starts_at": Field(TIME, "When simulated time begins; 2026-01-01T00:00:00Z unless given."),
}
TEST = Record(
    "test",
    {
        "name": Field(TEXT, "A sentence about behaviour.", required=True),
        **SHARED,
        "signals": Field(ListOf(SIGNAL, "a list of signals"), "Signals that are sent while it runs."),
        "cancel_after": Field(FIXED_DURATION, "When the execution is cancelled, from the start on."),
        "expect": Field(EXPECT, "What must be true at the end.", required=True),
    },
)
TEST_FILE = Record(
    "test file",
    {
        "playbook": Field(TEXT, "The file of the playbook, seen from this file."),
        "inline": Field(MapOf(ANY, "a playbook: a mapping with metadata, workflow"), "The playbook itself."),
        **SHARED,
        "tests": Field(ListOf(TEST, "a list of tests", at_least=1), "The tests.", required=True),
    },
    one_of=(("playbook", "inline"),),
    exclusive=(("playbook", "inline"),),
)
