"""The way of a delay through the ladder, by example."""

import pytest

from shared.broker.ladder import HORIZON_S, entry, steps
from shared.broker.topology import JOBS, delay_exchange


@pytest.mark.parametrize(
    ("delay_s", "digits"),
    [
        (0.0, (0, 0, 0, 0)),
        (-3.0, (0, 0, 0, 0)),
        (0.000001, (0, 0, 0, 1)),
        (0.05, (0, 0, 0, 1)),
        (0.051, (0, 0, 0, 2)),
        (0.8, (0, 0, 1, 0)),
        (1.0, (0, 0, 1, 4)),
        (1.1, (0, 0, 1, 6)),
        (12.8, (0, 1, 0, 0)),
        (60.0, (0, 4, 11, 0)),
        (3276.75, (15, 15, 15, 15)),
    ],
)
def test_a_delay_is_units_in_base_sixteen_rounded_up(delay_s: float, digits: tuple[int, ...]) -> None:
    assert steps(delay_s) == digits


def test_the_horizon_is_54_minutes_and_36_seconds() -> None:
    assert int(HORIZON_S) == 54 * 60 + 36


@pytest.mark.parametrize("delay_s", [HORIZON_S + 0.001, 86400.0, float("inf"), float("nan")])
def test_what_is_beyond_the_horizon_is_refused(delay_s: float) -> None:
    with pytest.raises(ValueError, match="horizon"):
        steps(delay_s)


def test_without_a_delay_a_job_goes_straight_to_its_pool() -> None:
    assert entry(0, "default") == (JOBS, "default")


@pytest.mark.parametrize(
    ("delay_s", "place", "key"),
    [
        (0.1, 0, "0.0.0.2.default"),
        (0.8, 1, "0.0.1.0.default"),
        (15.0, 2, "0.1.2.12.default"),
        (3000, 3, "14.10.6.0.default"),
    ],
)
def test_a_job_enters_at_its_highest_digit_that_is_not_zero(delay_s: float, place: int, key: str) -> None:
    assert entry(delay_s, "default") == (delay_exchange(place), key)


@pytest.mark.parametrize("delay_s", [0.0, 1.0])
def test_a_key_that_does_not_fit_a_message_is_refused(delay_s: float) -> None:
    with pytest.raises(ValueError, match="255"):
        entry(delay_s, "ü" * 130)
