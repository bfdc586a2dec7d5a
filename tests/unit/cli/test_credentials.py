"""`redrive credentials`: where fields come from, and that no value is repeated."""

from __future__ import annotations

import base64
import io
import json
from pathlib import Path
from typing import Any

import pytest

from services.cli.__main__ import main
from services.cli.credential_fields import FieldError, fields_of

SECRET = "s3cret-of-the-tests"


def test_fields_come_from_files_the_environment_and_the_command_line(tmp_path: Path) -> None:
    (tmp_path / "token").write_text(f"{SECRET}\n")
    environ = {"PASSWORD": SECRET, "REST": json.dumps({"user": "ada", "port": 1})}

    fields, seen = fields_of(
        [f"token=@{tmp_path / 'token'}", "name=X=Y", "headers.X-Key=abcd"], ["password=PASSWORD", "REST"], environ
    )

    assert fields == {
        "token": SECRET, "password": SECRET, "user": "ada", "port": 1, "name": "X=Y", "headers": {"X-Key": "abcd"},
    }  # fmt: skip
    assert seen == ["name", "headers.X-Key"]


def test_fields_come_from_standard_input_where_nothing_else_is_given() -> None:
    assert fields_of([], [], {}, io.StringIO('{"token": "abcd"}')) == ({"token": "abcd"}, [])


@pytest.mark.parametrize(
    ("given", "from_env", "stdin", "said"),
    [
        (["token"], [], "", "NAME=VALUE"),
        (["=x"], [], "", "NAME=VALUE"),
        (["token=@/no/such/file"], [], "", "'token' cannot be read: No such file"),
        ([], ["token=NOTHING"], "", "NOTHING is not set"),
        ([], ["TEXT"], "", "TEXT holds no JSON"),
        ([], [], SECRET, "standard input holds no JSON"),
        ([], [], "[1]", "no JSON object"),
        ([], [], "{}", "no JSON object"),
    ],
)
def test_what_cannot_be_made_out_is_said_without_its_value(
    given: list[str], from_env: list[str], stdin: str, said: str
) -> None:
    with pytest.raises(FieldError) as caught:
        fields_of(given, from_env, {"TEXT": SECRET}, io.StringIO(stdin))

    assert said in str(caught.value)
    assert SECRET not in str(caught.value)


@pytest.mark.parametrize("words", [[], ["-o", "json"]])
def test_a_fresh_key_is_32_bytes_and_never_the_same(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    keys = []
    for _ in range(2):
        assert main(["credentials", "key", *words]) == 0
        printed = capsys.readouterr().out
        keys.append(json.loads(printed)["key"] if words else printed.strip())

    assert [len(base64.b64decode(key)) for key in keys] == [32, 32]
    assert keys[0] != keys[1]


def test_a_value_on_the_command_line_is_warned_about_and_not_repeated(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--kind", "bearer", "--field", f"token={SECRET}", "--server", "http://127.0.0.1:1"]

    assert main(["credentials", "set", "api", *words]) == 8

    printed = capsys.readouterr()
    assert "token stood on the command line" in printed.err
    assert SECRET not in printed.out + printed.err


@pytest.mark.parametrize(
    ("environ", "said"),
    [
        ({}, "REDRIVE_DATABASE_URL (or REDRIVE_DATABASE_URL_FILE) is not set"),
        ({"REDRIVE_CREDENTIAL_KEYS": "x"}, "REDRIVE_CREDENTIAL_KEYS: key 1 is not 32 bytes"),
    ],
)
def test_rotation_says_what_it_needs(
    environ: dict[str, str], said: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("REDRIVE_DATABASE_URL", "REDRIVE_CREDENTIAL_KEYS", "REDRIVE_CREDENTIAL_KEYS_FILE"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environ.items():
        monkeypatch.setenv(name, value)

    assert main(["credentials", "rotate"]) == 2
    assert said in capsys.readouterr().err


@pytest.mark.parametrize("words", [["credentials"], ["credentials", "set", "x"], ["credentials", "delete"]])
def test_wrong_usage_ends_with_two(words: list[str], capsys: pytest.CaptureFixture[Any]) -> None:
    assert main(words) == 2
