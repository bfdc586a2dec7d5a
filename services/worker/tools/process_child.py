"""What the process of a task does first: it takes its descriptors, limits and rights, then it runs code or a program.

Loaded by path into the interpreter of the forge, with nothing of ours imported.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import select
import signal
import sys
import types
from typing import Any

REPLY_FD = 3
MOST_FDS = 64
"""More descriptors than the forge ever has."""
SAME, BARE, OTHER = "same", "bare", "other"
"""Rights: those of the worker; its user without any capability; a user of its own."""

PARENT_DEATH_SIGNAL, DUMPABLE, DROP_BOUND, CHILD_SUBREAPER, NO_NEW_PRIVILEGES, AMBIENT = 1, 4, 24, 36, 38, 47
_CLEAR_ALL = 4
_CAPABILITY_VERSION = 0x20080522
_MOST_CAPABILITIES = 64
_PROBE_S = 10.0

_libc = ctypes.CDLL(None, use_errno=True) if sys.platform == "linux" else None


def prctl(option: int, value: int = 0) -> None:
    """Ask the kernel for something that only Linux knows."""
    if _libc is not None:
        _libc.prctl(option, ctypes.c_ulong(value), ctypes.c_ulong(0), ctypes.c_ulong(0), ctypes.c_ulong(0))


def run(order: dict[str, Any], fds: tuple[int, int, int, int], rights: str, parent: int, python: Any) -> None:
    """Become the process that an order asks for; never returns normally."""
    os.setsid()
    _take(fds)
    try:
        _restrict(order["limits"], counted=rights == OTHER)
        assume(rights, order["uid"])
        _live_with(parent)
        os.environ.clear()
        os.environ.update(order["env"])
        os.chdir(order["cwd"] or order["folder"])
        if order["mode"] == "exec":
            _restore_signals()
            os.execvpe(order["argv"][0], order["argv"], order["env"])
    except (OSError, ValueError) as problem:
        _say({"problem": getattr(problem, "strerror", None) or str(problem)})
        return
    _hide_the_forge()
    python.serve(REPLY_FD)


def _restore_signals() -> None:
    """Undo what the interpreter ignores for itself: programs expect to be ended by these."""
    for number in (signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(number, signal.SIG_DFL)


def assume(rights: str, uid: int) -> None:
    """Give up what the worker may do."""
    if rights == OTHER:
        os.setgroups([])
        os.setresgid(uid, uid, uid) if hasattr(os, "setresgid") else os.setgid(uid)
        os.setresuid(uid, uid, uid) if hasattr(os, "setresuid") else os.setuid(uid)
    elif rights == BARE:
        _drop_capabilities()
    os.umask(0o077)
    prctl(NO_NEW_PRIVILEGES, 1)
    # Another user is not dumpable at first, and could then not even open its own /dev/stdout.
    prctl(DUMPABLE, 1)


def possible_rights(uid: int, place: str) -> dict[str, str]:
    """Return the fewest rights with which code, and with which programs, can run with a folder in this place."""
    if uid < 0 or os.geteuid() != 0:
        return {"python": SAME, "exec": SAME}
    can = _probed(uid, place)
    return {"python": OTHER if "read" in can else BARE, "exec": OTHER if "become" in can else BARE}


def _probed(uid: int, place: str) -> set[str]:
    """Try out whether another user can be had, can be killed, and can read what this interpreter needs."""
    folder = os.path.join(place, f"redrive-probe-{os.getpid()}-{os.urandom(4).hex()}")
    os.mkdir(folder, 0o700)
    try:
        os.chown(folder, uid, uid)
    except OSError:
        os.rmdir(folder)
        return set()
    mine, its = os.pipe()
    pid = os.fork()
    if pid == 0:
        with contextlib.suppress(BaseException):
            os.write(its, _tried(folder, uid))
            signal.pause()
        os._exit(1)
    os.close(its)
    said = os.read(mine, 100) if select.select([mine], [], [], _PROBE_S)[0] else b""
    os.close(mine)
    try:
        os.kill(pid, signal.SIGKILL)
    except PermissionError:
        said = b""
    else:
        os.waitpid(pid, 0)
    os.rmdir(folder)
    return set(said.decode().split())


def _tried(folder: str, uid: int) -> bytes:
    try:
        assume(OTHER, uid)
        os.chdir(folder)
    except OSError:
        return b"nothing"
    try:
        with open(os.path.realpath(sys.executable), "rb"), open(os.__file__, "rb"):
            pass
        for place in sys.path:
            if os.path.isdir(place) or not os.access(os.path.dirname(place), os.X_OK):
                os.listdir(place)
    except OSError:
        return b"become"
    return b"become read"


def _take(fds: tuple[int, int, int, int]) -> None:
    """Put stdin, reply, stdout and stderr where they belong, and close everything else."""
    stdin, reply, stdout, stderr = (_moved(fd) for fd in fds)
    for fd, place in ((stdin, 0), (stdout, 1), (stderr, 2)):
        os.dup2(fd, place)
    os.dup2(reply, REPLY_FD, inheritable=False)
    os.closerange(REPLY_FD + 1, MOST_FDS)


def _moved(fd: int) -> int:
    """Return the descriptor out of the way of the lowest numbers."""
    import fcntl

    return fcntl.fcntl(fd, fcntl.F_DUPFD, MOST_FDS // 2)


def _restrict(limits: dict[str, int | None], *, counted: bool) -> None:
    import resource

    kinds = {
        "cpu_s": resource.RLIMIT_CPU,
        "memory": resource.RLIMIT_AS,
        "files": resource.RLIMIT_NOFILE,
        "file_size": resource.RLIMIT_FSIZE,
    }
    if counted:
        # The kernel counts by user: only for a user of its own does this limit one call.
        kinds["processes"] = resource.RLIMIT_NPROC
    _limit(resource, resource.RLIMIT_CORE, 0, 0)
    for name, kind in kinds.items():
        wanted = limits.get(name)
        if wanted is not None:
            _limit(resource, kind, wanted, wanted + 1 if name == "cpu_s" else wanted)


def _limit(resource: Any, kind: int, soft: int, hard: int) -> None:
    """Set a limit, as far as the one in force allows; a system that knows no such limit goes on without."""
    try:
        top = resource.getrlimit(kind)[1]
        if top != resource.RLIM_INFINITY:
            soft, hard = min(soft, top), min(hard, top)
        resource.setrlimit(kind, (soft, hard))
    except (OSError, ValueError):
        pass


def _drop_capabilities() -> None:
    """Let go of every privilege of the root user, for good."""
    if _libc is None:
        return
    for number in range(_MOST_CAPABILITIES):
        prctl(DROP_BOUND, number)
    prctl(AMBIENT, _CLEAR_ALL)
    header = (ctypes.c_uint32 * 2)(_CAPABILITY_VERSION, 0)
    _libc.capset(header, (ctypes.c_uint32 * 6)())


def _live_with(parent: int) -> None:
    """Ask the kernel to kill this process when the one that looks after it dies."""
    prctl(PARENT_DEATH_SIGNAL, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)


def _hide_the_forge() -> None:
    """Let code find an ordinary interpreter: no arguments, and a main module with nothing in it."""
    sys.argv[:] = [""]
    sys.modules["__main__"] = types.ModuleType("__main__")


def _say(reply: dict[str, Any]) -> None:
    data = json.dumps(reply).encode()
    with contextlib.suppress(OSError):
        os.write(REPLY_FD, len(data).to_bytes(8, "big") + data)
