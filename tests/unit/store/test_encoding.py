"""What may be stored, and how places in lists are written."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.errors import RejectedError
from shared.store.encoding import (
    LoopReference,
    body_of,
    checked_int,
    checked_text,
    checked_uuid,
    cursor_of,
    json_text,
    loop_reference,
    parts_of,
    time_and_id,
)

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)


def holds(value: Any, test: Any) -> bool:
    if isinstance(value, dict):
        return any(holds(key, test) or holds(item, test) for key, item in value.items())
    if isinstance(value, list):
        return any(holds(item, test) for item in value)
    return bool(test(value))


def cannot_be_stored(value: Any) -> bool:
    if isinstance(value, str):
        return "\0" in value or any("\ud800" <= char <= "\udfff" for char in value)
    return isinstance(value, float) and (value != value or value in (float("inf"), float("-inf")))


@given(JSON)
def test_a_value_is_either_refused_or_comes_back_the_same(value: Any) -> None:
    if holds(value, cannot_be_stored):
        with pytest.raises(RejectedError):
            json_text(value, "value")
    else:
        text = json_text(value, "value")
        assert json.loads(text) == value
        assert text.encode()


@pytest.mark.parametrize("text", ["\\u0000", "a\\u0000b", "\\\\u0000", "u0000"])
def test_a_text_that_only_looks_like_nul_is_stored(text: str) -> None:
    assert json.loads(json_text({"a": [text], text: 1}, "value")) == {"a": [text], text: 1}


@pytest.mark.parametrize("text", ["\0", "\\\0", "\\u0000\0"])
def test_nul_is_found_wherever_it_is(text: str) -> None:
    for value in (text, [text], {"a": {"b": (text,)}}, {text: 1}):
        with pytest.raises(RejectedError, match="NUL"):
            json_text(value, "value")
    with pytest.raises(RejectedError, match="NUL"):
        checked_text(text, "text")


def test_the_message_says_what_is_wrong_with_what() -> None:
    with pytest.raises(RejectedError, match=r"task\.processed is no JSON: .*set"):
        json_text({1}, "task.processed")
    with pytest.raises(RejectedError, match="source holds half of a surrogate pair"):
        checked_text("\ud800", "source")


def test_identities_have_one_form() -> None:
    assert checked_uuid("6F0D7A52-3B0C-5E0E-9D3E-5A1D5E0A7C11", "id") == "6f0d7a52-3b0c-5e0e-9d3e-5a1d5e0a7c11"
    for wrong in ("", "x", "6f0d7a52", None, 5):
        with pytest.raises(RejectedError):
            checked_uuid(wrong, "id")  # type: ignore[arg-type]


@pytest.mark.parametrize("number", [-1, 2**31, 10**30])
def test_a_number_beyond_its_column_is_refused(number: int) -> None:
    with pytest.raises(RejectedError):
        checked_int(number, "visit")


@given(st.datetimes(timezones=st.just(UTC)), st.uuids())
def test_a_cursor_gives_back_what_it_was_made_of(when: datetime, identity: Any) -> None:
    assert time_and_id(cursor_of(when, str(identity))) == (when, str(identity))


@given(st.text())
def test_any_other_text_is_refused_as_a_cursor(text: str) -> None:
    with pytest.raises(RejectedError):
        time_and_id(text)
    with pytest.raises(RejectedError):
        parts_of(text, 7)


def test_a_body_does_not_depend_on_the_order_of_keys() -> None:
    assert body_of({"a": 1, "b": 2}) == body_of({"b": 2, "a": 1})
    assert body_of({"a": 1}).data == b'{"a":1}'


def test_references_to_loops_are_told_from_others() -> None:
    identity = "6f0d7a52-3b0c-5e0e-9d3e-5a1d5e0a7c11"

    assert loop_reference(f"loop:{identity}/each~2") == LoopReference(identity, "each", 2)
    assert loop_reference("sha256:abc") is None
    for wrong in (f"loop:{identity}/each", f"loop:{identity}/", "loop:"):
        assert loop_reference(wrong) is None
