"""Comparisons: lenient towards null, strict towards types that have no order."""

from datetime import UTC, datetime, timedelta

import pytest

from tests.unit.templates.evaluating import NOW, failure, value


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ("1 == 1.0", True),
        ("'a' == 'b'", False),
        ("[1, {'a': 2}] == [1, {'a': 2}]", True),
        ("{'a': 1} != {'a': 2}", True),
        ("'a' < 'b'", True),
        ("[1, 2] < [1, 3]", True),
        ("true >= 1", True),
        ("none < 1", False),
        ("1 < none", False),
        ("none >= none", False),
        ("429 in [429, 503]", True),
        ("'429' in [429, 503]", False),
        ("none in [none]", True),
        ("[1] in [[1]]", True),
        ("'a' in {'a': 1}", True),
        ("[1] in {'a': 1}", False),
        ("'time' in 'a timeout'", True),
        ("none in 'none'", False),
        ("5 in range(10)", True),
        ("1 not in [2]", True),
        ("now() > earlier", True),
        ("now() - earlier == minute", True),
        ("earlier + minute == now()", True),
    ],
)
def test_a_comparison_gives_true_or_false(condition: str, expected: bool) -> None:
    scope = {"earlier": NOW - timedelta(minutes=1), "minute": timedelta(minutes=1)}

    assert value(f"{{{{ {condition} }}}}", **scope) is expected


@pytest.mark.parametrize(
    "condition", ["'a' < 1", "[1] > 1", "{} < {}", "1 in 'a'", "1 in 2", "now() > 'a'", "['a'] < [1]"]
)
def test_types_without_an_order_are_an_error(condition: str) -> None:
    assert failure(f"{{{{ {condition} }}}}").reason == "type"


def test_times_with_and_without_a_zone_are_an_error() -> None:
    naive = datetime(2024, 1, 1)  # noqa: DTZ001

    assert failure("{{ a < b }}", a=naive, b=datetime(2024, 1, 1, tzinfo=UTC)).reason == "type"
