"""The repository's texts hold on any machine: they name no one's folders and no package host."""

import re
from pathlib import Path

import pytest

from tests.support.repository import shown, versioned_files

# Letters in brackets keep these patterns from matching themselves.
PACKAGE_HOST = re.compile(
    r"(?:p[y]pi|p[y]thonhosted|d[e]bian|u[b]untu|n[p]mjs|y[a]rnpkg|c[r]ates)\.(?:org|io|com|net)", re.I
)
SOMEONES_FOLDER = re.compile(r"(?<![\w.~-])/(?:w[o]rk|r[o]ot|U[s]ers|home/\w+)(?![\w-])|\.\./s[h]ared\b")


def lines_matching(pattern: re.Pattern[str]) -> list[str]:
    return [
        f"{shown(path)}:{number}: {line.strip()}"
        for path in files()
        for number, line in enumerate(text_of(path).splitlines(), start=1)
        if pattern.search(line)
    ]


def files() -> list[Path]:
    return versioned_files() or pytest.skip("not a git checkout")


def text_of(path: Path) -> str:
    return path.read_bytes().decode("utf-8", errors="replace")


def test_no_text_names_a_package_host() -> None:
    assert lines_matching(PACKAGE_HOST) == []


def test_no_text_names_a_folder_of_one_machine() -> None:
    assert lines_matching(SOMEONES_FOLDER) == []


def test_no_lock_file_is_kept_beside_the_constraints() -> None:
    locks = {"uv.lock", "poetry.lock", "pdm.lock", "Pipfile.lock", "pylock.toml"}

    assert [shown(path) for path in files() if path.name in locks] == []
