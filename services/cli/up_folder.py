"""The folder of a system that runs in the background: who holds it, what it says about itself, how it is ended."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import signal
import time
from pathlib import Path
from typing import Any

from services.cli.data_folder import LOCK
from shared.errors import ConflictError, RejectedError

DEFAULT_FOLDER = ".redrive/up"
STATE = "up.json"
LOG = "up.log"
LOOK_AGAIN_S = 0.1


def prepare(folder: Path) -> None:
    """Make the folder, and the one above it so that `redrive dev` takes that for its own; raises RejectedError."""
    above = folder.absolute().parent
    if above.name == Path(DEFAULT_FOLDER).parent.name and not above.exists():
        above.mkdir()
        (above / LOCK).touch()
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as problem:
        raise RejectedError(f"{folder} cannot be used: {problem.strerror}") from None
    if not (folder / LOCK).exists():
        if any(folder.iterdir()):
            raise RejectedError(f"{folder} holds other things; name an empty folder, or one that redrive made")
        (folder / LOCK).touch()


def write_state(folder: Path, **facts: Any) -> None:
    """Say how the system is, as a whole, for `redrive up` and people to read."""
    draft = folder / f"{STATE}.new"
    draft.write_text(json.dumps({"pid": os.getpid(), **facts}, indent=2) + "\n", encoding="utf-8")
    draft.replace(folder / STATE)


def read_state(folder: Path) -> dict[str, Any]:
    """Return what the system said last; nothing, if it said nothing."""
    try:
        found: dict[str, Any] = json.loads((folder / STATE).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found


def holder(folder: Path) -> dict[str, Any] | None:
    """Return who holds the folder now, which is a process that runs; nothing, if nobody does."""
    try:
        with (folder / LOCK).open("r+", encoding="utf-8") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                found: dict[str, Any] = json.loads(lock.read() or "{}")
                return found
    except (FileNotFoundError, ValueError):
        pass
    return None


def end(folder: Path, *, within_s: float) -> bool:
    """Ask the holder to end and wait for it; say whether there was one. Raises ConflictError, TimeoutError."""
    found = holder(folder)
    if found is None:
        return False
    if found.get("command") != "up" or not isinstance(found.get("pid"), int):
        raise ConflictError(f"{folder} is in use by 'redrive {found.get('command')}', which this does not stop")
    with contextlib.suppress(ProcessLookupError):
        os.kill(found["pid"], signal.SIGTERM)
    deadline = time.monotonic() + within_s
    while holder(folder) is not None:
        if time.monotonic() > deadline:
            raise TimeoutError(f"process {found['pid']} did not end within {within_s:g} s; see {folder / LOG}")
        time.sleep(LOOK_AGAIN_S)
    return True
