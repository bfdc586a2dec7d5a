"""The folder that an embedded system keeps its data in: held by one process, named or temporary."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TextIO

from shared.errors import ConflictError, RejectedError

LOCK = "redrive.lock"
POSTGRES = "postgres"
TEMPORARY = "redrive-run-"
ABANDONED_S = 60.0


@dataclass(frozen=True, slots=True)
class DataFolder:
    """A folder that this process holds; what is temporary goes with it."""

    path: Path
    is_temporary: bool
    _lock: TextIO

    @property
    def postgres(self) -> Path:
        """Return where the database is."""
        return self.path / POSTGRES

    def note(self, **facts: Any) -> None:
        """Write down who holds the folder, for others to read."""
        holder = {"pid": os.getpid(), "since": datetime.now(UTC).isoformat(timespec="seconds"), **facts}
        self._lock.seek(0)
        self._lock.truncate()
        self._lock.write(json.dumps(holder))
        self._lock.flush()


@contextlib.contextmanager
def held_folder(path: Path | None, **facts: Any) -> Iterator[DataFolder]:
    """Give the folder, or a temporary one that is removed afterwards; raises ConflictError if another has it."""
    is_temporary = path is None
    if path is None:
        remove_abandoned()
        path = Path(tempfile.mkdtemp(prefix=TEMPORARY))
    else:
        path = _own(path.expanduser().absolute())
    if os.geteuid() == 0:
        path.chmod(path.stat().st_mode | 0o011)  # the database runs as someone else, who has to pass
    lock = (path / LOCK).open("a+")
    try:
        _take(lock, path)
        folder = DataFolder(path, is_temporary, lock)
        folder.note(**facts)
        yield folder
    finally:
        if is_temporary:
            remove(path)
        lock.close()


def remove_abandoned() -> None:
    """Remove temporary folders whose processes were killed before they could."""
    for path in Path(tempfile.gettempdir()).glob(f"{TEMPORARY}*"):
        with contextlib.suppress(OSError):
            found = path.lstat()
            if path.is_symlink() or found.st_uid != os.geteuid() or time.time() - found.st_mtime < ABANDONED_S:
                continue
            with (path / LOCK).open("a+") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                remove(path)


def remove(path: Path) -> None:
    """Remove a folder, and the data that a link in it leads to because the database could not enter it."""
    link = path / POSTGRES / POSTGRES
    if link.is_symlink():
        shutil.rmtree(link.resolve(), ignore_errors=True)
    shutil.rmtree(path, ignore_errors=True)


def _own(path: Path) -> Path:
    """Return a folder that is ours, made if it is not there; raises RejectedError for what belongs to others."""
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not (path / LOCK).exists() and any(path.iterdir()):
            raise RejectedError(f"{path} holds other things; name an empty folder, or one that redrive made")
    except OSError as problem:
        raise RejectedError(f"{path} cannot be used: {problem.strerror}") from None
    return path


def _take(lock: TextIO, path: Path) -> None:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        lock.seek(0)
        holder = _holder(lock.read())
        lock.close()
        raise ConflictError(f"{path} is in use by {holder}") from None


def _holder(text: str) -> str:
    try:
        found = json.loads(text)
        port = f", at port {found['port']}" if found.get("port") else ""
        return f"'redrive {found['command']}', process {found['pid']}, since {found['since']}{port}"
    except (ValueError, KeyError, TypeError, AttributeError):
        return "another process"
