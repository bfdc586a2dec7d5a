"""The program that processes of tasks are forked from: an interpreter that is warm, clean and has nothing to hide.

Started by path, with nothing of ours imported. The worker sends five descriptors per call: a socket on which the order
comes and the end is told, stdin, a pipe for a reply, stdout and stderr. Each call gets a process that looks after it:
it adopts whatever the call leaves behind, kills it, and removes its folder. It ends the call when the socket closes, be
it because the worker says so or because the worker is gone.
"""

from __future__ import annotations

import contextlib
import gc
import importlib.util
import json
import os
import select
import shutil
import signal
import socket
import sys
import time
from typing import Any

DESCRIPTORS = 5
MOST_ORDER_BYTES = 64 * 1024 * 1024
FIRST_PAUSE_S = 0.0005
LONGEST_PAUSE_S = 0.02


def main() -> None:
    """Fork a process per call until the worker goes away."""
    control, uid = socket.socket(fileno=int(sys.argv[1])), int(sys.argv[2])
    child, python = _beside("process_child"), _beside("python_child")
    child.prctl(child.DUMPABLE, 0)
    child.prctl(child.CHILD_SUBREAPER, 1)
    rights = child.possible_rights(uid, sys.argv[3])
    wake = _wake_on_children()
    gc.collect()
    gc.freeze()
    calls = Calls()
    while True:
        ready = select.select([control.fileno(), wake], [], [])[0]
        if wake in ready:
            os.read(wake, 4096)
            calls.bury()
        if control.fileno() not in ready:
            continue
        data, fds, _, _ = socket.recv_fds(control, 1, DESCRIPTORS)
        if not data:
            return
        pid = os.fork()
        if pid == 0:
            os.close(wake)
            control.close()
            _look_after(fds, rights, child, python)
        calls.under_way.add(pid)
        for fd in fds:
            os.close(fd)


class Calls:
    """The processes that look after calls, and what one of them leaves to the forge when it is killed."""

    def __init__(self) -> None:
        self.under_way: set[int] = set()
        self._has_orphans = False

    def bury(self) -> None:
        """Take note of those that have ended, and kill what they have left behind."""
        with contextlib.suppress(ChildProcessError):
            while True:
                pid, status = os.waitpid(-1, os.WNOHANG)
                if pid == 0:
                    break
                if pid in self.under_way:
                    self.under_way.discard(pid)
                    self._has_orphans |= status != 0
        if self._has_orphans:
            families = _families()
            orphans = [pid for pid in families.get(os.getpid(), []) if pid not in self.under_way]
            self._has_orphans = bool(orphans)
            _kill([pid for orphan in orphans for pid in (orphan, *_below(orphan, families))])


def _beside(name: str) -> Any:
    """Load a module that lies beside this one, without a look at anything else there."""
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), f"{name}.py")
    spec = importlib.util.spec_from_file_location(f"redrive_{name}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _look_after(fds: list[int], rights: dict[str, str], child: Any, python: Any) -> None:
    """Run one call to its end in a process of its own, and end this one."""
    try:
        child.prctl(child.CHILD_SUBREAPER, 1)
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        with socket.socket(fileno=fds[0]) as call:
            order = _order(call)
            if order is not None:
                _serve(call, order, fds[1:], rights[order["mode"]], child, python)
        os._exit(0)
    finally:
        os._exit(1)


def _order(call: socket.socket) -> dict[str, Any] | None:
    size = int.from_bytes(_received(call, 8), "big")
    text = _received(call, size) if 0 < size <= MOST_ORDER_BYTES else b""
    return json.loads(text) if text else None


def _received(call: socket.socket, size: int) -> bytes:
    out = bytearray()
    while len(out) < size:
        piece = call.recv(min(size - len(out), 1 << 20))
        if not piece:
            return b""
        out += piece
    return bytes(out)


def _serve(call: socket.socket, order: dict[str, Any], fds: list[int], rights: str, child: Any, python: Any) -> None:
    if rights == child.OTHER:
        _hand_over(order, fds)
    me = os.getpid()
    main = os.fork()
    if main == 0:
        try:
            call.close()
            child.run(order, tuple(fds), rights, me, python)
        finally:
            os._exit(1)
    for fd in fds:
        os.close(fd)
    status = _attended(main, call)
    has_ended = status is not None
    if not has_ended:
        with contextlib.suppress(OSError):
            os.killpg(main, signal.SIGKILL)
    late = _ended(main)
    if not (has_ended and order["keep"]):
        _remove(order["folder"])
    said = {"status": status if has_ended else late, "rights": rights}
    with contextlib.suppress(OSError):
        call.sendall(json.dumps(said).encode() + b"\n")


def _hand_over(order: dict[str, Any], fds: list[int]) -> None:
    """Give the folder and the pipes to the user that the call runs as: /dev/stdout can be opened by its owner only."""
    os.chown(order["folder"], order["uid"], order["uid"])
    for fd in fds:
        with contextlib.suppress(OSError):
            os.fchown(fd, order["uid"], order["uid"])


def _attended(main: int, call: socket.socket) -> int | None:
    """Return the status of the call's process when it has ended; nothing when the worker wants it ended."""
    wake = _wake_on_children()
    while True:
        pid, status = os.waitpid(-1, os.WNOHANG)
        if pid == main:
            return status
        if pid:
            continue
        ready = select.select([call.fileno(), wake], [], [])[0]
        if call.fileno() in ready:
            return None
        os.read(wake, 4096)


def _ended(main: int) -> int | None:
    """Kill and bury everything that descends from here; return the status of the call's process if it was among it."""
    found: int | None = None
    pause_s = FIRST_PAUSE_S
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return found
        if pid:
            found = status if pid == main else found
            continue
        _kill(_below(os.getpid(), _families()))
        time.sleep(pause_s)
        pause_s = min(pause_s * 2, LONGEST_PAUSE_S)


def _families() -> dict[int, list[int]]:
    """Return the children of every process; nothing where the system does not show them."""
    out: dict[int, list[int]] = {}
    with contextlib.suppress(OSError):
        for name in os.listdir("/proc"):
            if name.isdigit():
                with contextlib.suppress(OSError, ValueError, IndexError), open(f"/proc/{name}/stat", "rb") as file:
                    parent = int(file.read().rpartition(b")")[2].split()[1])
                    out.setdefault(parent, []).append(int(name))
    return out


def _below(root: int, families: dict[int, list[int]]) -> list[int]:
    out = list(families.get(root, []))
    for pid in out:
        out.extend(families.get(pid, []))
    return out


def _kill(pids: list[int]) -> None:
    """Stop all of them before the first is killed, so that none can start another."""
    for number in (signal.SIGSTOP, signal.SIGKILL):
        for pid in pids:
            with contextlib.suppress(OSError):
                os.kill(pid, number)


def _remove(folder: str) -> None:
    if os.geteuid() != 0:
        with contextlib.suppress(OSError):
            os.chmod(folder, 0o700)
        for base, names, _ in os.walk(folder):
            for name in names:
                path = os.path.join(base, name)
                with contextlib.suppress(OSError):
                    if not os.path.islink(path):
                        os.chmod(path, 0o700)
    shutil.rmtree(folder, ignore_errors=True)


def _wake_on_children() -> int:
    """Return a descriptor that can be read when a child has ended."""
    mine, its = os.pipe()
    os.set_blocking(its, False)
    os.set_blocking(mine, False)
    signal.set_wakeup_fd(its, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda number, frame: None)
    return mine


if __name__ == "__main__":
    main()
