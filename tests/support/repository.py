"""The repository as tests see it: its root, its settings, its files."""

import subprocess
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
CODE = ("services", "shared", "bench", "tests")


def project() -> dict[str, Any]:
    """Return pyproject.toml as a mapping."""
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def pure_packages() -> list[str]:
    """Return the packages that the import contract calls pure."""
    contracts = project()["tool"]["importlinter"]["contracts"]
    (pure,) = (contract for contract in contracts if contract["id"] == "pure-core")
    packages: list[str] = pure["source_modules"]
    return packages


def modules(*packages: str) -> Iterator[Path]:
    """Yield every Python file of the given dotted packages or modules."""
    for package in packages:
        place = ROOT.joinpath(*package.split("."))
        yield from sorted(place.rglob("*.py")) if place.is_dir() else [place.with_suffix(".py")]


def versioned_files() -> list[Path]:
    """Return the files that are, or are about to be, under version control; none outside a git checkout."""
    if not (ROOT / ".git").exists():
        return []
    listing = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    )
    return [path for name in listing.stdout.split("\0") if name and (path := ROOT / name).is_file()]


def shown(path: Path) -> str:
    """Return the path as people name it, relative to the root."""
    return path.relative_to(ROOT).as_posix()
