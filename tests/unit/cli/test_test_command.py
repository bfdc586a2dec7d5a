"""`redrive test`: what it prints about tests, where, and how it ends."""

import io
import json
from pathlib import Path

import pytest

from services.cli.__main__ import main
from tests.unit.cli.playbooks import GOOD

TESTS = """\
playbook: ../fetch.yaml
tests:
  - name: it reports what it fetched
    outcomes:
      fetch: { http: 200, body: { n: 1 }, takes: 2s }
    expect:
      path: [fetch, report]
      attempts: { fetch: 1 }
  - name: a failure ends it
    outcomes:
      fetch: { error: { http: 503 } }
    expect:
      status: failed
"""
FAILING = TESTS.replace("[fetch, report]", "[fetch]").replace("fetch: 1", "fetch: 3")
LONG = """\
playbook: ../fetch.yaml
tests:
  - name: the answer is compared as a whole
    outcomes:
      "*": { result: { first: a value that is long enough, second: another one, third: [1, 2, 3] } }
    expect:
      result: { first: a value that is long enough, second: something else, third: [1, 2, 3] }
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "fetch.yaml").write_text(GOOD)
    (tmp_path / "tests").mkdir()
    return tmp_path


def written(folder: Path, text: str, name: str = "tests/fetch.yaml") -> str:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return str(path)


def test_tests_that_pass_are_a_line_each_with_the_time_they_simulated(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = written(folder, TESTS)

    assert main(["test", file]) == 0

    printed = capsys.readouterr()
    assert printed.out.splitlines() == [
        file,
        "  passed  it reports what it fetched (2 s simulated)",
        "  passed  a failure ends it (0 s simulated)",
    ]
    assert printed.err == "2 passed, 0 failed\n"


def test_a_test_that_fails_shows_what_differs_and_what_happened(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = written(folder, FAILING)

    assert main(["test", file]) == 1

    printed = capsys.readouterr()
    assert printed.out.splitlines()[1:-1] == [
        "  FAILED  it reports what it fetched (line 3)",
        '      path: expected ["fetch"], got ["fetch", "report"]',
        "      attempts.fetch: expected 3, got 1",
        "      what happened:",
        "        2.000 s  fetch.fetch#1    success: http 200 → continue",
        "        2.000 s  fetch            completed → next: report",
        "        2.000 s  report.report#1  success → continue",
        "        2.000 s  report           completed",
        "        2.000 s                   execution completed",
    ]
    assert printed.err == "1 passed, 1 failed\n"


def test_long_values_are_shown_as_a_diff(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["test", written(folder, LONG)]) == 1

    printed = capsys.readouterr().out
    assert "      result:\n        --- expected\n        +++ actual\n" in printed
    assert '        -  "second": "something else",\n        +  "second": "another one",\n' in printed


def test_colours_are_there_on_demand(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["test", "--color", "always", written(folder, FAILING)])

    printed = capsys.readouterr().out
    assert "\x1b[31;1mFAILED\x1b[0m" in printed
    assert "\x1b[32;1mpassed\x1b[0m" in printed


def test_a_long_story_is_cut_in_the_middle(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = """\
        inline: { workflow: [{ step: all, loop: { in: 100 }, tool: { kind: noop } }] }
        tests: [{ name: t, expect: { status: failed } }]
        """

    assert main(["test", written(folder, text)]) == 1

    printed = capsys.readouterr().out
    assert "all[0].all#1" in printed
    assert "… 63 more …" in printed
    assert "execution completed" in printed


def test_json_is_one_list_of_tests(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = written(folder, FAILING)

    assert main(["test", "-o", "json", file]) == 1

    printed = capsys.readouterr()
    assert json.loads(printed.out) == [
        {
            "file": file,
            "test": "it reports what it fetched",
            "passed": False,
            "failures": [
                {"what": "path", "expected": ["fetch"], "actual": ["fetch", "report"]},
                {"what": "attempts.fetch", "expected": 3, "actual": 1},
            ],
        },
        {"file": file, "test": "a failure ends it", "passed": True, "failures": []},
    ]
    assert printed.err == ""


@pytest.mark.parametrize("pattern", ["FAILURE", "a fail*ends", "a ????ure"])
def test_tests_are_chosen_by_a_part_of_their_name(
    pattern: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["test", "-k", pattern, written(folder, FAILING)]) == 0

    printed = capsys.readouterr()
    assert "it reports" not in printed.out
    assert printed.err == "1 passed, 0 failed, 1 not selected\n"


def test_choosing_no_test_at_all_is_an_error(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["test", "-k", "nothing", written(folder, TESTS)]) == 2

    assert capsys.readouterr() == ("", "no tests ran, 2 not selected\n")


def test_a_mistake_in_a_file_of_tests_comes_with_a_caret_and_a_suggestion(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = written(folder, TESTS.replace("attempts: { fetch", "attempts: { fetsh"))

    assert main(["test", file]) == 2

    printed = capsys.readouterr()
    assert printed.out == ""
    assert f"{file}:8:19: error[unknown-task]: no task 'fetsh'" in printed.err
    assert "  8 |       attempts: { fetsh: 1 }\n    |                   ^^^^^\n" in printed.err
    assert "hint: did you mean 'fetch'?" in printed.err
    assert printed.err.endswith("no tests ran, 1 invalid file\n")


def test_a_playbook_that_is_not_valid_is_shown_with_its_own_lines(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    written(folder, GOOD.replace("kind: http", "kind: htp"), "fetch.yaml")

    assert main(["test", written(folder, TESTS)]) == 2

    printed = capsys.readouterr().err
    assert "error[invalid-playbook]: this playbook is not valid" in printed
    assert f"{folder / 'fetch.yaml'}:8:13: error[unknown-kind]: unknown kind 'htp'" in printed
    assert "  7 |" not in printed


def test_a_playbook_that_is_not_there_is_told_with_the_one_that_is_near(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["test", written(folder, TESTS.replace("fetch.yaml", "fetsh.yaml"))]) == 2

    printed = capsys.readouterr().err
    assert "1:11: error[unreadable]: the playbook cannot be read" in printed
    assert f"did you mean '{folder / 'fetch.yaml'}'?" in printed


def test_an_invalid_file_does_not_keep_the_others_from_running(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    good, bad = written(folder, TESTS), written(folder, "tests: []", "tests/bad.yaml")

    assert main(["test", bad, good]) == 2

    assert capsys.readouterr().err.endswith("2 passed, 0 failed, 1 invalid file\n")


def test_json_tells_of_invalid_files_too(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = written(folder, TESTS.replace("status: failed", "status: faild"))

    assert main(["test", "-o", "json", file, str(folder / "missing.yaml")]) == 2

    first, second = json.loads(capsys.readouterr().out)
    assert (first["file"], first["test"], first["passed"]) == (file, None, False)
    assert first["failures"][0]["what"] == "wrong-choice"
    assert first["failures"][0]["actual"]["line"] == 13
    assert second["failures"][0]["what"] == "unreadable"


def test_a_folder_is_every_file_of_tests_below_it_and_no_playbook(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    written(folder, TESTS)

    assert main(["test", str(folder)]) == 0

    assert capsys.readouterr().err == "2 passed, 0 failed\n"


def test_a_playbook_named_by_itself_is_not_a_file_of_tests(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["test", str(folder / "fetch.yaml")]) == 2

    assert "error[not-a-test]: this is a playbook, not a file of tests" in capsys.readouterr().err


def test_standard_input_sees_playbooks_from_where_one_is(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(folder)
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(TESTS.replace("../", "").encode())))

    assert main(["test", "-"]) == 0

    assert capsys.readouterr().out.startswith("<stdin>\n")


def test_the_help_says_how_it_ends(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["test", "--help"]) == 0

    assert "1 when one fails" in capsys.readouterr().out
