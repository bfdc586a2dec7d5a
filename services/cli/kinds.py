"""The kinds of tools and sinks that playbooks on this machine may name."""

from __future__ import annotations

import sys
from functools import cache

from shared.language.kinds import Kinds
from shared.runtime.plugins import installed_kinds


@cache
def known_kinds() -> Kinds:
    """Return the kinds that the language is checked against: built in, or brought by an installed package."""
    return installed_kinds(_complain)


def _complain(point: str, reason: str) -> None:
    print(f"redrive: warning: the plug-in '{point}' is left out: {reason}", file=sys.stderr)
