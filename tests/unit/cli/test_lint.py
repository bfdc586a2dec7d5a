"""`redrive lint`: errors and advice, and which of them make it fail."""

import json
from pathlib import Path

import pytest

from services.cli.__main__ import main
from tests.unit.cli.playbooks import BAD, GOOD, LOST_STEP, WAITING


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "playbook.yaml"


def test_a_playbook_without_findings_is_one_line(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file.write_text(GOOD)

    assert main(["lint", str(file)]) == 0

    assert capsys.readouterr() == (f"{file}: ok (playbook 'fetch_users', 2 steps)\n", "")


def test_a_warning_is_shown_and_does_not_fail(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file.write_text(LOST_STEP)

    assert main(["lint", str(file)]) == 0

    printed = capsys.readouterr()
    assert "warning[unreachable-step]" in printed.out
    assert printed.err == "1 file, 0 errors, 1 warning, 0 notes\n"


def test_a_warning_fails_where_strictness_is_asked_for(file: Path) -> None:
    file.write_text(LOST_STEP)

    assert main(["lint", "--strict", str(file)]) == 2


def test_the_longest_wait_of_a_task_is_a_note_that_fails_nothing(
    file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file.write_text(WAITING)

    assert main(["lint", "--strict", str(file)]) == 0

    printed = capsys.readouterr()
    assert "info[worst-case-wait]: task 'fetch' waits at most 30.0 s" in printed.out
    assert printed.err == "1 file, 0 errors, 0 warnings, 1 note\n"


def test_errors_fail_without_strictness(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file.write_text(BAD)

    assert main(["lint", str(file)]) == 2

    assert capsys.readouterr().err.startswith("1 file, 2 errors, ")


def test_json_tells_severities_apart(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file.write_text(LOST_STEP)

    assert main(["lint", "-o", "json", str(file)]) == 0

    printed = capsys.readouterr()
    assert [(item["severity"], item["code"]) for item in json.loads(printed.out)] == [("warning", "unreachable-step")]
    assert printed.err == ""


def test_a_missing_file_fails(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["lint", str(tmp_path / "none.yaml")]) == 2

    assert "error[unreadable]" in capsys.readouterr().err
