"""Outcomes: one shape for every tool, read back whatever spelling they have."""

from __future__ import annotations

from typing import Any

import pytest

from shared.contracts.outcomes import failure, http_failure, outcome_from_json, success


def test_a_success_has_a_result_and_no_error() -> None:  # req: E1
    found = success([1, 2], http={"status": 200}).as_json()

    assert found == {"status": "success", "result": [1, 2], "error": None, "meta": {}, "http": {"status": 200}}


@pytest.mark.parametrize(
    ("status", "kind", "retryable"),
    [(400, "client_error", False), (401, "auth", False), (403, "auth", False), (404, "client_error", False),
     (429, "rate_limit", True), (500, "server_error", True), (503, "server_error", True), (501, "server_error", True)],
)  # fmt: skip
def test_an_http_status_says_what_kind_of_failure_it_is(status: int, kind: str, retryable: bool) -> None:  # req: E2
    found = http_failure(status, headers={"retry-after": "3"})

    assert found.error == {
        "kind": kind, "message": f"HTTP {status}", "retryable": retryable, "code": status, "status": status,
    }  # fmt: skip
    assert found.extras == {"http": {"status": status, "headers": {"retry-after": "3"}}}


@pytest.mark.parametrize(
    ("kind", "code", "retryable"),
    [("connection", None, True), ("timeout", None, True), ("worker_lost", None, True), ("sql", "40001", True),
     ("sql", "40P01", True), ("sql", "23505", False), ("exception", None, False), ("expression", None, False)],
)  # fmt: skip
def test_whether_trying_again_may_help_follows_from_kind_and_code(kind: str, code: str | None, retryable: bool) -> None:
    error = failure(kind, "no", code=code).error  # req: B19

    assert error is not None
    assert error["retryable"] is retryable


@pytest.mark.parametrize("outcome", [success({"a": 1}), http_failure(503), failure("sql", "no", code="40001")])
def test_an_outcome_comes_back_as_it_was(outcome: Any) -> None:
    assert outcome_from_json(outcome.as_json()) == outcome


def test_ok_is_read_as_success() -> None:
    assert outcome_from_json({"status": "ok", "result": 1}).status == "success"


def test_what_a_plug_in_tool_adds_is_kept() -> None:
    assert outcome_from_json({"status": "success", "redis": {"hits": 3}}).extras == {"redis": {"hits": 3}}


@pytest.mark.parametrize(
    ("error", "kind", "message"),
    [("boom", "exception", "boom"), (None, "exception", "no reason was given"), ({"message": "x"}, "exception", "x"),
     ({"kind": "sql"}, "sql", ""), ({"kind": "sql", "message": 5}, "sql", "5")],
)  # fmt: skip
def test_an_error_always_has_a_kind_and_a_message(error: Any, kind: str, message: str) -> None:
    found = outcome_from_json({"status": "error", "error": error}).error

    assert found is not None
    assert (found["kind"], found["message"]) == (kind, message)


@pytest.mark.parametrize("status", ["done", None, 1, ""])
def test_a_status_that_is_neither_is_refused(status: Any) -> None:
    with pytest.raises(ValueError, match="status is success or error"):
        outcome_from_json({"status": status})
