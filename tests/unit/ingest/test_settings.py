"""What ingest is told by its environment, and when it refuses to start."""

from pathlib import Path

import pytest

from services.ingest.auth import hashed
from services.ingest.settings import is_loopback, read_settings
from shared.runtime.config import SettingsError
from shared.runtime.sealing import new_key, parse_ring

SERVERS = {"REDRIVE_DATABASE_URL": "postgresql://db/redrive", "REDRIVE_AMQP_URL": "amqp://broker/"}
KEY = "ci:run+read:0123456789abcdef"


def test_an_environment_is_read_once_into_frozen_settings() -> None:
    settings = read_settings({**SERVERS, "REDRIVE_API_KEYS": f"{KEY}, ops:admin:fedcba9876543210", "REDRIVE_PORT": "9"})

    assert settings.port == 9
    assert settings.host == "0.0.0.0"
    assert [(key.name, sorted(key.scopes)) for key in settings.keys] == [("ci", ["read", "run"]), ("ops", ["admin"])]
    assert settings.keys[0].digest == hashed("0123456789abcdef")
    assert "0123456789abcdef" not in repr(settings) + repr(settings.keys)


def test_keys_may_come_from_a_file_one_a_line(tmp_path: Path) -> None:
    file = tmp_path / "keys"
    file.write_text(f"# the machines\n{KEY}\n\nworker:worker:0123456789abcdeg\n")

    settings = read_settings({**SERVERS, "REDRIVE_API_KEYS_FILE": str(file)})

    assert [key.name for key in settings.keys] == ["ci", "worker"]


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({}, "REDRIVE_API_KEYS (or REDRIVE_API_KEYS_FILE) is not set"),
        ({"REDRIVE_API_KEYS": "ci:run"}, "key 1: expected name:scope+scope:secret"),
        ({"REDRIVE_API_KEYS": "ci:fly:0123456789abcdef"}, "'fly' is no scope"),
        ({"REDRIVE_API_KEYS": "ci:run:short"}, "is shorter than 16 characters"),
        ({"REDRIVE_API_KEYS": "ci:run:changemechangeme"}, "one everybody knows"),
        ({"REDRIVE_API_KEYS": f"{KEY},{KEY}"}, "more than one key"),
        ({"REDRIVE_API_KEYS": KEY, "REDRIVE_PORT": "99999"}, "REDRIVE_PORT is no port"),
        ({"REDRIVE_API_KEYS": KEY, "REDRIVE_POOLS": "a b"}, "cannot name a pool"),
        ({"REDRIVE_API_KEYS": KEY, "REDRIVE_LOG_LEVEL": "loud"}, "REDRIVE_LOG_LEVEL"),
        ({"REDRIVE_API_KEYS": KEY, "REDRIVE_DATABASE_URL": ""}, "REDRIVE_DATABASE_URL"),
        ({"REDRIVE_DEV": "yes", "REDRIVE_HOST": "0.0.0.0"}, "must be a loopback address"),
        ({"REDRIVE_API_KEYS": KEY, "REDRIVE_CREDENTIAL_KEYS": "c2hvcnQ="}, "REDRIVE_CREDENTIAL_KEYS: key 1 is not 32"),
        ({"REDRIVE_API_KEYS": KEY, "REDRIVE_CREDENTIAL_KEYS": "AAAA" * 10 + "AAA="}, "key 1 can be guessed"),
        ({"REDRIVE_DEV": "1", "REDRIVE_DATA_DIR": "/dev/null/x"}, "the key of credentials cannot be kept there"),
    ],
)
def test_it_refuses_to_start_and_says_why(changes: dict[str, str], said: str) -> None:
    with pytest.raises(SettingsError) as caught:
        read_settings({**SERVERS, **changes})

    assert said in str(caught.value)
    assert "0123456789abcdef" not in str(caught.value)


def test_dev_mode_needs_no_keys_on_loopback() -> None:
    settings = read_settings({**SERVERS, "REDRIVE_DEV": "1"})

    assert (settings.is_dev, settings.host, settings.keys) == (True, "127.0.0.1", ())


@pytest.mark.parametrize(
    ("host", "expected"),
    [("127.0.0.1", True), ("127.8.8.8", True), ("::1", True), ("[::1]", True), ("localhost", True), ("0.0.0.0", False),
     ("10.0.0.1", False), ("example.org", False), ("", False)],
)  # fmt: skip
def test_only_this_machine_reaches_a_loopback_address(host: str, expected: bool) -> None:
    assert is_loopback(host) is expected


def test_the_first_key_of_credentials_seals_and_comes_from_a_file_too(tmp_path: Path) -> None:
    keys = [new_key(), new_key()]
    (tmp_path / "ring").write_text("\n".join(keys))
    environment = {**SERVERS, "REDRIVE_API_KEYS": KEY, "REDRIVE_CREDENTIAL_KEYS_FILE": str(tmp_path / "ring")}

    keyring = read_settings(environment).keyring

    assert keyring is not None
    assert keyring.key_ids == tuple(key.key_id for key in parse_ring(",".join(keys)).keys)


def test_without_a_key_credentials_are_off_unless_dev_mode_has_a_place_to_keep_one(tmp_path: Path) -> None:
    folder = {"REDRIVE_DATA_DIR": str(tmp_path)}

    assert read_settings({**SERVERS, "REDRIVE_API_KEYS": KEY, **folder}).keyring is None
    assert read_settings({**SERVERS, "REDRIVE_DEV": "1"}).keyring is None
    kept, again = (read_settings({**SERVERS, "REDRIVE_DEV": "1", **folder}).keyring for _ in range(2))
    assert kept is not None
    assert again is not None
    assert kept.key_ids == again.key_ids
