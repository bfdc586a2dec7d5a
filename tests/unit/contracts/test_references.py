"""References to stored values, and the way into them."""

from typing import Any

import pytest

from shared.contracts.references import fetched, into, is_reference, subject_of

ANSWER = {"status_code": 200, "headers": {}, "body": {"items": [1, 2], "page": 3}, "data": {"items": [1, 2], "page": 3}}
STORED: dict[str, Any] = {
    "sha256:answer": ANSWER,
    "sha256:list": [{"id": 1}, {"_ref": "sha256:deep"}],
    "sha256:deep": {"name": "x", "data": {"y": 1}},
    "sha256:none": None,
}


def ref(name: str, *path: str | int) -> dict[str, Any]:
    return into({"_ref": f"sha256:{name}", "_size": 9}, path)


@pytest.mark.parametrize("value", [{"_ref": "x"}, {"_ref": 5}, {"ref": "sha256:a"}, "sha256:a", None, ["_ref"]])
def test_data_that_only_looks_like_a_reference_is_none(value: Any) -> None:
    assert not is_reference(value)
    assert is_reference(ref("deep"))


@pytest.mark.parametrize(
    ("reference", "value"),
    [
        (ref("list", 0, "id"), 1),
        (ref("list", 1, "name"), "x"),
        (ref("list", 1), STORED["sha256:deep"]),
        (ref("list", -1, "data", "y"), 1),
        (ref("list", 7), None),
        (ref("list", "id"), None),
        (ref("list", "data"), STORED["sha256:list"]),
        (ref("answer", "items"), [1, 2]),
        (ref("answer", "data", "page"), 3),
        (ref("answer", "status_code"), 200),
        (ref("deep", "data", "y"), 1),
        (ref("none", "a", "b"), None),
    ],
)
def test_a_reference_leads_where_an_expression_would(reference: dict[str, Any], value: Any) -> None:
    assert fetched(reference, STORED.__getitem__) == value


def test_a_way_into_a_reference_goes_on_from_where_it_led() -> None:
    assert into(ref("list", 1), ["name"]) == ref("list", 1, "name")


@pytest.mark.parametrize(
    ("value", "about"), [(ANSWER, ANSWER["body"]), ({"data": [1]}, [1]), ({"a": 1}, {"a": 1}), (5, 5)]
)
def test_a_result_is_about_its_data_its_body_or_itself(value: Any, about: Any) -> None:
    assert subject_of(value) == about
