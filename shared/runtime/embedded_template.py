"""Data of a private Postgres made once and unpacked from then on: an archive for each version and schema."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

UNUSED_S = 30 * 24 * 3600.0
ABANDONED_S = 3600.0
_DRAFT = ".draft-"
_LOCK = "lock"


class DataTemplate:
    """One archive of the cache, whole or not there, that new data comes from.

    An archive, for a file takes longer to make than its few bytes to write, and data has hundreds of them.
    """

    def __init__(self, cache: Path, name: str) -> None:
        self._cache = cache
        self._place = cache / f"data-{name}.tar"

    @property
    def exists(self) -> bool:
        """Say whether there is something to copy."""
        return self._place.is_file()

    def copy_to(self, target: Path) -> bool:
        """Copy the template to where nothing is yet, and say whether that was done."""
        try:
            if not self.exists:
                return False
            with self._locked(fcntl.LOCK_SH):
                os.utime(self._place)
                if _unpacked(self._place, target):
                    return True
                self._place.unlink(missing_ok=True)  # the next data that is made takes its place
        except OSError:
            pass
        shutil.rmtree(target, ignore_errors=True)
        return False

    def keep(self, data: Path) -> None:
        """Make the data of a server that was stopped the template; what cannot be kept is made again next time."""
        draft = self._cache / f"{_DRAFT}{os.getpid()}-{time.monotonic_ns()}"
        try:
            self._cache.mkdir(mode=0o700, parents=True, exist_ok=True)
            with self._locked(fcntl.LOCK_EX):
                self._clear()
                if not self.exists and _packed(data, draft):
                    draft.rename(self._place)
        except OSError:
            pass  # a cache that cannot be written costs time and nothing else
        finally:
            draft.unlink(missing_ok=True)

    def _clear(self) -> None:
        """Remove what nobody used for long, and what was left half made."""
        now = time.time()
        for found in self._cache.iterdir():
            limit_s = ABANDONED_S if found.name.startswith(_DRAFT) else UNUSED_S
            if found.name == _LOCK or found == self._place or now - found.stat().st_mtime <= limit_s:
                continue
            if found.is_dir():
                shutil.rmtree(found, ignore_errors=True)
            else:
                found.unlink(missing_ok=True)

    @contextlib.contextmanager
    def _locked(self, how: int) -> Iterator[None]:
        """Keep others from removing what is being unpacked."""
        with (self._cache / _LOCK).open("a") as lock:
            fcntl.flock(lock, how)
            yield


def _packed(source: Path, archive: Path) -> bool:
    """Pack a folder; as in unpacking, the system's own program leaves our process its time."""
    return source.is_dir() and _done("-cf", str(archive), "-C", str(source), ".")


def _unpacked(archive: Path, target: Path) -> bool:
    """Unpack a folder with owners and modes, and say whether that is all of it."""
    target.mkdir(mode=0o700)
    return _done("-xpf", str(archive), "-C", str(target)) and (target / "PG_VERSION").is_file()


def _done(*arguments: str) -> bool:
    command = ["tar", "--numeric-owner", *arguments]
    return subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, check=False).returncode == 0
