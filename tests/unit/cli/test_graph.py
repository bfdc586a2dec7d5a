"""`redrive graph`: pictures of valid playbooks, findings about others."""

import json
from pathlib import Path
from xml.etree import ElementTree

import pytest

from services.cli.__main__ import main
from tests.unit.cli.playbooks import BAD, GOOD


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "playbook.yaml"
    path.write_text(GOOD)
    return path


def test_mermaid_is_what_comes_unasked(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["graph", str(file)]) == 0

    assert "\nflowchart TD\n" in capsys.readouterr().out


def test_svg_goes_to_the_file_that_is_named(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    picture = file.with_suffix(".svg")

    assert main(["graph", str(file), "--format", "svg", "--output", str(picture)]) == 0

    assert ElementTree.parse(picture).getroot().tag == "{http://www.w3.org/2000/svg}svg"
    assert capsys.readouterr() == ("", "")


def test_json_names_steps_and_arcs(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["graph", "-o", "json", str(file)]) == 0

    graph = json.loads(capsys.readouterr().out)
    assert [node["name"] for node in graph["nodes"]] == ["fetch", "report"]
    assert [(edge["source"], edge["target"]) for edge in graph["edges"]] == [("fetch", "report")]


def test_an_invalid_playbook_is_explained_on_stderr_and_not_drawn(
    file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file.write_text(BAD)

    assert main(["graph", str(file)]) == 2

    printed = capsys.readouterr()
    assert printed.out == ""
    assert "error[unknown-kind]" in printed.err


def test_a_missing_playbook_is_told_on_stderr(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["graph", str(tmp_path / "none.yaml")]) == 2

    assert "error[unreadable]" in capsys.readouterr().err
