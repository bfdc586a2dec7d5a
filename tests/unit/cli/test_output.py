"""When there are colours, and what text is safe to print."""

import io
import sys
from pathlib import Path

import pytest

from services.cli.output import called_as, printable, wants_colour


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("choice", "environ", "wanted"),
    [
        ("auto", {"TERM": "xterm"}, True),
        ("auto", {}, True),
        ("auto", {"TERM": "dumb"}, False),
        ("auto", {"TERM": "xterm", "NO_COLOR": "1"}, False),
        ("auto", {"TERM": "xterm", "NO_COLOR": ""}, True),
        ("never", {"TERM": "xterm"}, False),
        ("always", {"TERM": "dumb", "NO_COLOR": "1"}, True),
    ],
)
def test_a_terminal_gets_colours_unless_someone_is_against_it(
    choice: str, environ: dict[str, str], wanted: bool
) -> None:
    assert wants_colour(choice, Terminal(), environ) is wanted


@pytest.mark.parametrize(("choice", "wanted"), [("auto", False), ("never", False), ("always", True)])
def test_a_pipe_gets_colours_only_on_demand(choice: str, wanted: bool) -> None:
    assert wants_colour(choice, io.StringIO(), {"TERM": "xterm"}) is wanted


def test_a_closed_stream_gets_no_colours() -> None:
    assert wants_colour("auto", None, {}) is False


def test_what_a_terminal_acts_on_is_replaced_one_for_one() -> None:
    assert printable("a\x1b[31mb\nc\u202ed\udc80 é") == "a·[31mb·c·d· é"


def test_a_program_that_the_path_does_not_lead_to_is_called_by_its_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / ".venv" / "bin" / "redrive"
    program.parent.mkdir(parents=True)
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", "/nowhere")

    for word, called in (
        (".venv/bin/redrive", ".venv/bin/redrive"),
        (str(program), ".venv/bin/redrive"),
        ("/elsewhere/pytest", "redrive"),
    ):
        monkeypatch.setattr(sys, "argv", [word])
        assert called_as() == called
    monkeypatch.setenv("PATH", str(program.parent))
    assert called_as() == "redrive"
