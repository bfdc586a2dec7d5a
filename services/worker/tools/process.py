"""Processes for tasks: limited, each in a room of its own, and gone with all their descendants when they are over.

They are forked from a process that waits for it, the forge (see process_forge.py), so that one starts in a few
milliseconds and knows nothing of the worker nor of the one before it.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

from services.worker.tools.process_streams import Feed, Stream, Tail
from shared.runtime.logs import Log

FORGE = Path(__file__).with_name("process_forge.py")
ENVIRONMENT: Mapping[str, str] = {"PATH": "/usr/local/bin:/usr/bin:/bin", "LANG": "C.UTF-8"}
TAIL_BYTES = 4096
LEFTOVER_S = 5.0
FIRST_UID = 65000
"""The first user that processes run as when the worker is root; each that runs at a time has one of its own."""
MOST_AT_A_TIME = 500

Why = Literal["ended", "timeout", "output", "reply", "lost"]

_log = Log("redrive.worker.processes")


class CannotStartError(Exception):
    """No process can be started; the message says why."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What one call may use; None is no limit. Of memory, files and time each of its processes has its own share."""

    cpu_s: int | None = None
    memory: int | None = 1024**3
    files: int | None = 256
    file_size: int | None = 1024**3
    processes: int | None = 256
    output: int = 16 * 1024**2
    reply: int = 64 * 1024**2


@dataclass(frozen=True, slots=True)
class Order:
    """What is to run: the Python code that stdin brings, or a program; `keeps` is how much of its output is kept."""

    mode: Literal["python", "exec"]
    stdin: bytes = field(default=b"", repr=False)
    argv: Sequence[str] = ()
    env: Mapping[str, str] = field(default_factory=dict, repr=False)
    cwd: str | None = None
    keeps: int = TAIL_BYTES


@dataclass(frozen=True, slots=True)
class Ended:
    """How a process ended: by itself, or why it was ended; the code is negative for a signal, as of subprocesses."""

    why: Why
    returncode: int | None
    reply: dict[str, Any] | None
    stdout: Tail
    stderr: Tail


class Processes:
    """Starts processes, only so many at a time."""

    def __init__(
        self, interpreter: str = sys.executable, *, at_a_time: int = 64, first_uid: int | None = FIRST_UID
    ) -> None:
        at_a_time = min(at_a_time, MOST_AT_A_TIME)
        self._forge = Forge(interpreter, -1 if first_uid is None else first_uid)
        self._first_uid = first_uid
        self._places = list(range(at_a_time))
        self._few = asyncio.Semaphore(at_a_time)

    def warm_up(self) -> None:
        """Start the forge, so that the first call finds it warm; raises CannotStartError."""
        self._forge.start()

    async def run(self, order: Order, limits: Limits, timeout_s: float | None) -> Ended:
        """Run one process to its end and leave nothing of it behind; raises CannotStartError."""
        async with self.room() as room:
            return await room.run(order, limits, timeout_s)

    @asynccontextmanager
    async def room(self) -> AsyncIterator[Room]:
        """Give a folder, and a user if that is possible, that nobody else has meanwhile."""
        async with self._few:
            folder = tempfile.mkdtemp(prefix="redrive-")  # at once: a folder that nobody waits for is not removed
            place = self._places.pop()
            try:
                yield Room(self._forge, folder, -1 if self._first_uid is None else self._first_uid + place)
            finally:
                self._places.append(place)
                await asyncio.to_thread(shutil.rmtree, folder, ignore_errors=True)

    async def close(self) -> None:
        """End the forge."""
        await asyncio.to_thread(self._forge.stop)


class Forge:
    """The process that others are forked from; started when it is needed, and again should it have died."""

    def __init__(self, interpreter: str, uid: int) -> None:
        self.interpreter = interpreter
        self._uid = uid
        self._process: subprocess.Popen[bytes] | None = None
        self._control: socket.socket | None = None

    def start(self) -> socket.socket:
        """Return the way to a forge that runs."""
        if self._control is not None and self._process is not None and self._process.poll() is None:
            return self._control
        self.stop()
        ours, its = socket.socketpair()
        arguments = [str(its.fileno()), str(self._uid), tempfile.gettempdir()]
        command = [self.interpreter, "-I", "-X", "utf8", str(FORGE), *arguments]
        try:
            self._process = subprocess.Popen(
                command, pass_fds=(its.fileno(),), env=dict(ENVIRONMENT), cwd="/", start_new_session=True,
                stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
            )  # fmt: skip
        except OSError as problem:
            ours.close()
            raise CannotStartError(f"{self.interpreter} cannot be started: {problem.strerror}") from None
        finally:
            its.close()
        ours.settimeout(LEFTOVER_S)
        self._control = ours
        return ours

    def send(self, fds: Sequence[int]) -> None:
        """Have a process forked that uses these descriptors."""
        try:
            socket.send_fds(self.start(), [b"."], fds)
        except OSError:
            self.stop()
            try:
                socket.send_fds(self.start(), [b"."], fds)
            except OSError as problem:
                raise CannotStartError(f"{self.interpreter} takes no work: {problem.strerror}") from None

    def stop(self) -> None:
        """Let the forge end; calls that still run end by themselves."""
        if self._control is not None:
            self._control.close()
            self._control = None
        if self._process is not None:
            try:
                self._process.wait(LEFTOVER_S)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
            self._process = None


