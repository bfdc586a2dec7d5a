"""The port to the broker: what services may ask of it, in batches, and what it promises."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from shared.broker.topology import Topology

JSON = "application/json"


@dataclass(frozen=True, slots=True)
class Message:
    """What is published: a body and where it goes."""

    exchange: str
    routing_key: str
    body: bytes
    message_id: str
    headers: Mapping[str, str] = field(default_factory=dict)
    content_type: str = JSON


@dataclass(frozen=True, slots=True)
class Delivery:
    """What was received; its tag names it until it is acknowledged or rejected, to the consumer it came from."""

    body: bytes
    tag: int
    message_id: str
    headers: Mapping[str, str]
    exchange: str
    routing_key: str
    redelivered: bool
    delivery_count: int


@dataclass(frozen=True, slots=True)
class QueueStats:
    """A queue from outside: messages that wait for a consumer, and consumers."""

    ready: int
    consumers: int


class Consumer(ABC):
    """Deliveries of one queue; a tag that is no longer outstanding, or of a lost connection, is ignored."""

    @abstractmethod
    async def receive(self, limit: int, wait_s: float) -> list[Delivery]:
        """Return what is there, in order, at most `limit`; nothing only if the wait is over or the consumer stopped."""

    @abstractmethod
    async def ack(self, tags: Iterable[int]) -> None:
        """Give up these deliveries for good; those the broker does not hear of come again."""

    @abstractmethod
    async def ack_up_to(self, tag: int) -> None:
        """Give up this delivery and every earlier one still outstanding: the caller says that all are done."""

    @abstractmethod
    async def reject(self, tags: Iterable[int], *, requeue: bool) -> None:
        """Put these deliveries back into the queue, counted as tried, or send them to the dead letters."""

    @abstractmethod
    async def stop(self) -> None:
        """Take no more and put back what was not yet received; the rest can still be acknowledged."""

    @abstractmethod
    async def close(self) -> None:
        """Stop, and put back whatever was not acknowledged."""


class Broker(ABC):
    """Takes messages for certain and hands them out at least once."""

    @abstractmethod
    async def declare(self, topology: Topology) -> None:
        """Make the broker hold at least this; again after a reconnect, so that a wiped broker is usable."""

    @abstractmethod
    async def publish_many(self, messages: Sequence[Message]) -> list[Message]:
        """Return, once the broker has all of them for certain, those that no queue wanted.

        Raises UnavailableError when the broker cannot be reached or refuses; then nothing is known of any of them,
        and the caller may publish all again.
        """

    @abstractmethod
    async def consume(self, queue: str, prefetch: int) -> Consumer:
        """Return a consumer that never holds more than `prefetch` unacknowledged deliveries."""

    @abstractmethod
    async def stats(self, queues: Iterable[str]) -> dict[str, QueueStats]:
        """Return what is known of these queues; one that does not exist is left out."""

    @abstractmethod
    async def purge(self, queue: str) -> int:
        """Throw away what waits in a queue and return how much it was."""

    @abstractmethod
    async def incarnation(self) -> str | None:
        """Return the mark that this broker bears; none when it was never marked, or wiped since."""

    @abstractmethod
    async def mark_incarnation(self, mark: str) -> None:
        """Make the broker bear this mark in place of any other, as long as it keeps its data."""

    @property
    @abstractmethod
    def is_blocked(self) -> bool:
        """Say whether the broker asked publishers to wait; until it is over, `publish_many` does."""

    @abstractmethod
    async def close(self) -> None:
        """Close every consumer and leave the broker."""
