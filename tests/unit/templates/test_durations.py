"""Durations are written in many ways and mean seconds."""

from datetime import timedelta
from decimal import Decimal

import pytest

from shared.templates.durations import parse_duration

NO_TEXTS: tuple[object, ...] = (
    True,
    None,
    [],
    {},
    b"2s",
    10**400,
    float("nan"),
    float("inf"),
    float("-inf"),
    Decimal("NaN"),
)


@pytest.mark.parametrize(
    ("written", "seconds"),
    [
        (0, 0.0),
        (2, 2.0),
        (0.5, 0.5),
        (Decimal("1.5"), 1.5),
        (timedelta(minutes=2), 120.0),
        ("2", 2.0),
        (" 2.5 ", 2.5),
        (".5", 0.5),
        ("500ms", 0.5),
        ("100ms", 0.1),
        ("2s", 2.0),
        ("1.5m", 90.0),
        ("2h", 7200.0),
        ("1d", 86_400.0),
        ("1w", 604_800.0),
        ("1h30m", 5400.0),
        ("1h 30m 5s", 5405.0),
        ("2 s", 2.0),
        ("PT5M", 300.0),
        ("PT1H30M", 5400.0),
        ("P1DT2H", 93_600.0),
        ("PT0.5S", 0.5),
        ("P2W", 1_209_600.0),
    ],
)
def test_a_duration_is_read_as_seconds(written: object, seconds: float) -> None:
    assert parse_duration(written) == seconds


@pytest.mark.parametrize(
    "written",
    [*NO_TEXTS, "", "s", "soon", "2x", "5M", "1h30", "P", "PT", "P1H", "1e3", "nan", "inf", "٣s", "9" * 400],
)
def test_anything_else_is_refused_with_a_sentence_that_helps(written: object) -> None:
    with pytest.raises(ValueError, match=r"is no duration; write seconds \(2, 0\.5\)"):
        parse_duration(written)


@pytest.mark.parametrize("written", [-1, -0.5, "-1", "-2s", timedelta(seconds=-1)])
def test_a_negative_duration_is_refused(written: object) -> None:
    with pytest.raises(ValueError, match="cannot be negative"):
        parse_duration(written)
