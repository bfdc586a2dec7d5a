"""The kinds of tools and sinks that playbooks on this machine may name."""

from __future__ import annotations

from shared.language.kinds import BUILT_IN, Kinds


def known_kinds() -> Kinds:
    """Return the kinds that the language is checked against."""
    return BUILT_IN
