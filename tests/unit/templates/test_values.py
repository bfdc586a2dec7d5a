"""One expression keeps its type, and every value comes out as plain JSON data."""

from collections import UserDict
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal

import pytest
from markupsafe import Markup

from shared.templates.expressions import compile_template
from shared.templates.truth import StatusText
from tests.unit.templates.evaluating import evaluate, failure, value


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("{{ 1 }}", 1),
        ("{{ '1' }}", "1"),
        ("{{ '[1, 2]' }}", "[1, 2]"),
        ("{{ 1.5 }}", 1.5),
        ("{{ true }}", True),
        ("{{ none }}", None),
        ("  {{ 1 }}\n", 1),
        ("{{ [1, 'a', none] }}", [1, "a", None]),
        ("{{ (1, 2) }}", [1, 2]),
        ("{{ {'a': {'b': 1}} }}", {"a": {"b": 1}}),
        ("{{ {1: 'a', true: 'b', none: 'c', 1.5: 'd'} }}", {"1": "b", "null": "c", "1.5": "d"}),
        ("{{ range(3) }}", [0, 1, 2]),
        ("{{ 7 // 2 }}", 3),
        ("{{ 7 / 2 }}", 3.5),
        ("{{ 7 % 4 }}", 3),
        ("{{ 2 ** 10 }}", 1024),
        ("{{ -n + 3 }}", 1),
        ("{{ +n }}", 2),
        ("{{ 'ab' * 2 }}", "abab"),
        ("{{ [0] * 2 }}", [0, 0]),
        ("{{ 'a' + 'b' }}", "ab"),
        ("{{ [1] + [2] }}", [1, 2]),
        ("{{ 'a' ~ 1 ~ none ~ [1] }}", "a1[1]"),
        ("{{ 'yes' if n > 1 else 'no' }}", "yes"),
        ("{{ 'yes' if n > 5 }}", None),
        ("{{ n and 'x' }}", "x"),
        ("{{ 0 or 'x' }}", "x"),
        ("{{ not n }}", False),
        ("{{ 'abcdef'[1:3] }}", "bc"),
        ("{{ [1, 2, 3][::-1] }}", [3, 2, 1]),
        ("{{ 1 < n <= 2 }}", True),
        ("{{ 1 < n < 2 }}", False),
    ],
)
def test_one_expression_keeps_its_type(text: str, expected: object) -> None:
    found = value(text, n=2)

    assert found == expected
    assert type(found) is type(expected)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ((1, (2,)), [1, [2]]),
        ({3, 1, 2}, [1, 2, 3]),
        ({"a", 1}, ["a", 1]),
        (frozenset(), []),
        (UserDict({"a": (1,)}), {"a": [1]}),
        ({"a": Markup("<b>")}, {"a": "<b>"}),
        (Decimal("1.50"), 1.5),
        (Decimal("3"), 3),
        (Decimal("1E+5"), 100_000),
        (datetime(2024, 1, 2, 3, 4, 5, tzinfo=UTC), "2024-01-02T03:04:05Z"),
        (datetime(2024, 1, 2, 3, 4, 5, 6000), "2024-01-02T03:04:05.006000Z"),  # noqa: DTZ001
        (datetime(2024, 1, 2, tzinfo=timezone(timedelta(hours=2))), "2024-01-02T00:00:00+02:00"),
        (date(2024, 1, 2), "2024-01-02"),
        (timedelta(minutes=1.5), 90.0),
        ({None: 1, 2: 3}, {"null": 1, "2": 3}),
    ],
)
def test_values_of_the_scope_become_json(given: object, expected: object) -> None:
    assert value("{{ x }}", x=given) == expected
    assert value("{{ [x] }}", x=given) == [expected]


@pytest.mark.parametrize(
    "given",
    [float("nan"), float("inf"), Decimal("NaN"), b"x", object(), print, {(1, 2): 3}, {"a": [object()]}, {b"k": 1}],
)
def test_a_value_that_is_no_json_is_an_error(given: object) -> None:
    assert failure("{{ x }}", x=given).reason == "value"


def test_a_whole_number_beyond_all_measure_is_an_error() -> None:
    assert failure("{{ x }}", x=1 << 5000).reason == "limit"


def test_plain_data_is_handed_on_and_not_copied() -> None:
    rows = [{"id": 1}, {"id": 2, "tags": ["a"]}]

    assert value("{{ rows }}", rows=rows) is rows


def test_a_list_written_in_a_template_is_new_each_time() -> None:
    template = compile_template("{{ [1, 2] }}")

    first = template.evaluate({}).value
    assert isinstance(first, list)
    first.append(3)

    assert template.evaluate({}).value == [1, 2]


def test_undefined_inside_a_value_is_null_and_noted() -> None:
    found = evaluate("{{ {'a': gone, 'b': [there.x]} }}", there={})

    assert found.value == {"a": None, "b": [None]}
    assert found.missing == ("gone", "there.x")


def test_a_constant_is_itself() -> None:
    template = compile_template("plain }} text\n")

    assert template.is_constant
    assert template.evaluate({}).value == "plain }} text\n"


def test_a_text_is_compiled_once() -> None:
    assert compile_template("{{ a.b + 1 }}") is compile_template("{{ a.b + 1 }}")
    assert compile_template(StatusText("ok")) is not compile_template(StatusText("success"))


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("{{ 1 + 'a' }}", "type"),
        ("{{ none + 1 }}", "type"),
        ("{{ {} + {} }}", "type"),
        ("{{ -'a' }}", "type"),
        ("{{ 1 / 0 }}", "value"),
        ("{{ 1 % 0 }}", "value"),
        ("{{ 1e308 * 1e308 }}", "value"),
        ("{{ 10.0 ** 400 }}", "value"),
        ("{{ (-8) ** 0.5 }}", "value"),
        ("{{ {[1]: 2} }}", "type"),
        ("{{ [1]['a':] }}", "type"),
    ],
)
def test_what_cannot_be_computed_is_an_error(text: str, reason: str) -> None:
    assert failure(text).reason == reason
