"""The sinks of a worker, by kind."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from services.worker.sinks.port import Sink


class Sinks:
    """Sinks by their kind, each made once."""

    def __init__(self, sinks: Iterable[Sink] = ()) -> None:
        self._sinks: Mapping[str, Sink] = {sink.kind: sink for sink in sinks}

    @property
    def kinds(self) -> tuple[str, ...]:
        """Return the kinds that can be written to here."""
        return tuple(sorted(self._sinks))

    def find(self, kind: str) -> Sink | None:
        """Return the sink of a kind, or nothing."""
        return self._sinks.get(kind)

    async def close(self) -> None:
        """Close every sink."""
        for sink in self._sinks.values():
            await sink.close()
