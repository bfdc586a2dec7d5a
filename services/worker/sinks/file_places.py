"""Where files may be: paths of playbooks made real, and kept inside the root if there is one."""

from __future__ import annotations

import os
from pathlib import Path


class PlaceError(ValueError):
    """A path is none, or leads to where this worker may not go."""


class Places:
    """Resolves paths against a root; a root that was set is also a fence."""

    def __init__(self, root: str | Path | None = None) -> None:
        self.base = Path(os.path.realpath(root or Path.cwd()))
        self.is_fenced = root is not None

    def of(self, path: str) -> Path:
        """Return the real path with every link followed; raises PlaceError."""
        if not path.strip() or "\0" in path:
            raise PlaceError("a path is empty, or holds a NUL character")
        try:
            os.fsencode(path)
            found = Path(os.path.realpath(self.base / path))
        except (OSError, ValueError):
            raise PlaceError("a path holds characters that no file name can have") from None
        if self.is_fenced and self.base not in found.parents:
            raise PlaceError(f"the path '{path}' leads out of the files root of this worker")
        return found
