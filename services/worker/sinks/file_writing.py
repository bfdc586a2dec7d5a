"""Ways to bring bytes into a file so that a crash leaves all of a write or nothing of it."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterable
from pathlib import Path

from services.worker.sinks.file_journal import Begun, Journal
from services.worker.sinks.file_turns import Stop
from services.worker.sinks.port import SinkError
from shared.runtime.crashpoints import crash_point

NEWLINE = b"\n"
_FLAGS = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC


def append(journal: Journal, target: Path, identity: str, rows: int, pieces: Iterable[bytes], stop: Stop) -> None:
    """Add pieces to the end of a file, or leave it as it was."""
    check_regular(target)
    is_new = not target.exists()
    handle = os.open(target, _FLAGS, 0o666)
    try:
        size = os.lseek(handle, 0, os.SEEK_END)
        journal.begin(Begun(identity, rows, size=size))
        try:
            if not _ends_line(handle, size):
                _write(handle, NEWLINE)
            for piece in pieces:
                stop.check()
                _write(handle, piece)
                crash_point("file_sink.after_piece")
            os.fsync(handle)
        except BaseException:
            journal.undo()
            raise
    finally:
        os.close(handle)
    if is_new:
        sync_folder(target.parent)
    crash_point("file_sink.after_append")
    journal.confirm(identity, rows)


def swap(
    journal: Journal, target: Path, identity: str, rows: int, fill: Callable[[Path], None], fresh_name: str = ""
) -> None:
    """Put a fresh file, filled by the caller, in the place of another."""
    check_regular(target)
    fresh = target.with_name(fresh_name or f".{target.name}.redrive-new")
    # One that was never announced is left over from a crash.
    fresh.unlink(missing_ok=True)
    try:
        fill(fresh)
        _settle(fresh, target)
    except BaseException:
        fresh.unlink(missing_ok=True)
        raise
    crash_point("file_sink.before_swap")
    journal.begin(Begun(identity, rows, fresh=fresh))
    crash_point("file_sink.announced_swap")
    os.replace(fresh, target)
    sync_folder(target.parent)
    crash_point("file_sink.after_swap")
    journal.confirm(identity, rows)


def fill_with(pieces: Iterable[bytes], stop: Stop) -> Callable[[Path], None]:
    """Return how a fresh file is filled with these pieces."""

    def fill(fresh: Path) -> None:
        with open(os.open(fresh, _FLAGS | os.O_EXCL, 0o666), "wb", buffering=1024 * 1024) as file:
            for piece in pieces:
                stop.check()
                file.write(piece)

    return fill


def check_regular(target: Path) -> None:
    """Raise SinkError if something other than a file is in the place of one."""
    if target.exists() and not target.is_file():
        what = "a folder" if target.is_dir() else "no ordinary file"
        raise SinkError(f"'{target.name}' is {what}")


def sync_folder(folder: Path) -> None:
    """Make sure that the names in a folder are on disk."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _settle(fresh: Path, target: Path) -> None:
    """Give the fresh file the permissions of the old one, and have it on disk."""
    handle = os.open(fresh, os.O_RDWR | os.O_NOFOLLOW)
    try:
        if target.exists():
            os.fchmod(handle, stat.S_IMODE(target.stat().st_mode))
        os.fsync(handle)
    finally:
        os.close(handle)


def _write(handle: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(handle, view) :]


def _ends_line(handle: int, size: int) -> bool:
    return size == 0 or os.pread(handle, 1, size - 1) == NEWLINE
