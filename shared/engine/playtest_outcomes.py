"""Outcomes as a test states them: chosen by condition or in order, and made into what a tool would have reported."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from shared.contracts.jobs import Job
from shared.contracts.outcomes import Outcome, failure, http_failure, success
from shared.engine.playtest_patterns import Pattern
from shared.engine.rehearsal import Reply
from shared.language.plan import Array, Condition, Constant, Expression, Object, Value
from shared.templates.expressions import EvaluationError, compile_template
from shared.templates.truth import truthy


class TestStopped(Exception):  # noqa: N818
    """The test cannot go on: `what` went wrong, what was expected and what came."""

    __test__ = False

    def __init__(self, what: str, expected: Any, actual: Any) -> None:
        super().__init__(what)
        self.what = what
        self.expected = expected
        self.actual = actual


@dataclass(frozen=True, slots=True)
class Answer:
    """One outcome as it is written, with how long it takes and when it applies."""

    said: Value
    takes_s: float = 0.0
    when: Condition | None = None
    times: int = 1


@dataclass(slots=True)
class Answers:
    """The outcomes of the tasks that a pattern names: by condition first, then in order; the last one stays."""

    pattern: Pattern
    answers: tuple[Answer, ...]
    used: int = 0

    @property
    def in_order(self) -> tuple[Answer, ...]:
        """Return the outcomes without a condition."""
        return tuple(item for item in self.answers if item.when is None)

    @property
    def is_ended(self) -> bool:
        """Say whether there were outcomes in order, and all of them were used."""
        return 0 < sum(item.times for item in self.in_order) <= self.used

    def next(self, scope: Mapping[str, Any], *, ends: bool = False) -> Answer | None:
        """Return the outcome of the attempt in scope, if there is one; where they end, only a failure stays."""
        for item in self.answers:
            if item.when is not None and holds(item.when, scope):
                return item
        found: Answer | None = None
        reached = 0
        for found in self.in_order:
            reached += found.times
            if self.used < reached:
                break
        if ends and found is not None and self.is_ended and not _fails(found):
            return None
        self.used += found is not None
        return found

    def remark(self) -> str | None:
        """Say whether outcomes were left over, or the last one was used again."""
        given = sum(item.times for item in self.in_order)
        left = given - self.used
        if left > 0:
            return f"{left} of {given} outcomes of '{self.pattern.text}' were not used"
        if left < 0 and given > 1:
            return f"the last outcome of '{self.pattern.text}' was used {1 - left} times"
        return None


def _fails(answer: Answer) -> bool:
    said = answer.said
    keys = json.loads(said.json) if isinstance(said, Constant) else dict(said.items) if isinstance(said, Object) else ()
    return "error" in keys or "fail_test" in keys


def fresh(answers: tuple[Answers, ...]) -> tuple[Answers, ...]:
    """Return the same outcomes with none of them used, the most precise pattern first."""
    return tuple(sorted((replace(item, used=0) for item in answers), key=lambda item: -item.pattern.precision))


def view_of(job: Job) -> dict[str, Any]:
    """Return an attempt as conditions see it under `job`, and as `calls` compares it."""
    address = job.address
    return {
        "kind": job.kind,
        "step": address.step,
        "visit": address.visit,
        "iteration": address.iteration,
        "task": address.task,
        "page": address.page,
        "attempt": address.attempt,
        "config": job.config,
        "input": job.input,
        "timeout": job.timeout_s,
        "pool": job.pool,
    }


def reply_to(job: Mapping[str, Any], answer: Answer, scope: Mapping[str, Any]) -> Reply:
    """Return what the tool reports; one that takes longer than it may has timed out instead."""
    said = rendered(answer.said, scope)
    if "fail_test" in said:
        raise TestStopped(f"outcomes.{job['task']}", "no such attempt", said["fail_test"])
    limit = job["timeout"]
    if limit is not None and answer.takes_s > limit:
        return Reply(failure("timeout", f"no answer within {limit:g} s"), limit)
    outcome = outcome_of(said, job, answer.takes_s)
    return Reply(replace(outcome, meta={"duration_ms": round(answer.takes_s * 1000, 3)}), answer.takes_s)


def outcome_of(said: Mapping[str, Any], job: Mapping[str, Any], takes_s: float = 0.0) -> Outcome:
    """Return the envelope that the job's tool would have reported."""
    if "error" in said:
        return _error(said["error"], job)
    if "http" in said:
        return _http_success(said, job, takes_s)
    if "rows" in said:
        rows = said["rows"]
        counted = {"rows": rows, "row_count": len(rows)}
        return success(rows if job["kind"] == "duckdb" else {**counted, "command_0": counted})
    return success(said.get("result"))


def _http_success(said: Mapping[str, Any], job: Mapping[str, Any], takes_s: float) -> Outcome:
    body, headers = said.get("body"), _headers(said)
    config = job["config"] if isinstance(job["config"], dict) else {}
    result = {
        "status_code": said["http"],
        "headers": headers,
        "body": body,
        "data": body,
        "url": config.get("url"),
        "elapsed": takes_s,
    }
    return success(result, http={"status": said["http"], "headers": headers})


def _error(said: Mapping[str, Any], job: Mapping[str, Any]) -> Outcome:
    message = said.get("message")
    if "http" in said:
        outcome = http_failure(said["http"], message, _headers(said))
    elif "sql" in said:
        extra = "duckdb" if job["kind"] == "duckdb" else "pg"
        outcome = failure(
            "sql", message or f"SQLSTATE {said['sql']}", code=said["sql"], **{extra: {"code": said["sql"]}}
        )
    elif "exception" in said:
        raised = {"exception": said["exception"], "message": message or ""}
        outcome = failure("exception", message or said["exception"], py={**raised, "traceback": ""})
    elif "exit_code" in said:
        ended = {"exit_code": said["exit_code"], "stdout": "", "stderr": message or ""}
        outcome = failure("exception", message or f"exit code {said['exit_code']}", shell=ended)
    else:
        outcome = failure(said["kind"], message or said["kind"], code=said.get("code"))
    own = {key: said[key] for key in ("retryable", "details", "code") if key in said}
    return replace(outcome, error={**(outcome.error or {}), **own})


def _headers(said: Mapping[str, Any]) -> dict[str, str]:
    """Return header names as tools report them, in small letters, with texts as values."""
    return {str(key).lower(): str(value) for key, value in (said.get("headers") or {}).items()}


def holds(condition: Condition, scope: Mapping[str, Any]) -> bool:
    """Say whether a condition of a test holds."""
    if condition.expression is None:
        return condition.on != "never"
    return truthy(_evaluated(condition.expression, scope))


def rendered(value: Value, scope: Mapping[str, Any]) -> Any:
    """Return the data of a value that a test states."""
    match value:
        case Constant(json=text):
            return json.loads(text)
        case Expression():
            return _evaluated(value, scope)
        case Array(items=items):
            return [rendered(item, scope) for item in items]
        case Object(items=pairs):
            return {key: rendered(item, scope) for key, item in pairs}


def _evaluated(expression: Expression, scope: Mapping[str, Any]) -> Any:
    try:
        return compile_template(expression.text).evaluate(scope).value
    except EvaluationError as problem:
        place = f"line {expression.place.line}: {expression.text}"
        raise TestStopped("outcomes", "an expression that can be evaluated", f"{place}: {problem.message}") from None
