"""One queue in memory: order, expiry at its head, what comes back, what does not fit."""

from __future__ import annotations

import asyncio
from bisect import insort
from collections import deque
from dataclasses import dataclass, field

from shared.broker.port import Message
from shared.broker.topology import Queue


@dataclass(slots=True)
class Held:
    """A message in a queue, or in the hands of a consumer of it."""

    position: int
    message: Message
    expires_at: float | None = None
    returns: int = 0


@dataclass(slots=True)
class MemoryQueue:
    """The messages that wait; those that came back stand before those that are new, in their old order."""

    spec: Queue
    new: deque[Held] = field(default_factory=deque)
    returned: deque[Held] = field(default_factory=deque)
    watchers: dict[asyncio.Event, None] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.new) + len(self.returned)

    @property
    def is_refusing(self) -> bool:
        """Say whether it is full and the publisher is to hear of it."""
        return self.is_full and self.spec.overflow == "reject-publish"

    @property
    def is_full(self) -> bool:
        """Say whether one more would be too many."""
        return self.spec.max_length is not None and len(self) >= self.spec.max_length

    def put(self, held: Held) -> Held | None:
        """Add a new message; return the one at the head that had to leave for it, if the queue was full."""
        squeezed = self.take() if self.is_full and not self.is_refusing else None
        self.new.append(held)
        self._tell()
        return squeezed

    def put_back(self, held: Held) -> None:
        """Return a message to its old place."""
        if self.returned and self.returned[-1].position > held.position:
            ordered = list(self.returned)
            insort(ordered, held, key=lambda each: each.position)
            self.returned = deque(ordered)
        else:
            self.returned.append(held)
        self._tell()

    def take(self) -> Held | None:
        """Remove and return the message at the head."""
        if self.returned:
            return self.returned.popleft()
        return self.new.popleft() if self.new else None

    def take_expired(self, now: float) -> list[Held]:
        """Remove and return what has expired at the head; behind a message that has not, nothing expires."""
        expired = []
        for line in (self.returned, self.new):
            while line and line[0].expires_at is not None and line[0].expires_at <= now:
                expired.append(line.popleft())
            if line:
                break
        return expired

    def clear(self) -> int:
        """Throw everything away and return how much it was."""
        count = len(self)
        self.new.clear()
        self.returned.clear()
        return count

    def _tell(self) -> None:
        for watcher in self.watchers:
            watcher.set()
