"""The kinds of tools and sinks that submitted playbooks may name."""

from __future__ import annotations

from functools import cache

from shared.language.kinds import Kinds
from shared.runtime.logs import Log
from shared.runtime.plugins import installed_kinds

_log = Log("redrive.ingest.kinds")


@cache
def known_kinds() -> Kinds:
    """Return the kinds that the language is checked against: built in, or brought by an installed package."""
    return installed_kinds(_complain)


def _complain(point: str, reason: str) -> None:
    _log.error("kind_not_loaded", entry_point=point, reason=reason)
