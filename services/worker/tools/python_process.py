"""Processes for the code of `python` tasks: one per call, limited, in a group of its own that is killed as a whole."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import shutil
import signal
import sys
import tempfile
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

CHILD = Path(__file__).with_name("python_child.py")
TAIL_BYTES = 4096
LEFTOVER_S = 1.0
ENVIRONMENT = {"PATH": "/usr/local/bin:/usr/bin:/bin", "LANG": "C.UTF-8"}


@dataclass(frozen=True, slots=True)
class Limits:
    """What one call may use; None is no limit."""

    cpu_s: int | None = None
    memory: int | None = 1024**3
    files: int | None = 256
    file_size: int | None = 1024**3
    output: int = 16 * 1024**2
    result: int = 64 * 1024**2


Why = Literal["reply", "timeout", "output", "result", "died"]


@dataclass(frozen=True, slots=True)
class Finished:
    """How a call ended: with a reply, or without one and why."""

    why: Why
    reply: dict[str, Any] | None = None
    returncode: int | None = None
    stdout: str = ""
    stderr: str = ""


class PythonProcesses:
    """Gives each call a process of its own."""

    def __init__(self, interpreter: str = sys.executable) -> None:
        self._interpreter = interpreter

    async def run(self, request: dict[str, Any], limits: Limits, timeout_s: float | None) -> Finished:
        """Run one request to its end and leave no process of it behind."""
        body = json.dumps({**request, "limits": asdict(limits)}).encode()
        folder = await asyncio.to_thread(tempfile.mkdtemp, prefix="redrive-python-")
        try:
            return await self._ran(body, limits, timeout_s, folder)
        finally:
            await asyncio.to_thread(shutil.rmtree, folder, ignore_errors=True)

    async def _ran(self, body: bytes, limits: Limits, timeout_s: float | None, folder: str) -> Finished:
        replies, write_end = os.pipe()
        try:
            process = await asyncio.create_subprocess_exec(
                self._interpreter, "-I", "-X", "utf8", str(CHILD), str(write_end),
                stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
                pass_fds=(write_end,), start_new_session=True, cwd=folder,
                env={**ENVIRONMENT, "HOME": folder, "TMPDIR": folder},
            )  # fmt: skip
        except BaseException:
            os.close(replies)
            raise
        finally:
            os.close(write_end)
        talk = _Conversation(process, limits)
        try:
            why, reply = await talk.held(body, replies, timeout_s)
        finally:
            await talk.ended()
        if why == "died" and talk.is_over_output:
            why = "output"
        return Finished(why, reply, process.returncode, talk.stdout.text, talk.stderr.text)


class _Tail:
    """The end of what a stream said, and how much it said."""

    def __init__(self) -> None:
        self._kept = b""
        self.size = 0

    def add(self, piece: bytes) -> None:
        self._kept = (self._kept + piece)[-TAIL_BYTES:]
        self.size += len(piece)

    @property
    def text(self) -> str:
        shown = self._kept.decode("utf-8", "replace")
        return f"… {shown}" if self.size > len(self._kept) else shown


class _Conversation:
    """One request, one reply, and what is printed meanwhile."""

    def __init__(self, process: asyncio.subprocess.Process, limits: Limits) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        self._process = process
        self._stdin = process.stdin
        self._limits = limits
        self.stdout, self.stderr = _Tail(), _Tail()
        self._helpers = [
            asyncio.create_task(self._listen(process.stdout, self.stdout)),
            asyncio.create_task(self._listen(process.stderr, self.stderr)),
        ]

    @property
    def is_over_output(self) -> bool:
        return self.stdout.size + self.stderr.size > self._limits.output

    async def held(self, body: bytes, replies: int, timeout_s: float | None) -> tuple[Why, dict[str, Any] | None]:
        """Send the request and return the reply, or why there is none."""
        self._helpers.append(asyncio.create_task(self._feed(len(body).to_bytes(8, "big") + body)))
        reader, close = await _reading(replies)
        try:
            async with asyncio.timeout(timeout_s):
                size = int.from_bytes(await reader.readexactly(8), "big")
                if size > self._limits.result:
                    return "result", None
                return "reply", json.loads(await reader.readexactly(size))
        except TimeoutError:
            return "timeout", None
        except (asyncio.IncompleteReadError, ValueError, RecursionError):
            return "died", None
        finally:
            close()

    async def ended(self) -> None:
        """Kill the group, wait for the process, and hear the rest of what it printed."""
        self._kill()
        await self._process.wait()
        _, late = await asyncio.wait(self._helpers, timeout=LEFTOVER_S)
        for task in late:
            task.cancel()
        await asyncio.gather(*late, return_exceptions=True)

    async def _feed(self, data: bytes) -> None:
        with contextlib.suppress(OSError):
            self._stdin.write(data)
            await self._stdin.drain()

    async def _listen(self, stream: asyncio.StreamReader, tail: _Tail) -> None:
        while piece := await stream.read(65536):
            tail.add(piece)
            if self.is_over_output:
                self._kill()

    def _kill(self) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)


async def _reading(fd: int) -> tuple[asyncio.StreamReader, Callable[[], None]]:
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader()
    transport, _ = await loop.connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(fd, "rb", buffering=0)
    )
    return reader, transport.close
