"""The commands of a page, followed in their order: cheap ones are run, others are held against what they name."""

from __future__ import annotations

import argparse
import importlib
import io
import re
import shlex
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path

import httpx
import yaml

from services.cli.__main__ import COMMANDS, SERVICES
from tests.support.documents import Command
from tests.support.repository import ROOT
from tests.support.standing import Standing

HERE = "http://127.0.0.1:8080"
RUN_FOR_REAL = ("validate", "lint", "test", "graph", "schema")
# What is neither run nor checked, and why.
NOT_CHECKED = {
    'export REDRIVE_CREDENTIAL_KEYS="$NEW,$OLD"': "a word of the shell",
    "chmod 600 credential.keys": "a word of the system",
    "redrive validate examples/plugin/greet.yaml": "tests/integration/test_plugin.py installs the package and does it",
    'pg_dump --format=custom --file=redrive.dump "$REDRIVE_DATABASE_URL"': "tests/docs/test_backup.py runs it",
    'pg_restore --clean --if-exists --dbname="$REDRIVE_DATABASE_URL" redrive.dump': "tests/docs/test_backup.py runs it",
}


@dataclass
class Stage:
    """Where the commands of one page run: a folder with the page's files, a system, a database."""

    system: Standing
    folder: Path
    database: str
    execution_id: str = ""
    printed: str = ""

    def follow(self, command: Command) -> None:
        """Do what a command says, or check that it could be done; raises AssertionError."""
        for part in re.split(r"\s+&&\s+", command.text):
            if part in NOT_CHECKED:
                continue
            words = shlex.split(re.sub(r"\s>\s*\S+$", "", part.rpartition(" | ")[2]))
            program = words[0]
            assert program in CHECKS, f"nobody knows how to check {part!r}; run it here, or say in NOT_CHECKED why not"
            CHECKS[program](self, words, command)


def _make(stage: Stage, words: list[str], command: Command) -> None:
    targets = set(re.findall(r"^([a-z][a-z-]*):(?!=)", (ROOT / "Makefile").read_text(encoding="utf-8"), re.M))
    assert {word for word in words[1:] if "=" not in word} <= targets, command.text


def _redrive(stage: Stage, words: list[str], command: Command) -> None:
    name = words[1]
    assert name in COMMANDS, command.text
    if re.search(r"[\[…]|\bFILE\b", re.sub(r"'[^']*'", "", command.text)):
        _synopsis(name, command.text)
    elif name == "run":
        _run(stage, words[1:], command)
    elif name in RUN_FOR_REAL:
        code, said = _in_process(words[1:])
        assert code == (2 if "error[" in "\n".join(command.output) else 0), said
        assert_said(command.output, said)
    elif name not in SERVICES:
        _parser(name).parse_args(words[2:])


def _run(stage: Stage, words: list[str], command: Command) -> None:
    text = [re.sub(r"postgresql://user:password@\S+", stage.database, word) for word in words]
    if "--server" in text:
        assert text[text.index("--server") + 1] == HERE, command.text
        del text[text.index("--server") : text.index("--server") + 2]
    ended = stage.system.redrive(*text, "--color", "never")
    said = ended.err + ended.out
    assert ended.code == (3 if "execution failed" in "\n".join(command.output) else 0), said
    assert_said(command.output, said)
    started = re.search(r"execution (\S+) started", ended.err)
    assert started is not None, said
    stage.execution_id, stage.printed = started[1], ended.out


def _synopsis(name: str, text: str) -> None:
    """Check that the options of a command's synopsis are there."""
    known = _parser(name)._option_string_actions
    wanted = re.findall(r"(?<=\[)(--?[a-z-]+)", text)
    assert wanted
    assert [option for option in wanted if option not in known] == [], text


def _curl(stage: Stage, words: list[str], command: Command) -> None:
    parser = argparse.ArgumentParser(exit_on_error=False)
    parser.add_argument("url")
    parser.add_argument("-s", action="store_true")
    parser.add_argument("-X", default="GET")
    parser.add_argument("-H", action="append", default=[])
    parser.add_argument("-d", "--data-binary")
    asked = parser.parse_args(words[1:])
    assert asked.url.startswith(HERE), command.text
    url = asked.url.replace(HERE, stage.system.url).replace("$ID", stage.execution_id)
    data = asked.data_binary
    content = Path(data[1:]).read_bytes() if data and data.startswith("@") else data
    headers = dict(header.split(": ", 1) for header in asked.H)
    answer = httpx.request(asked.X, url, headers=headers, content=content, timeout=60, trust_env=False)
    assert answer.is_success, f"{command.text}\n{answer.text}"
    assert_said(command.output, answer.text)


def _docker(stage: Stage, words: list[str], command: Command) -> None:
    assert words[1] == "compose", command.text
    services = yaml.safe_load((ROOT / "docker-compose.yml").read_text(encoding="utf-8"))["services"]
    assert {word.partition("=")[0] for word in words if re.fullmatch(r"\w+=\d+", word)} <= services.keys()
    assert all((ROOT / words[place + 1]).exists() for place, word in enumerate(words) if word in ("-f", "--env-file"))


def _kubectl(stage: Stage, words: list[str], command: Command) -> None:
    named = [words[place + 1] for place, word in enumerate(words) if word in ("-f", "-k")]
    assert all((ROOT / name).exists() for name in named), command.text


def _pip(stage: Stage, words: list[str], command: Command) -> None:
    assert (ROOT / words[2] / "pyproject.toml").is_file(), command.text


CHECKS = {"make": _make, "redrive": _redrive, "curl": _curl, "docker": _docker, "kubectl": _kubectl, "pip": _pip}


def assert_said(promised: tuple[str, ...], said: str) -> None:
    """Check that the lines a page shows were said in that order; times, ids and ports may differ, `…` is any lines."""
    found = iter([_plain(line) for line in said.splitlines()])
    for line in promised:
        if line.strip() not in ("", "…"):
            assert _plain(line) in found, f"not said: {line!r}\n{said}"


def _plain(line: str) -> str:
    line = re.sub(r"^\s*\d+\.\d+ s  ", "", line.rstrip())
    line = re.sub(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", "ID", line)
    return re.sub(r"127\.0\.0\.1:\d+", "HOST", line)


def _parser(name: str) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(f"redrive {name}", allow_abbrev=False, exit_on_error=False)
    if name not in SERVICES:
        importlib.import_module(f"services.cli.commands.{name}").add_arguments(parser)
    return parser


def _in_process(words: list[str]) -> tuple[int, str]:
    from services.cli.__main__ import main

    out = io.StringIO()
    with redirect_stdout(out), redirect_stderr(out):
        code = main([*words, *(["--color", "never"] if words[0] != "schema" else [])])
    return code, out.getvalue()