class Room:
    """A folder and a user for the processes of one call, which run one after the other."""

    _has_warned = False

    def __init__(self, forge: Forge, folder: str, uid: int) -> None:
        self._forge = forge
        self._folder = folder
        self._uid = uid

    async def run(self, order: Order, limits: Limits, timeout_s: float | None, *, is_last: bool = True) -> Ended:
        """Run one process to its end; raises CannotStartError."""
        call = await _Call.begun(self._forge, order, limits)
        own = {"HOME": self._folder, "TMPDIR": self._folder}
        told = {
            "mode": order.mode,
            "argv": list(order.argv),
            "env": {**ENVIRONMENT, **own, **order.env},
            "cwd": order.cwd,
            "folder": self._folder,
            "uid": self._uid,
            "keep": not is_last,
            "limits": asdict(limits),
        }
        try:
            why = await call.over(told, timeout_s)
        finally:
            await call.end()
        self._warn(call.rights, order.mode)
        if why == "ended" and call.returncode is None:
            why = "lost"
        return Ended(why, call.returncode, _reply(call.reply.data), call.stdout, call.stderr)

    def _warn(self, rights: str | None, mode: str) -> None:
        if rights == "bare" and not Room._has_warned:
            Room._has_warned = True
            reason = "no other user can be had, or none that can read the interpreter and its packages"
            _log.warning("code_runs_as_root", mode=mode, interpreter=self._forge.interpreter, reason=reason)


class _Call:
    """One process, seen from the worker: what it is sent, what it says, and the socket that tells of its end."""

    def __init__(self, order: Order, limits: Limits) -> None:
        self.stdout, self.stderr, self.reply = Tail(order.keeps), Tail(order.keeps), Tail(limits.reply + 9)
        self.returncode: int | None = None
        self.rights: str | None = None
        self._limits = limits
        self._over: asyncio.Future[Why] = asyncio.get_running_loop().create_future()
        self._streams: list[Stream] = []
        self._stdin: Feed
        self._reader: asyncio.StreamReader
        self._writer: asyncio.StreamWriter
        self._telling: asyncio.Task[None]

    @classmethod
    async def begun(cls, forge: Forge, order: Order, limits: Limits) -> _Call:
        """Have a process forked and connect everything to it."""
        self = cls(order, limits)
        ours, its = socket.socketpair()
        stdin, reply, stdout, stderr = (os.pipe() for _ in range(4))
        theirs = [its.detach(), stdin[0], reply[1], stdout[1], stderr[1]]
        try:
            forge.send(theirs)
        except BaseException:
            ours.close()
            theirs += [stdin[1], reply[0], stdout[0], stderr[0]]
            raise
        finally:
            for fd in theirs:
                os.close(fd)
        await self._connect(ours, [stdin[1], reply[0], stdout[0], stderr[0]], order.stdin)
        return self

    async def _connect(self, ours: socket.socket, fds: list[int], stdin: bytes) -> None:
        """Have the loop listen to everything; if that is not to be, let go of all of it, which ends the process."""
        try:
            self._reader, self._writer = await asyncio.open_connection(sock=ours)
            self._stdin = await Feed.to(fds.pop(0), stdin)
            for tail in (self.reply, self.stdout, self.stderr):
                self._streams.append(await Stream.of(fds.pop(0), tail, self._judge))
        except BaseException:
            ours.close()
            for fd in fds:
                os.close(fd)
            for stream in self._streams:
                stream.close()
            raise

    async def over(self, told: dict[str, Any], timeout_s: float | None) -> Why:
        """Say what is to run, and return why it is over; it may still have to be ended."""
        order = json.dumps(told).encode()
        self._writer.write(len(order).to_bytes(8, "big") + order)
        self._telling = asyncio.create_task(self._hear_the_end())
        either: list[asyncio.Future[Any]] = [self._telling, self._over]
        await asyncio.wait(either, timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED)
        if self._over.done():
            return self._over.result()
        return "ended" if self._telling.done() else "timeout"

    async def end(self) -> None:
        """Have everything killed that is left of it, and hear the rest of what it said."""
        with suppress(OSError):
            self._writer.write_eof()
        reading = [stream.ended for stream in self._streams]
        _, late = await asyncio.wait({self._telling, *reading}, timeout=LEFTOVER_S)
        if late:
            _log.warning("process_not_ended", waited_s=LEFTOVER_S)
        self._telling.cancel()
        for stream in self._streams:
            stream.close()
        self._stdin.close()
        self._writer.close()

    async def _hear_the_end(self) -> None:
        with suppress(OSError, ValueError, KeyError, TypeError):
            said = json.loads(await self._reader.readline())
            self.rights = said["rights"]
            self.returncode = os.waitstatus_to_exitcode(said["status"])

    def _judge(self) -> None:
        if self._over.done():
            return
        if self.stdout.size + self.stderr.size > self._limits.output:
            self._over.set_result("output")
        elif self.reply.size > self._limits.reply + 8:
            self._over.set_result("reply")


def _reply(data: bytes) -> dict[str, Any] | None:
    """Return what a process replied, if it did so to the end: a length of eight bytes and JSON."""
    size = int.from_bytes(data[:8], "big")
    if len(data) < 8 or len(data) != 8 + size:
        return None
    try:
        found = json.loads(data[8:])
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None
