"""The sinks of a worker, by kind."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from services.worker.late import Late
from services.worker.sinks.port import Sink


class Sinks:
    """Sinks by their kind, each made once."""

    def __init__(self, sinks: Iterable[Sink | Late[Sink]] = ()) -> None:
        self._sinks: Mapping[str, Sink | Late[Sink]] = {sink.kind: sink for sink in sinks}

    @property
    def kinds(self) -> tuple[str, ...]:
        """Return the kinds that can be written to here."""
        return tuple(sorted(self._sinks))

    def find(self, kind: str) -> Sink | None:
        """Return the sink of a kind, or nothing."""
        found = self._sinks.get(kind)
        return found.get() if isinstance(found, Late) else found

    async def close(self) -> None:
        """Close every sink that was made."""
        for found in self._sinks.values():
            sink = found.made if isinstance(found, Late) else found
            if sink is not None:
                await sink.close()
