"""The environment that the peers are installed in: outside the repository, made once for each list of versions."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

WANTED = Path(__file__).with_name("peers.txt")
INSTALL_WITHIN_S = 900.0


def peers_environment() -> Path:
    """Return the folder of the programs that peers.txt names, installing them if they are not there yet."""
    mark = hashlib.sha256(WANTED.read_bytes() + sys.version.encode()).hexdigest()[:16]
    place = Path(tempfile.gettempdir()) / f"redrive-bench-peers-{mark}"
    if not (place / "ready").exists():
        print(f"installing {WANTED.name} into {place} ...", flush=True)
        shutil.rmtree(place, ignore_errors=True)
        _run(sys.executable, "-m", "venv", str(place))
        _run(str(place / "bin" / "python"), "-m", "pip", "install", "-qq", "-r", str(WANTED))
        (place / "ready").touch()
    return place / "bin"


def pinned(name: str) -> str:
    """Return the version of a peer that is installed."""
    for line in WANTED.read_text(encoding="utf-8").splitlines():
        found, _, version = line.partition("==")
        if found == name:
            return version
    raise LookupError(name)


def _run(*command: str) -> None:
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=INSTALL_WITHIN_S)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(command)} failed:\n{done.stderr[-4000:]}")
