"""`redrive validate`: what it prints, where, and how it ends."""

import io
import json
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from services.cli.__main__ import main
from tests.unit.cli.playbooks import BAD, GOOD

NOBODY = 65534
KEYS = ["file", "line", "column", "severity", "code", "message", "hint"]


def written(folder: Path, name: str, text: str) -> str:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return str(path)


def test_a_valid_playbook_is_one_line_and_nothing_else(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = written(tmp_path, "good.yaml", GOOD)

    assert main(["validate", file]) == 0

    assert capsys.readouterr() == (f"{file}: ok (playbook 'fetch_users', 2 steps)\n", "")


def test_every_problem_comes_with_its_place_a_caret_and_a_suggestion(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = written(tmp_path, "bad.yaml", BAD)

    assert main(["validate", file]) == 2

    printed = capsys.readouterr()
    assert f"{file}:8:13: error[unknown-kind]: unknown kind 'htp'" in printed.out
    assert "  8 |       kind: htp\n    |             ^^^\n" in printed.out
    assert "hint: did you mean 'http'?" in printed.out
    assert "did you mean 'report'?" in printed.out
    assert printed.err == "1 file, 1 invalid, 2 errors\n"


def test_one_invalid_file_among_others_is_enough_to_fail(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    good, bad = written(tmp_path, "good.yaml", GOOD), written(tmp_path, "bad.yaml", BAD)

    assert main(["validate", good, bad]) == 2

    printed = capsys.readouterr()
    assert f"{good}: ok" in printed.out
    assert printed.err == "2 files, 1 invalid, 2 errors\n"


def test_several_valid_files_are_summed_up_on_stderr(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = [written(tmp_path, name, GOOD) for name in ("a.yaml", "b.yaml")]

    assert main(["validate", *files]) == 0

    assert capsys.readouterr().err == "2 files, 0 invalid, 0 errors\n"


def test_json_is_one_list_of_findings_and_nothing_else(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = written(tmp_path, "bad.yaml", BAD)

    assert main(["validate", "-o", "json", file]) == 2

    printed = capsys.readouterr()
    findings = json.loads(printed.out)
    assert [list(finding) for finding in findings] == [KEYS, KEYS]
    assert findings[0] == {
        "file": file,
        "line": 8,
        "column": 13,
        "severity": "error",
        "code": "unknown-kind",
        "message": "unknown kind 'htp'",
        "hint": "did you mean 'http'?",
    }
    assert printed.err == ""


def test_json_of_valid_files_is_an_empty_list(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = written(tmp_path, "good.yaml", GOOD)

    assert main(["validate", "-o", "json", file, file]) == 0

    assert json.loads(capsys.readouterr().out) == []


def test_a_folder_is_every_playbook_below_it_in_order(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("b.yml", "a.yaml", "sub/c.yaml", "notes.txt", ".hidden/d.yaml"):
        written(tmp_path, name, GOOD)

    assert main(["validate", str(tmp_path)]) == 0

    shown = [line.split(": ok")[0] for line in capsys.readouterr().out.splitlines()]
    assert shown == [str(tmp_path / name) for name in ("a.yaml", "b.yml", "sub/c.yaml")]


def test_tests_beside_playbooks_are_no_playbooks_unless_they_are_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    playbook = written(tmp_path, "a.yaml", GOOD)
    tests = written(tmp_path, "tests/a.yaml", "playbook: ../a.yaml\ntests:\n  - name: one\n")

    assert main(["validate", str(tmp_path)]) == 0
    assert capsys.readouterr().out.splitlines() == [f"{playbook}: ok (playbook 'fetch_users', 2 steps)"]
    assert main(["validate", tests]) == 2


def test_a_file_named_twice_is_looked_at_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = written(tmp_path, "a.yaml", GOOD)

    assert main(["validate", file, str(tmp_path), file]) == 0

    assert capsys.readouterr().out.count(": ok") == 1


def test_a_dash_is_standard_input(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(BAD.encode())))

    assert main(["validate", "-"]) == 2

    assert "<stdin>:8:13: error[unknown-kind]" in capsys.readouterr().out


def test_a_missing_file_is_told_on_stderr_with_the_name_that_is_near(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    near = written(tmp_path, "users.yaml", GOOD)

    assert main(["validate", str(tmp_path / "user.yaml")]) == 2

    printed = capsys.readouterr()
    assert printed.out == ""
    assert "user.yaml: error[unreadable]: cannot be read: No such file or directory" in printed.err
    assert f"did you mean '{near}'?" in printed.err


def test_json_holds_unreadable_files_as_findings(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    missing = str(tmp_path / "none.yaml")

    assert main(["validate", missing, "-o", "json"]) == 2

    printed = capsys.readouterr()
    (finding,) = json.loads(printed.out)
    assert (finding["file"], finding["line"], finding["column"]) == (missing, 1, 1)
    assert (finding["severity"], finding["code"]) == ("error", "unreadable")
    assert printed.err == ""


def test_a_folder_without_playbooks_is_unreadable(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    written(tmp_path, "notes.txt", "hello")

    assert main(["validate", str(tmp_path)]) == 2

    assert "error[unreadable]: the folder holds no *.yaml or *.yml file" in capsys.readouterr().err


def test_a_link_to_itself_is_unreadable(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    circle = tmp_path / "circle.yaml"
    circle.symlink_to(circle)

    assert main(["validate", str(circle)]) == 2

    assert "error[unreadable]" in capsys.readouterr().err


@contextmanager
def unprivileged() -> Iterator[None]:
    """Give up the right to read everything, if this is root, for as long as it lasts."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(NOBODY)
    try:
        yield
    finally:
        os.seteuid(0)


def test_a_forbidden_file_is_unreadable(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = written(tmp_path, "secret.yaml", GOOD)
    assert main(["validate", file]) == 0
    Path(file).chmod(0)

    with unprivileged():
        assert main(["validate", file]) == 2

    assert "Permission denied" in capsys.readouterr().err


def test_a_name_that_no_file_can_have_is_unreadable(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["validate", "a\0b.yaml"]) == 2

    assert "error[unreadable]" in capsys.readouterr().err


def test_the_other_files_are_still_looked_at_when_one_is_unreadable(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    good = written(tmp_path, "good.yaml", GOOD)

    assert main(["validate", str(tmp_path / "none.yaml"), good]) == 2

    printed = capsys.readouterr()
    assert f"{good}: ok" in printed.out
    assert printed.err.endswith("2 files, 1 invalid, 1 error\n")


@pytest.mark.parametrize("content", [b"\xff\xfe\x00", b"", b"\x00" * 9, b"- [", b"a: b: c", b"\t- x", b"[]"])
def test_anything_but_a_playbook_gets_a_diagnostic(
    content: bytes, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "odd.yaml"
    file.write_bytes(content)

    assert main(["validate", str(file)]) == 2

    assert re.match(rf"{re.escape(str(file))}:\d+:\d+: error\[", capsys.readouterr().out)


def test_nothing_of_a_playbook_reaches_the_terminal_as_a_control_sequence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = written(tmp_path, "evil.yaml", GOOD + '"\\e]0;owned\\a\\nsecond line": 1\n')

    assert main(["validate", file, "--color", "never"]) == 2

    printed = capsys.readouterr().out
    assert "owned" in printed
    assert "\x1b" not in printed
    assert "\nsecond line" not in printed


def test_colours_come_when_they_are_asked_for(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = written(tmp_path, "bad.yaml", BAD)

    main(["validate", file, "--color", "always"])
    assert "\x1b[31;1merror\x1b[0m" in capsys.readouterr().out

    main(["validate", file])
    assert "\x1b" not in capsys.readouterr().out
