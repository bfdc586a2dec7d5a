"""Where a message goes in a topology: what a broker does with exchanges, bindings and keys, as a function."""

from __future__ import annotations

from collections.abc import Iterator

from shared.broker.topology import Binding, Exchange, Topology

DEFAULT_EXCHANGE = ""

Words = tuple[str, ...]


class Routes:
    """A topology, arranged for asking; it never changes."""

    def __init__(self, topology: Topology) -> None:
        self._queues = {queue.name for queue in topology.queues}
        self._exchanges = {exchange.name: exchange for exchange in topology.exchanges}
        self._bindings: dict[str, list[tuple[Binding, Words]]] = {}
        for binding in topology.bindings:
            self._bindings.setdefault(binding.source, []).append((binding, tuple(binding.key.split("."))))

    def knows(self, exchange: str) -> bool:
        """Say whether there is such an exchange."""
        return exchange == DEFAULT_EXCHANGE or exchange in self._exchanges

    def queues(self, exchange: str, key: str) -> list[str]:
        """Return the queues that a message reaches, each once; none if it is unroutable."""
        if exchange == DEFAULT_EXCHANGE:
            return [key] if key in self._queues else []
        return list(dict.fromkeys(self._reached(exchange, key)))

    def _reached(self, name: str, key: str) -> Iterator[str]:
        exchange = self._exchanges[name]
        matching = [binding for binding, pattern in self._bindings.get(name, ()) if _matches(exchange, pattern, key)]
        for binding in matching:
            if binding.to_exchange:
                yield from self._reached(binding.destination, key)
            else:
                yield binding.destination
        if not matching and exchange.alternate is not None:
            yield from self._reached(exchange.alternate, key)


def _matches(exchange: Exchange, pattern: Words, key: str) -> bool:
    match exchange.kind:
        case "fanout":
            return True
        case "direct":
            return ".".join(pattern) == key
        case "topic":
            return fits(pattern, tuple(key.split(".")))


def fits(pattern: Words, words: Words) -> bool:
    """Say whether words match a topic pattern: `*` is one word, `#` any number of them."""
    if not pattern:
        return not words
    if pattern[0] == "#":
        return fits(pattern[1:], words) or (bool(words) and fits(pattern, words[1:]))
    return bool(words) and pattern[0] in ("*", words[0]) and fits(pattern[1:], words[1:])
