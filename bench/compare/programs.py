"""The processes of a peer: workers and servers that end with us, and one that submits what it is asked to."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from shared.runtime.guarded import Guarded

SCRIPTS = Path(__file__).with_name("peers")
END_WITHIN_S = 10.0


class Programs:
    """Starts the programs of one peer, each with its log in a folder."""

    def __init__(self, bin_folder: Path, environment: Mapping[str, str], folder: Path) -> None:
        self._bin = bin_folder
        self._folder = folder
        # Nothing of the caller's surroundings reaches a peer: no proxies, no settings of its own.
        self._environment = {
            "PATH": f"{bin_folder}{os.pathsep}{os.environ['PATH']}",
            "HOME": str(folder),
            "LANG": "C.UTF-8",
            "PYTHONUNBUFFERED": "1",
            **environment,
        }
        self._started: list[Guarded] = []

    def start(self, name: str, command: Sequence[str], **more: str) -> Guarded:
        """Start a program that runs until it is ended."""
        number = len(self._started)
        program = Guarded(
            [str(self._bin / command[0]), *command[1:]],
            environment=self._environment | more,
            cwd=SCRIPTS,
            log=self._folder / f"{name}-{number}.log",
            pid_file=self._folder / f"{name}-{number}.pid",
        )
        self._started.append(program)
        return program

    @contextmanager
    def submitter(self, script: str) -> Iterator[Submitter]:
        """Give a script that waits for lines; it is ended afterwards."""
        found = Submitter([str(self._bin / "python"), script], self._environment, self._folder / f"{script}.log")
        try:
            yield found
        finally:
            found.close()

    def end(self) -> None:
        """End whatever still runs."""
        for program in self._started:
            program.kill()


class Submitter:
    """A process that submits what a line asks for and answers with a line when that is done."""

    def __init__(self, command: Sequence[str], environment: Mapping[str, str], log: Path) -> None:
        self._log = log
        with log.open("ab") as out:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=out,
                cwd=SCRIPTS,
                env=dict(environment),
                text=True,
                start_new_session=True,
            )

    def ask(self, what: str, count: int) -> None:
        """Have so many executions submitted."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{what} {count}\n")
        self._process.stdin.flush()
        if not self._process.stdout.readline():
            raise RuntimeError(f"{what} was not submitted:\n{self._log.read_text(errors='replace')[-3000:]}")

    def close(self) -> None:
        """End the process."""
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait(END_WITHIN_S)
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                with suppress(OSError):
                    pipe.close()
