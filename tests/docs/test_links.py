"""Every page can be reached, and every link leads somewhere."""

from pathlib import Path

import pytest

from tests.support.documents import anchors, links, pages
from tests.support.repository import ROOT, shown


def broken(page: Path) -> list[str]:
    """Return the links of a page that lead nowhere."""
    found = []
    for file, anchor in links(page):
        target = (page.parent / file).resolve() if file else page
        if not target.exists() or (anchor and target.suffix == ".md" and anchor not in anchors(target)):
            found.append(f"{file}#{anchor}" if anchor else file)
    return found


@pytest.mark.parametrize("page", pages(), ids=shown)
def test_every_link_leads_somewhere(page: Path) -> None:
    assert broken(page) == []


def test_a_link_that_leads_nowhere_is_seen(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("# Here\n[a](#here) [b](#there) [c](none.md) [d](page.md#nowhere) [e](https://example.org/x)\n")

    assert broken(page) == ["#there", "none.md", "page.md#nowhere"]


def test_every_page_is_reached_from_the_index() -> None:
    seen, left = set[Path](), [ROOT / "docs" / "README.md"]
    while left:
        page = left.pop()
        if page not in seen and page.is_file() and page.suffix == ".md":
            seen.add(page)
            left += [(page.parent / file).resolve() for file, _ in links(page) if file]

    mine = [page for page in pages() if page.is_relative_to(ROOT / "docs") and page.parent.name != "adr"]
    assert [shown(page) for page in mine if page not in seen] == []


def test_every_tool_and_sink_has_a_page_with_an_example() -> None:
    from shared.language.kinds import BUILT_IN

    for folder, kinds in (("tools", BUILT_IN.tools), ("sinks", BUILT_IN.sinks)):
        for kind in kinds:
            assert "```yaml\n" in (ROOT / "docs" / folder / f"{kind}.md").read_text(encoding="utf-8"), kind
