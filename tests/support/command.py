"""The `redrive` command as a shell sees it: a process with its own temporary folder and cache."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from tests.support.postgres import make_folder
from tests.support.repository import ROOT

WITHIN_S = 100.0


@dataclass(frozen=True)
class Place:
    """A folder for what commands leave behind, which should be nothing, and for what they cache."""

    folder: Path
    more: dict[str, str] = field(default_factory=dict)

    @property
    def temporary(self) -> Path:
        """Return where temporary folders go."""
        return self.folder / "t"

    def environment(self) -> dict[str, str]:
        """Return what a command is told."""
        own = {name: text for name, text in os.environ.items() if not name.startswith("REDRIVE_")}
        return {
            **own,
            "PYTHONPATH": str(ROOT),
            "TMPDIR": str(self.temporary),
            "REDRIVE_CACHE_DIR": str(self.folder / "cache"),
            **self.more,
        }

    def redrive(self, *words: str, cwd: Path | None = None, stdin: str | None = None) -> Ended:
        """Run a command to its end."""
        done = subprocess.run(
            [sys.executable, "-m", "services.cli", *words],
            env=self.environment(), cwd=cwd or self.folder, input=stdin, capture_output=True, text=True,
            timeout=WITHIN_S, check=False,
        )  # fmt: skip
        return Ended(done.returncode, done.stdout, done.stderr)

    def begin(self, *words: str, output: IO[bytes] | int = subprocess.DEVNULL) -> subprocess.Popen[bytes]:
        """Start a command that runs beside the test; what it says on stderr goes to the output."""
        return subprocess.Popen(
            [sys.executable, "-m", "services.cli", *words],
            env=self.environment(), cwd=self.folder, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
            stderr=output, start_new_session=True,
        )  # fmt: skip

    @contextmanager
    def beside(self, *words: str, log: Path) -> Iterator[subprocess.Popen[bytes]]:
        """Give a command that runs beside the test, its stderr in a file; it is ended even if the test fails."""
        with log.open("wb") as output:
            process = self.begin(*words, output=output)
        try:
            yield process
        finally:
            if process.poll() is None:
                process.kill()
            process.wait(30)

    def leftovers(self) -> list[str]:
        """Return what is left of commands that ended: files, and processes that still use the folder."""
        return [*(path.name for path in self.temporary.iterdir()), *_processes(str(self.folder))]


@dataclass(frozen=True)
class Ended:
    """How a command ended and what it said."""

    code: int
    out: str
    err: str

    @property
    def document(self) -> Any:
        """Return what it printed, which is one JSON document and nothing else."""
        return json.loads(self.out)


@contextmanager
def command_place() -> Iterator[Place]:
    """Give a folder that another user can enter, too."""
    folder = make_folder()
    place = Place(folder)
    place.temporary.mkdir()
    place.temporary.chmod(0o1777)
    try:
        yield place
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _processes(word: str) -> list[str]:
    """Return the command lines of other processes that have a word in them."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            try:
                line = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode("utf-8", "replace")
            except OSError:
                continue
            if word in line:
                found.append(line)
    return found
