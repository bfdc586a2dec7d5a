"""Find, in the text of a module, what would make its functions depend on more than their arguments."""

import ast
from collections.abc import Iterator
from fnmatch import fnmatchcase

FORBIDDEN = (
    "asyncio.*",
    "datetime.date.today",
    "datetime.datetime.now",
    "datetime.datetime.today",
    "datetime.datetime.utcnow",
    "io.open*",
    "io.FileIO",
    "locale.*",
    "os.*",
    "pathlib.*",
    "random.*",
    "secrets.*",
    "socket.*",
    "subprocess.*",
    "sys.argv",
    "sys.std*",
    "time.*",
    "urllib.request.*",
    "uuid.getnode",
    "uuid.uuid1",
    "uuid.uuid4",
)
FORBIDDEN_BUILTINS = frozenset({"breakpoint", "input", "open", "print"})


def effects(source: str) -> list[tuple[int, str]]:
    """Return line and name of every clock, chance, file, process or network that the source reaches."""
    tree = ast.parse(source)
    origins = dict(_imported_names(tree))
    found = {(line, name) for line, name in _names_used(tree, origins) if _is_forbidden(name)}
    return sorted(found)


def _imported_names(tree: ast.Module) -> Iterator[tuple[str, str]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                root = alias.name.partition(".")[0]
                yield (alias.asname, alias.name) if alias.asname else (root, root)
        elif isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                yield alias.asname or alias.name, f"{node.module}.{alias.name}"


def _names_used(tree: ast.Module, origins: dict[str, str]) -> Iterator[tuple[int, str]]:
    for node in ast.walk(tree):
        match node:
            case ast.Import():
                yield from ((node.lineno, f"{alias.name}.*") for alias in node.names)
            case ast.ImportFrom(module=str(module)):
                yield from ((node.lineno, f"{module}.{alias.name}") for alias in node.names)
            case ast.Call(func=ast.Name(id=name)) if name not in origins:
                yield node.lineno, f"builtins.{name}"
            case ast.Attribute():
                if dotted := _dotted(node, origins):
                    yield node.lineno, dotted


def _dotted(node: ast.expr, origins: dict[str, str]) -> str | None:
    match node:
        case ast.Name(id=name):
            return origins.get(name)
        case ast.Attribute(value=value, attr=attr):
            owner = _dotted(value, origins)
            return f"{owner}.{attr}" if owner else None
        case _:
            return None


def _is_forbidden(name: str) -> bool:
    module, _, last = name.rpartition(".")
    if module == "builtins":
        return last in FORBIDDEN_BUILTINS
    return any(fnmatchcase(name, pattern) for pattern in FORBIDDEN)
