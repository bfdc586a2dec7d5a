"""Pages of documentation as tests read them: blocks, commands with the output they promise, links and headings."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.support.repository import ROOT

FENCE = re.compile(r"^(?P<indent> *)```(?P<kind>\w*)\n(?P<text>.*?)^(?P=indent)```$", re.M | re.S)
LINK = re.compile(r"(?<!!)\[[^\]\n]*\]\((?P<target>[^)\s]+)\)")
# What begins a command where a block does not say that it holds commands.
PROGRAMS = ("redrive", "make", "curl", "docker", "kubectl", "pip", "pg_dump", "psql")


@dataclass(frozen=True)
class Block:
    """A fenced block: what it is said to be, its text, and the line it begins in."""

    kind: str
    text: str
    line: int

    @property
    def file(self) -> str | None:
        """Return the name of the file that the first line says it is."""
        found = re.match(r"# (\S+\.ya?ml)\n", self.text)
        return found[1] if found else None


@dataclass(frozen=True)
class Command:
    """A command line, and the lines that the page shows below it."""

    text: str
    output: tuple[str, ...]
    line: int


def pages() -> list[Path]:
    """Return the README, the documentation, what stands beside examples, and the page for contributors."""
    found = [path for folder in ("docs", "examples") for path in sorted((ROOT / folder).rglob("*.md"))]
    return [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *found]


def blocks(path: Path) -> list[Block]:
    """Return the fenced blocks of a page."""
    text = path.read_text(encoding="utf-8")
    return [
        Block(mark["kind"], _dedented(mark["text"], mark["indent"]), text.count("\n", 0, mark.start()) + 1)
        for mark in FENCE.finditer(text)
    ]


def commands(block: Block) -> list[Command]:
    """Return the commands of a block: after `$ ` each, every line of a shell script, or what begins with a program."""
    found: list[Command] = []
    marked = block.kind == "console" or re.search(r"^\$ ", block.text, re.M)
    for number, line in _joined(block):
        if marked and line.startswith("$ "):
            found.append(Command(_uncommented(line[2:]), (), number))
        elif marked and found:
            found[-1] = Command(found[-1].text, (*found[-1].output, line), found[-1].line)
        elif _is_command(block.kind, line):
            found.append(Command(_uncommented(line), (), number))
    return found


def _is_command(kind: str, line: str) -> bool:
    if kind in ("sh", "bash", "shell"):
        return bool(line.strip()) and not line.startswith("#")
    return not kind and line.split(" ")[0] in PROGRAMS


def links(path: Path) -> Iterator[tuple[str, str]]:
    """Give file and anchor of every link of a page to another place of the repository."""
    text = FENCE.sub("", path.read_text(encoding="utf-8"))
    for mark in LINK.finditer(text):
        target = mark["target"]
        if not re.match(r"[a-z]+:", target):
            file, _, anchor = target.partition("#")
            yield file, anchor


def anchors(path: Path) -> set[str]:
    """Return what the headings of a page can be linked to by."""
    text = FENCE.sub("", path.read_text(encoding="utf-8"))
    return {_slug(heading) for heading in re.findall(r"^#+ (.+)$", text, re.M)}


def _slug(heading: str) -> str:
    return re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-")


def _dedented(text: str, indent: str) -> str:
    return "".join(line.removeprefix(indent) for line in text.splitlines(keepends=True))


def _joined(block: Block) -> Iterator[tuple[int, str]]:
    """Give the lines of a block, those that end with a backslash together with the next."""
    held, first = "", 0
    for number, line in enumerate(block.text.splitlines(), start=block.line + 1):
        first = first if held else number
        if line.endswith("\\"):
            held += line[:-1]
            continue
        yield first, held + line
        held = ""


def _uncommented(line: str) -> str:
    return re.sub(r"\s+#\s.*$", "", line).strip()
