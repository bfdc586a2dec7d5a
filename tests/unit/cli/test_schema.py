"""`redrive schema`: the schema on stdout, or in a file."""

import json
import os
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator

from services.cli.__main__ import main


def test_the_schema_is_printed_as_json_and_is_a_schema(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["schema", "-o", "json"]) == 0

    Draft202012Validator.check_schema(json.loads(capsys.readouterr().out))


def test_a_file_gets_what_would_have_been_printed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["schema"])
    printed = capsys.readouterr().out

    assert main(["schema", "--output", str(tmp_path / "schema.json")]) == 0

    assert (tmp_path / "schema.json").read_text() == printed
    assert capsys.readouterr() == ("", "")


def test_a_file_that_exists_is_replaced_and_keeps_its_mode(tmp_path: Path) -> None:
    file = tmp_path / "schema.json"
    file.write_text("old")
    file.chmod(0o640)

    assert main(["schema", "--output", str(file)]) == 0

    assert json.loads(file.read_text())["title"] == "Redrive playbook"
    assert file.stat().st_mode & 0o777 == 0o640
    assert os.listdir(tmp_path) == ["schema.json"]


def test_a_link_stays_a_link_to_the_new_text(tmp_path: Path) -> None:
    file, link = tmp_path / "real.json", tmp_path / "link.json"
    file.write_text("old")
    link.symlink_to(file)

    assert main(["schema", "--output", str(link)]) == 0

    assert link.is_symlink()
    assert file.read_text().startswith("{")


def test_a_write_that_fails_midway_leaves_the_old_file_and_no_rest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "schema.json"
    file.write_text("old")

    def refuse(source: str, target: str) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("services.cli.output.os.replace", refuse)

    assert main(["schema", "--output", str(file)]) == 2
    assert file.read_text() == "old"
    assert os.listdir(tmp_path) == ["schema.json"]
    assert "No space left on device" in capsys.readouterr().err


def test_a_file_in_a_folder_that_does_not_exist_is_a_usage_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["schema", "--output", str(tmp_path / "none" / "schema.json")]) == 2

    assert "cannot write" in capsys.readouterr().err
