"""Sealing: only the right key opens, only what it was sealed for, and weak keys are refused."""

from __future__ import annotations

import base64
import os
import stat
from pathlib import Path

import pytest

from shared.runtime.sealing import KEY_FILE, Keyring, SealError, kept_ring, new_key, parse_ring

FIELDS = {"token": "s3cret ü", "n": 1}


def ring(*keys: str) -> Keyring:
    parsed = parse_ring(",".join(keys))
    assert parsed.problems == []
    assert parsed.ring is not None
    return parsed.ring


def test_what_was_sealed_is_opened_again() -> None:
    keys = ring(new_key())
    sealed = keys.seal("api", "bearer", FIELDS)

    assert keys.open("api", "bearer", keys.active_id, sealed) == FIELDS
    assert b"s3cret" not in sealed
    assert sealed != keys.seal("api", "bearer", FIELDS)


def test_an_older_key_opens_and_the_first_one_seals() -> None:
    old, new = new_key(), new_key()
    sealed = ring(old).seal("api", "bearer", FIELDS)
    both = ring(new, old)

    assert both.open("api", "bearer", ring(old).active_id, sealed) == FIELDS
    assert both.active_id == ring(new).active_id != ring(old).active_id
    assert both.key_ids == (ring(new).active_id, ring(old).active_id)


@pytest.mark.parametrize(("name", "kind"), [("other", "bearer"), ("api", "basic")])
def test_a_sealed_credential_cannot_be_passed_off_as_another(name: str, kind: str) -> None:
    keys = ring(new_key())

    with pytest.raises(SealError, match="not what was sealed"):
        keys.open(name, kind, keys.active_id, keys.seal("api", "bearer", FIELDS))


@pytest.mark.parametrize("at", [0, 5, 20, -1])
def test_a_changed_byte_is_noticed(at: int) -> None:
    keys = ring(new_key())
    sealed = bytearray(keys.seal("api", "bearer", FIELDS))
    sealed[at] ^= 1

    with pytest.raises(SealError):
        keys.open("api", "bearer", keys.active_id, bytes(sealed))


def test_without_its_key_a_credential_stays_sealed_and_the_key_is_named() -> None:
    keys = ring(new_key())

    with pytest.raises(SealError, match=keys.active_id):
        ring(new_key()).open("api", "bearer", keys.active_id, keys.seal("api", "bearer", FIELDS))


def _key(raw: bytes) -> str:
    return base64.b64encode(raw).decode()


@pytest.mark.parametrize(
    "key",
    [_key(bytes(32)), _key(bytes(range(32))), _key(b"changeme" * 4), _key(b"a long phrase that one can guess"),
     _key(b"\xf0\x01\x02\x99" * 8)],
)  # fmt: skip
def test_a_key_that_can_be_guessed_is_refused_outside_dev_mode(key: str) -> None:
    refused = parse_ring(key)

    assert refused.ring is None
    assert "can be guessed" in refused.problems[0]
    assert key not in str(refused.problems)
    assert parse_ring(key, is_dev=True).ring is not None


@pytest.mark.parametrize("text", ["nonsense!", _key(bytes(range(31))), _key(bytes(range(33))), "ü" * 44])
def test_what_is_no_key_is_refused_everywhere(text: str) -> None:
    for is_dev in (False, True):
        refused = parse_ring(text, is_dev=is_dev)
        assert "32 bytes in base64" in refused.problems[0]
        assert text not in str(refused.problems)


def test_keys_stand_on_lines_or_between_commas_in_either_alphabet() -> None:
    first, second, third = (os.urandom(32) for _ in range(3))
    text = f"# the ring\n{_key(first)}, {base64.urlsafe_b64encode(second).decode()}\n\n{_key(third)}\n"

    assert [key.secret for key in parse_ring(text).keys] == [first, second, third]
    assert parse_ring("").ring is None


def test_a_key_that_is_there_twice_is_a_mistake() -> None:
    key = new_key()

    assert "twice" in parse_ring(f"{key},{key}").problems[0]


def test_a_ring_says_nothing_of_its_keys() -> None:
    key = new_key()

    assert key not in repr(parse_ring(key)) + repr(ring(key))
    assert str(base64.b64decode(key)) not in repr(parse_ring(key))


def test_a_key_is_made_once_and_kept_for_its_owner_alone(tmp_path: Path) -> None:
    folder = tmp_path / "data"

    first, again = kept_ring(folder), kept_ring(folder)

    assert first.key_ids == again.key_ids
    assert stat.S_IMODE((folder / KEY_FILE).stat().st_mode) == 0o600


def test_a_kept_file_without_a_key_is_not_overwritten(tmp_path: Path) -> None:
    (tmp_path / KEY_FILE).write_text("")

    with pytest.raises(OSError, match="holds no key"):
        kept_ring(tmp_path)
    assert (tmp_path / KEY_FILE).read_text() == ""
