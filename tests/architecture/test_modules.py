"""How every module begins."""

import ast
from pathlib import Path

from tests.support.repository import CODE, modules, shown


def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def test_every_module_opens_with_a_docstring() -> None:
    silent = [shown(path) for path in modules(*CODE) if not ast.get_docstring(parsed(path))]

    assert silent == []


def test_a_package_file_holds_nothing_but_its_docstring() -> None:
    busy = [shown(path) for path in modules(*CODE) if path.name == "__init__.py" and len(parsed(path).body) > 1]

    assert busy == []


def test_every_folder_of_code_is_a_package() -> None:
    folders = {path.parent for path in modules(*CODE)}

    assert [shown(folder) for folder in sorted(folders) if not (folder / "__init__.py").is_file()] == []
