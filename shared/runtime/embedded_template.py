"""Data of a private Postgres made once and copied from then on: a folder of the cache for each version and schema."""

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


class DataTemplate:
    """One folder of the cache, whole or not there, that new data is copied from."""

    def __init__(self, cache: Path, name: str) -> None:
        self._cache = cache
        self._place = cache / f"data-{name}"

    @property
    def exists(self) -> bool:
        """Say whether there is something to copy."""
        return (self._place / "PG_VERSION").is_file()

    def copy_to(self, target: Path) -> bool:
        """Copy the template to where nothing is yet, and say whether that was done."""
        try:
            if not self.exists:
                return False
            with self._locked(fcntl.LOCK_SH):
                os.utime(self._place)
                return self.exists and _copied(self._place, target)
        except OSError:
            return False

    def keep(self, data: Path) -> None:
        """Make the data of a server that was stopped the template; what cannot be kept is made again next time."""
        draft = self._cache / f"{_DRAFT}{os.getpid()}-{time.monotonic_ns()}"
        try:
            self._cache.mkdir(mode=0o700, parents=True, exist_ok=True)
            with self._locked(fcntl.LOCK_EX):
                self._clear()
                if not self.exists and _copied(data, draft):
                    draft.rename(self._place)
        except OSError:
            pass  # a cache that cannot be written costs time and nothing else
        finally:
            shutil.rmtree(draft, ignore_errors=True)

    def _clear(self) -> None:
        """Remove what nobody used for long, and what was left half made."""
        now = time.time()
        for found in self._cache.iterdir():
            limit_s = ABANDONED_S if found.name.startswith(_DRAFT) else UNUSED_S
            if found.is_dir() and found != self._place and now - found.stat().st_mtime > limit_s:
                shutil.rmtree(found, ignore_errors=True)

    @contextlib.contextmanager
    def _locked(self, how: int) -> Iterator[None]:
        """Keep others from removing what is being copied."""
        with (self._cache / "lock").open("a") as lock:
            fcntl.flock(lock, how)
            yield


def _copied(source: Path, target: Path) -> bool:
    """Copy a folder with owners and modes, by the system's own program, which leaves our process its time."""
    done = subprocess.run(
        ["cp", "-a", str(source), str(target)], stdin=subprocess.DEVNULL, capture_output=True, check=False
    )
    if done.returncode != 0:
        shutil.rmtree(target, ignore_errors=True)
    return done.returncode == 0
