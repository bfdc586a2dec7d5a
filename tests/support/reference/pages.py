"""Pages with generated parts: between two marks stands what the code says, and nothing that a person wrote."""

from __future__ import annotations

import re
from pathlib import Path

from tests.support.example_headers import examples, header_of
from tests.support.reference import api, cli, events, language, messages, settings
from tests.support.reference.tables import code, table
from tests.support.repository import ROOT

MARKED = re.compile(r"^<!-- generated: (?P<name>.+?) -->\n(?P<text>.*?)^<!-- end -->$", re.M | re.S)
EXAMPLE = "example: "
QUOTED = "figures"
ASYNCAPI = ROOT / "docs" / "reference" / "asyncapi.yaml"


def pages() -> list[Path]:
    """Return every page: the README, the documentation, and what stands beside examples."""
    return [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")), *sorted((ROOT / "examples").rglob("*.md"))]


def current_pages() -> dict[Path, str]:
    """Return what every page with generated parts should say now, and the AsyncAPI document."""
    known = parts()
    found = {ASYNCAPI: messages.asyncapi()}
    for path in pages():
        text = path.read_text(encoding="utf-8")
        if MARKED.search(text):
            found[path] = _page(text, known)
    return found


def _page(text: str, known: dict[str, str]) -> str:
    return MARKED.sub(lambda mark: _filled(mark["name"], known), text)


def parts() -> dict[str, str]:
    """Return every generated part by its name."""
    return {
        **language.parts(),
        **events.parts(),
        **api.parts(),
        **cli.parts(),
        **messages.parts(),
        **settings.parts(),
        QUOTED: _figures(),
        "examples": _examples(),
    }


def _filled(name: str, known: dict[str, str]) -> str:
    if name.startswith(EXAMPLE):
        return _marked(name, _example(name.removeprefix(EXAMPLE)))
    if name not in known:
        raise ValueError(f"there is nothing to generate under the name {name!r}")
    return _marked(name, known[name])


def _marked(name: str, text: str) -> str:
    return f"<!-- generated: {name} -->\n\n{text}\n\n<!-- end -->"


def _example(file: str) -> str:
    return f"```yaml\n{(ROOT / 'examples' / file).read_text(encoding='utf-8')}```"


def _examples() -> str:
    """Return the list of examples, from what stands at the head of each."""
    heads = [(path.relative_to(ROOT / "examples").as_posix(), header_of(path)) for path in examples()]
    return table(
        ("example", "shows", "run"), [(f"[{name}]({name})", head.shows, code(head.run)) for name, head in heads]
    )


def _figures() -> str:
    """Return the table of figures that the README holds, for pages that quote it."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    found = re.search(r"^<!-- figures -->\n\n(.*?)\n\n<!-- end of figures -->$", text, re.M | re.S)
    return found[1] if found else ""
