"""Where the migrations are, and a mark that changes with them; cheap to ask, for nothing of alembic is loaded."""

from __future__ import annotations

import hashlib
from pathlib import Path

_HERE = Path(__file__).resolve()
# Beside the package in a checkout, inside it where it is installed.
_PLACES = (_HERE.parents[2] / "alembic", _HERE.parent / "migrations")


def migrations_folder() -> Path:
    """Return the folder that alembic works on."""
    return next((path for path in _PLACES if (path / "env.py").is_file()), _PLACES[0])


def migrations_mark() -> str:
    """Return a text that is the same as long as every migration is."""
    found = hashlib.sha256()
    for path in sorted((migrations_folder() / "versions").glob("*.py")):
        found.update(path.name.encode() + b"\0" + path.read_bytes())
    return found.hexdigest()[:16]
