"""A process that ends with the one that started it, however that ends."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

# The process is asked to end when its standard input here is closed: by us, or because we are gone.
_GUARD = """
exec 3<&0 </dev/null
note=$1; shift
"$@" 3<&- &
child=$!
echo $child > "$note"
( cat <&3 >/dev/null; kill -TERM $child ) 2>/dev/null &
watch=$!
wait $child
code=$?
kill $watch 2>/dev/null
rm -f "$note"
exit $code
"""


class Guarded:
    """One command in the background: its output in a file, its number in another while it runs."""

    def __init__(
        self, command: Sequence[str], *, environment: Mapping[str, str], cwd: Path, log: Path, pid_file: Path
    ) -> None:
        self.log = log
        self._pid_file = pid_file
        with log.open("ab") as out:
            self._process = subprocess.Popen(
                ["/bin/sh", "-c", _GUARD, "redrive-guard", str(pid_file), *command],
                stdin=subprocess.PIPE, stdout=out, stderr=out, cwd=cwd, env=dict(environment), start_new_session=True,
            )  # fmt: skip

    @property
    def exit_code(self) -> int | None:
        """Return how the command ended, if it did."""
        return self._process.poll()

    @property
    def pid(self) -> int | None:
        """Return the number of the command itself, once it is known."""
        try:
            return int(self._pid_file.read_text(encoding="ascii"))
        except (OSError, ValueError):
            return None

    def ask_to_stop(self) -> None:
        """Send it SIGTERM, and do not wait."""
        if self._process.stdin is not None:
            self._process.stdin.close()

    def stop(self, *, within_s: float) -> int:
        """End the command and everything it started; return its exit code."""
        self.ask_to_stop()
        try:
            self._process.wait(within_s)
        except subprocess.TimeoutExpired:
            self.kill()
        return self._process.returncode

    def kill(self) -> None:
        """End the command and everything it started as a power cut would."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        self._pid_file.unlink(missing_ok=True)
        self.ask_to_stop()

    def said(self, characters: int = 4000) -> str:
        """Return the end of its output."""
        try:
            return self.log.read_text(encoding="utf-8", errors="replace")[-characters:]
        except OSError:
            return ""
