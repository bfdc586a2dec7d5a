"""Bring every generated part of the documentation up to date: `python -m tests.support.reference`."""

from __future__ import annotations

from tests.support.reference.pages import current_pages


def main() -> None:
    """Write the pages whose generated parts have changed."""
    for path, text in current_pages().items():
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
