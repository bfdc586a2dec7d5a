"""Identities that are ordered by time."""

from datetime import UTC, datetime, timedelta
from uuid import UUID

from shared.runtime.ids import new_id, time_ordered_id

NOW = datetime(2024, 5, 1, 12, tzinfo=UTC)


def test_an_identity_is_a_uuid_of_version_seven() -> None:
    for chance in (0, 1, 2**74 - 1, 2**80):
        found = UUID(time_ordered_id(NOW, chance))
        assert (found.version, found.variant) == (7, "specified in RFC 4122")


def test_later_identities_sort_behind_earlier_ones() -> None:
    moments = [NOW + timedelta(milliseconds=number) for number in range(1000)]

    found = [new_id(moment) for moment in moments]

    assert found == sorted(found)
    assert UUID(found[0]).int >> 80 == int(NOW.timestamp() * 1000)


def test_identities_of_one_moment_differ() -> None:
    assert len({new_id(NOW) for _ in range(10_000)}) == 10_000
