"""The comment at the head of every example: what it shows, what it needs, how it is run, and how it ends."""

from __future__ import annotations

import json
import re
import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.support.repository import ROOT


@dataclass(frozen=True)
class Header:
    """What the comment at the head of an example says."""

    shows: str
    run: str
    ends: str
    needs: str

    @property
    def words(self) -> list[str]:
        """Return the command after `redrive run`, with files where the repository has them."""
        _, command, *rest = shlex.split(self.run)
        assert command == "run"
        return [str(ROOT / word) if word.startswith("examples/") else word for word in rest]

    @property
    def result(self) -> Any:
        """Return the result that is promised."""
        return json.JSONDecoder().raw_decode(self.ends.removeprefix("completed with "))[0]


def examples() -> list[Path]:
    """Return every example, but for tests and plug-ins."""
    found = (ROOT / "examples").rglob("*.yaml")
    return sorted(path for path in found if path.parent.name not in ("tests", "plugin"))


def header_of(path: Path) -> Header:
    """Return what the head of an example says."""
    lines = path.read_text(encoding="utf-8").splitlines()
    comment = "\n".join(line[2:] for line in lines[: next(i for i, line in enumerate(lines) if line[:1] != "#")])
    parts = {
        name: " ".join(found[1].split()) if (found := re.search(rf"^{name}:(.*(?:\n {{7}}.*)*)", comment, re.M)) else ""
        for name in ("Shows", "Run", "Ends", "Needs")
    }
    return Header(parts["Shows"], parts["Run"], parts["Ends"], parts["Needs"])
