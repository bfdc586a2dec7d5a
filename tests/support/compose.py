"""docker-compose.yml as Compose would read it: variables put in, files merged, paths of containers found here."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

from tests.support.repository import ROOT

COMPOSE = ROOT / "docker-compose.yml"
EXAMPLE = ROOT / "deploy" / "env.example"
OURS = ("broker-users", "migrate", "ingest", "orchestrator", "worker")
ONCE = ("broker-users", "migrate")
RESET = object()

_VARIABLE = re.compile(r"\$\{(?P<name>\w+)(?:(?P<how>:[?-])(?P<rest>[^}]*))?\}")


class _Loader(yaml.SafeLoader):
    """Knows the tag that takes a value of an earlier file away."""


_Loader.add_constructor("!reset", lambda loader, node: RESET)


def raw(path: Path = COMPOSE) -> dict[str, Any]:
    """Return a file with its variables as they are written."""
    # What is loaded is plain data: the loader is the safe one, with a tag more.
    found: dict[str, Any] = yaml.load(path.read_text(encoding="utf-8"), _Loader)
    return found


def variables(path: Path = EXAMPLE) -> dict[str, str]:
    """Return what a file of settings sets."""
    lines = (line.strip() for line in path.read_text(encoding="utf-8").splitlines())
    return dict(line.split("=", 1) for line in lines if line and not line.startswith("#"))


def asked(node: Any) -> Iterator[tuple[str, str | None, str | None]]:
    """Yield every variable that a document asks for: its name, how it is asked, and the text that goes with that."""
    if isinstance(node, str):
        yield from ((m["name"], m["how"], m["rest"]) for m in _VARIABLE.finditer(node))
    elif isinstance(node, Mapping):
        for value in node.values():
            yield from asked(value)
    elif isinstance(node, list):
        for value in node:
            yield from asked(value)


def with_values(node: Any, values: Mapping[str, str]) -> Any:
    """Return a document with the values of its variables in their places; fails where one that must be there is not."""
    if isinstance(node, str):
        return _VARIABLE.sub(lambda match: _value(match, values), node)
    if isinstance(node, Mapping):
        return {key: with_values(value, values) for key, value in node.items()}
    return [with_values(value, values) for value in node] if isinstance(node, list) else node


def _value(match: re.Match[str], values: Mapping[str, str]) -> str:
    found = values.get(match["name"], "")
    if found or match["how"] is None:
        return found
    assert match["how"] == ":-", f"{match['name']} is not set"
    return match["rest"] or ""


def project() -> dict[str, Any]:
    """Return the system with the values of the example file."""
    found: dict[str, Any] = with_values(raw(), variables())
    return found


def merged(base: Any, over: Any) -> Any:
    """Return one document over another, as Compose merges them: maps by key, lists joined, `!reset` takes away."""
    if isinstance(base, Mapping) and isinstance(over, Mapping):
        out = {**base}
        for key, value in over.items():
            if value is RESET:
                out.pop(key, None)
            else:
                out[key] = merged(base[key], value) if key in base else value
        return out
    return [*base, *over] if isinstance(base, list) and isinstance(over, list) else over


def mounted(found: Mapping[str, Any], service: str, volumes: Path) -> dict[str, Path]:
    """Return where the paths of a container are here: its files in the repository, its volumes in a folder."""
    about = found["services"][service]
    out = {each["target"]: ROOT / found["configs"][each["source"]]["file"] for each in about.get("configs", ())}
    for volume in about.get("volumes", ()):
        source, target, *_ = volume.split(":")
        out[target] = ROOT / source if source.startswith(".") else volumes / source
    return out


def here(text: str, places: Mapping[str, Path]) -> str:
    """Return a text with the paths of a container replaced by those here."""
    for target, place in sorted(places.items(), key=lambda item: -len(item[0])):
        text = text.replace(target, str(place))
    return text


def in_order(found: Mapping[str, Any], wanted: tuple[str, ...]) -> list[str]:
    """Return services so that each comes after those it depends on."""
    out: list[str] = []

    def visit(name: str) -> None:
        for other in found["services"][name].get("depends_on", {}):
            visit(other)
        if name not in out:
            out.append(name)

    for name in wanted:
        visit(name)
    return out
