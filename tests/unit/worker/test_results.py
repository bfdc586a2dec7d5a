"""What an attempt says, made fit to be sent."""

from __future__ import annotations

import json
from typing import Any

import pytest

from services.worker.facts import processed
from services.worker.hiding import HIDDEN
from services.worker.results import MAX_OUTCOME_BYTES, packed, without_secrets
from services.worker.values import MemoryValues
from shared.contracts.messages import MAX_MESSAGE_BYTES, encode_facts
from shared.contracts.outcomes import Outcome, failure, success
from shared.engine.world import INLINE_BYTES, canonical_json, reference_to
from tests.unit.worker.given import DUE, a_job

BIG = {"rows": ["x" * 100] * 1000, "paging": {"next": 2}, "total": 1000}


async def test_a_small_result_is_sent_as_it_is() -> None:
    values = MemoryValues()
    outcome = success({"a": "ü" * 10})

    assert await packed(outcome, (), values) is outcome
    assert values.texts == {}


async def test_a_result_over_the_limit_is_stored_and_the_selected_fields_stay() -> None:
    values = MemoryValues()
    found = await packed(success(BIG), ("total", "paging", "absent", "rows"), values)

    text = canonical_json(BIG)
    assert found.result == {**reference_to(text), "total": 1000, "paging": {"next": 2}}
    assert json.loads(values.texts[found.result["_ref"]]) == BIG


async def test_the_size_is_measured_in_bytes() -> None:
    found = await packed(success("ü" * (INLINE_BYTES // 2 + 10)), (), MemoryValues())

    assert found.result["_size"] > INLINE_BYTES


async def test_fields_of_an_answers_body_can_be_selected() -> None:
    answer = {"status_code": 200, "body": {"total": 3, "rows": BIG["rows"]}, "data": {}, "headers": {}}
    found = await packed(success(answer), ("status_code", "total"), MemoryValues())

    assert (found.result["status_code"], found.result["total"]) == (200, 3)


async def test_twenty_megabytes_pass_and_the_message_stays_small() -> None:
    values = MemoryValues()
    found = await packed(success({"body": "x" * 20_000_000}), ("body",), values)

    fact = processed(a_job(), "w", found, 1, DUE)
    (body,) = encode_facts([fact])
    assert len(body) < 4096
    assert found.result["_size"] > 20_000_000


@pytest.mark.parametrize(
    "result", [float("nan"), {"a": [float("inf")]}, {1, 2}, {("a",): 1}, pytest.param(10**5000, id="huge")]
)
async def test_a_result_that_is_no_json_is_a_failure(result: Any) -> None:
    found = await packed(success(result), (), MemoryValues())

    assert found.status == "error"
    assert found.error is not None
    assert found.error["message"].startswith("the result is no JSON")


async def test_a_text_about_nan_is_a_text() -> None:
    assert (await packed(success({"a": "NaN Infinity"}), (), MemoryValues())).status == "success"


async def test_characters_that_cannot_be_stored_are_replaced_with_a_note() -> None:
    outcome = Outcome("success", {"a\x00": ["x\ud800y", "\\u0000"]}, meta={"notes": ["first"]})
    found = await packed(outcome, (), MemoryValues())

    assert found.result == {"a\ufffd": ["x\ufffdy", "\\u0000"]}
    assert found.meta["notes"][0] == "first"
    assert "replaced" in found.meta["notes"][1]
    assert encode_facts([processed(a_job(), "w", found, 1, DUE)])


async def test_errors_and_extras_are_made_fit_too() -> None:
    found = await packed(failure("exception", "bad \ud800", py={"message": "\x00"}), (), MemoryValues())

    assert found.error is not None
    assert found.error["message"] == "bad \ufffd"
    assert found.extras["py"]["message"] == "\ufffd"


async def test_an_error_too_large_to_send_keeps_what_rules_read() -> None:
    huge = failure("exception", "m" * MAX_OUTCOME_BYTES, py={"traceback": "t" * MAX_MESSAGE_BYTES})
    found = await packed(huge, (), MemoryValues())

    assert found.error is not None
    assert found.error["kind"] == "exception"
    assert len(json.dumps(found.as_json())) < 4096


def test_secrets_are_hidden_wherever_they_are_said() -> None:
    extras = {"py": {"s3cret": 1}}
    outcome = Outcome("error", {"echo": "s3cret!"}, {"message": "no s3cret"}, {"stdout": "s3cret"}, extras)
    found = without_secrets(outcome, ("s3cret", "s3cret!", "abc"))

    assert "s3cret" not in json.dumps(found.as_json())
    assert found.result == {"echo": HIDDEN}


def test_without_secrets_nothing_changes() -> None:
    outcome = success({"a": 1})

    assert without_secrets(outcome, ()) is outcome
