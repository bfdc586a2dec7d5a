"""The way into the command line: help, versions, mistakes, and how it ends."""

import re
from importlib import metadata

import pytest

from services.cli import __main__ as entry
from services.cli.__main__ import COMMANDS, main


def test_help_lists_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0

    listed = re.findall(r"^  ([a-z]+)  +\S", capsys.readouterr().out, re.M)
    assert set(COMMANDS) <= set(listed)


def test_the_help_command_says_the_same_as_the_option(capsys: pytest.CaptureFixture[str]) -> None:
    main(["--help"])
    by_option = capsys.readouterr().out

    assert main(["help"]) == 0
    assert capsys.readouterr().out == by_option


@pytest.mark.parametrize("command", [name for name in COMMANDS if name != "help"])
def test_help_on_a_command_is_its_own_help(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["help", command]) == 0

    assert capsys.readouterr().out.startswith(f"usage: redrive {command} ")


def test_without_a_command_help_goes_to_stderr_and_the_exit_code_says_usage(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main([]) == 2

    printed = capsys.readouterr()
    assert printed.out == ""
    assert "commands:" in printed.err


def test_the_version_is_that_of_the_installed_distribution(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0

    assert capsys.readouterr().out == f"redrive {metadata.version('redrive')}\n"


def test_a_command_that_is_nearly_right_is_suggested(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["valdate", "x.yaml"]) == 2

    printed = capsys.readouterr()
    assert printed.out == ""
    assert "unknown command 'valdate'; did you mean 'validate'?" in printed.err


def test_a_command_near_to_nothing_gets_the_list_of_commands(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["zzz"]) == 2

    said = capsys.readouterr().err
    assert set(COMMANDS) <= set(re.findall(r"[a-z]+", said.partition("commands: ")[2]))


def test_help_on_an_unknown_command_is_a_usage_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["help", "grap"]) == 2

    assert "did you mean 'graph'?" in capsys.readouterr().err


@pytest.mark.parametrize(
    "words", [["validate"], ["lint", "--nope", "x"], ["schema", "-o", "yaml"], ["graph"], ["--nope"]]
)
def test_wrong_usage_ends_with_two_and_names_the_usage(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(words) == 2

    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.startswith("usage: redrive")


def test_an_interrupt_ends_quietly_with_130(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(words: list[str]) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr(entry, "_dispatch", interrupted)

    assert main(["validate", "x.yaml"]) == 130
    assert capsys.readouterr() == ("", "")
