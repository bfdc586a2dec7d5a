"""Settings of a worker."""

from __future__ import annotations

from pathlib import Path

import pytest

from services.worker.settings import read_settings
from shared.runtime.config import SettingsError

GIVEN = {
    "REDRIVE_AMQP_URL": "amqp://u:p@broker/",
    "REDRIVE_INGEST_URL": "http://ingest",
    "REDRIVE_WORKER_TOKEN": "a-real-one",
}


def problems(values: dict[str, str]) -> str:
    with pytest.raises(SettingsError) as caught:
        read_settings(values)
    return "\n".join(caught.value.problems)


def test_settings_come_from_the_environment() -> None:
    more = {"REDRIVE_POOLS": "default, gpu", "REDRIVE_CONCURRENCY": "4", "REDRIVE_GRACE": "2m"}
    settings = read_settings({**GIVEN, **more})

    assert (settings.pools, settings.concurrency, settings.grace_s) == (("default", "gpu"), 4, 120.0)
    assert settings.token == "a-real-one"


def test_an_operator_says_what_code_may_do() -> None:
    plain = read_settings(GIVEN)
    more = {"REDRIVE_CODE_UID": "70000", "REDRIVE_SCRIPTS_ROOT": "/srv/scripts", "REDRIVE_SHELL_MEMORY": "512MiB"}
    settings = read_settings({**GIVEN, **more, "REDRIVE_DISABLED_TOOLS": "shell, python"})

    assert (plain.first_uid, plain.scripts_root, plain.disabled_tools) == (65000, None, ())
    assert (settings.first_uid, settings.scripts_root) == (70000, "/srv/scripts")
    assert (settings.shell_memory, settings.disabled_tools) == (512 * 1024**2, ("shell", "python"))
    assert read_settings({**GIVEN, "REDRIVE_CODE_UID": "off"}).first_uid is None
    for uid in ("0", "nobody"):
        assert "REDRIVE_CODE_UID" in problems({**GIVEN, "REDRIVE_CODE_UID": uid})


def test_a_secret_may_come_from_a_file(tmp_path: Path) -> None:
    secret = tmp_path / "token"
    secret.write_text("from-a-file\n")
    given = {name: value for name, value in GIVEN.items() if name != "REDRIVE_WORKER_TOKEN"}

    assert read_settings({**given, "REDRIVE_WORKER_TOKEN_FILE": str(secret)}).token == "from-a-file"


def test_everything_that_is_missing_is_said_at_once() -> None:
    said = problems({})

    for name in GIVEN:
        assert name in said


def test_in_dev_mode_nothing_needs_to_be_said() -> None:
    settings = read_settings({"REDRIVE_DEV": "1"})

    assert settings.amqp_url.startswith("amqp://")
    assert settings.health_host == "127.0.0.1"


@pytest.mark.parametrize(
    ("name", "value", "complaint"),
    [
        ("REDRIVE_WORKER_TOKEN", "changeme", "everybody knows"),
        ("REDRIVE_WORKER_TOKEN", "", "not set"),
        ("REDRIVE_CONCURRENCY", "many", "no whole number"),
        ("REDRIVE_CONCURRENCY", "0", "below 1"),
        ("REDRIVE_GRACE", "soon", "REDRIVE_GRACE"),
        ("REDRIVE_POOLS", "a pool", "cannot name a pool"),
        ("REDRIVE_POOLS", " , ", "names nothing"),
        ("REDRIVE_LEASE", "1", "at least twice"),
        ("REDRIVE_DEV", "maybe", "neither yes nor no"),
        ("REDRIVE_PYTHON_MEMORY", "much", "no size"),
        ("REDRIVE_AMQP_URL_FILE", "/nowhere/at/all", "cannot be read"),
    ],
)
def test_a_setting_that_is_wrong_is_named(name: str, value: str, complaint: str) -> None:
    assert complaint in problems({**GIVEN, name: value})


def test_a_secret_does_not_show_when_settings_are_printed() -> None:
    settings = read_settings(GIVEN)

    assert "a-real-one" not in f"{settings} {settings!r}"
    assert "u:p" not in repr(settings)
