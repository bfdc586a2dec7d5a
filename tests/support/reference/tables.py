"""Tables of Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table; what would end a cell is escaped."""
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    lines += ["| " + " | ".join(_cell(text) for text in row) + " |" for row in rows]
    return "\n".join(lines)


def code(text: str) -> str:
    """Return a text as code, or nothing."""
    return f"`{text}`" if text else ""


def _cell(text: str) -> str:
    return " ".join(text.replace("|", "\\|").split())
