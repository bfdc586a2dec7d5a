"""The context of an event, as others may see it."""

import pytest

from services.ingest.context import MAX_VALUE_BYTES, sanitised, sanitised_fact
from shared.contracts.events import Event
from shared.contracts.payloads import SignalReceived


def test_what_says_where_something_happened_is_kept() -> None:  # req: J1
    context = {"execution_id": "e", "job_id": "j", "catalog_id": 7, "workload": {"a": 1}, "vars": {"page": 2}}

    assert sanitised(context) == context


def test_a_large_value_is_replaced_by_its_size() -> None:  # req: J2
    large = ["x" * MAX_VALUE_BYTES]

    shown = sanitised({"workload": large, "vars": {"a": 1}})

    assert shown == {"workload": {"_truncated": True, "_size": MAX_VALUE_BYTES + 4}, "vars": {"a": 1}}


@pytest.mark.parametrize(
    ("result", "shown"),
    [
        ({"status": "success", "data": [1, 2]}, {"has_data": True, "status": "success", "data_type": "array"}),
        ({"status": "error", "data": None}, {"has_data": False, "status": "error", "data_type": "null"}),
        ({"status": "success", "result": {"a": 1}}, {"has_data": True, "status": "success", "data_type": "object"}),
        ("text", {"has_data": True, "status": None, "data_type": "string"}),
        ({"has_data": True, "status": "x", "data_type": "y"}, {"has_data": True, "status": "x", "data_type": "y"}),
    ],
)
def test_of_a_steps_result_only_what_it_is_like_is_shown(result: object, shown: object) -> None:  # req: J3
    assert sanitised({"_step_results": {"fetch": result}}) == {"_step_results": {"fetch": shown}}


def test_credentials_and_private_keys_are_not_shown_at_any_depth() -> None:  # req: J4
    context = {
        "credentials": {"user": "x"},
        "_internal": 1,
        "auth_token": "t",
        "workload": {"api_key": "k", "db": [{"password": "p", "host": "h"}], "_private": 1},
    }

    assert sanitised(context) == {"workload": {"db": [{"host": "h"}]}}


def test_a_fact_is_stored_with_its_context_sanitised_and_its_error_short() -> None:  # req: I9
    meta = {"context": {"secret": 1, "vars": {}}, "error": {"message": "x" * 900, "has_stack_trace": True}, "a": 1}

    fact = sanitised_fact(Event("e", SignalReceived("go"), meta=meta))

    assert fact.meta == {
        "context": {"vars": {}},
        "error": {"message": "x" * 500, "has_stack_trace": True},
        "a": 1,
    }
