"""Exchanges, queues and bindings as values: what Redrive wants to find on a broker."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from shared.contracts.pools import ORCHESTRATOR_POOL, pool_problem

PREFIX = "redrive.v1"
EVENTS = f"{PREFIX}.events"
JOBS = f"{PREFIX}.jobs"
OUTCOMES = f"{PREFIX}.outcomes"
DUE = f"{PREFIX}.due"
DEAD = f"{PREFIX}.dead"
UNROUTED = f"{PREFIX}.unrouted"
TIMERS = f"{PREFIX}.timers"
INCARNATION = f"{PREFIX}.incarnation"

TIMERS_POOL = ORCHESTRATOR_POOL

UNIT_MS = 50
RADIX = 16
PLACES = 4

JOB_DELIVERY_LIMIT = 5
FACT_DELIVERY_LIMIT = 20
# As good as none; said, because brokers from 4.0 on drop a message that was put back 20 times if nothing is.
NO_DELIVERY_LIMIT = 1_000_000_000


@dataclass(frozen=True, slots=True)
class Exchange:
    """A durable exchange; what it cannot route goes to its alternate, if it has one."""

    name: str
    kind: Literal["direct", "fanout", "topic"]
    alternate: str | None = None

    @property
    def arguments(self) -> dict[str, str | int]:
        """Return the arguments of its declaration."""
        return {} if self.alternate is None else {"alternate-exchange": self.alternate}


@dataclass(frozen=True, slots=True)
class Queue:
    """A durable quorum queue; what expires, is refused or comes back too often goes to its dead-letter exchange."""

    name: str
    ttl_ms: int | None = None
    dead_letter_to: str | None = None
    delivery_limit: int | None = None
    max_length: int | None = None
    overflow: Literal["drop-head", "reject-publish"] = "drop-head"

    @property
    def arguments(self) -> dict[str, str | int]:
        """Return the arguments of its declaration, only such as RabbitMQ 3.10 and 4.x both accept."""
        chosen: dict[str, str | int | None] = {
            "x-queue-type": "quorum",
            "x-message-ttl": self.ttl_ms,
            "x-dead-letter-exchange": self.dead_letter_to,
            "x-dead-letter-strategy": "at-least-once" if self.dead_letter_to else None,
            "x-delivery-limit": self.delivery_limit,
            "x-max-length": self.max_length,
            "x-overflow": self.overflow if self.overflow == "reject-publish" else None,
        }
        return {name: value for name, value in chosen.items() if value is not None}


@dataclass(frozen=True, slots=True)
class Binding:
    """What leads from an exchange, for keys that match, to a queue or to another exchange."""

    source: str
    destination: str
    key: str
    to_exchange: bool = False


@dataclass(frozen=True, slots=True)
class Topology:
    """Exchanges, queues and bindings that belong together."""

    exchanges: tuple[Exchange, ...] = ()
    queues: tuple[Queue, ...] = ()
    bindings: tuple[Binding, ...] = ()

    def __or__(self, other: Topology) -> Topology:
        """Return both together, each thing once."""
        return Topology(
            tuple(dict.fromkeys(self.exchanges + other.exchanges)),
            tuple(dict.fromkeys(self.queues + other.queues)),
            tuple(dict.fromkeys(self.bindings + other.bindings)),
        )


def topology(pools: Iterable[str]) -> Topology:
    """Return everything that the services need to serve these pools."""
    whole = _facts() | _ladder() | Topology(queues=(_keeping(INCARNATION, max_length=1),))
    whole |= _pool(TIMERS_POOL)
    for pool in pools:
        whole |= pool_topology(pool)
    return whole


def pool_topology(pool: str) -> Topology:
    """Return what one pool needs: its queue, reached by jobs for now and by jobs that became due."""
    problem = pool_problem(pool)
    if problem is not None:
        raise ValueError(problem)
    return _pool(pool)


def _pool(pool: str) -> Topology:
    around = Topology(
        exchanges=(
            Exchange(UNROUTED, "fanout"),
            Exchange(JOBS, "direct", alternate=UNROUTED),
            Exchange(DUE, "topic", alternate=UNROUTED),
            Exchange(DEAD, "fanout"),
        ),
        queues=(_keeping(UNROUTED), _keeping(DEAD)),
        bindings=(Binding(UNROUTED, UNROUTED, ""), Binding(DEAD, DEAD, "")),
    )
    return around | pool_queue(pool)


def pool_queue(pool: str) -> Topology:
    """Return the queue of a pool and what leads to it, from exchanges that are there: all that a worker declares."""
    queue = jobs_queue(pool)
    limit = FACT_DELIVERY_LIMIT if pool == TIMERS_POOL else JOB_DELIVERY_LIMIT
    return Topology(
        queues=(_refusing(queue, limit),),
        bindings=(Binding(JOBS, queue, pool), Binding(DUE, queue, ".".join([*"*" * PLACES, pool]))),
    )


def jobs_queue(pool: str) -> str:
    """Return the queue in which the jobs of a pool wait for its workers."""
    return TIMERS if pool == TIMERS_POOL else f"{JOBS}.{pool}"


def delay_exchange(place: int) -> str:
    """Return the exchange at which a message enters the given place of the ladder."""
    return f"{PREFIX}.delay.p{place}"


def delay_queue(place: int, digit: int) -> str:
    """Return the queue that holds a message for the digit at the place."""
    return f"{delay_exchange(place)}.d{digit}"


def _facts() -> Topology:
    names = (EVENTS, OUTCOMES)
    return Topology(
        exchanges=tuple(Exchange(name, "topic") for name in names),
        queues=tuple(_refusing(name, FACT_DELIVERY_LIMIT) for name in names),
        bindings=tuple(Binding(name, name, "#") for name in names),
    )


def _ladder() -> Topology:
    whole = Topology()
    for place in reversed(range(PLACES)):
        whole |= _place(place)
    return whole


def _place(place: int) -> Topology:
    """Return one place: a queue per digit, and the way past them for a digit of zero."""
    here = delay_exchange(place)
    below = delay_exchange(place - 1) if place else DUE
    digits = range(1, RADIX)
    return Topology(
        exchanges=(Exchange(here, "topic", alternate=UNROUTED),),
        queues=tuple(_holding(place, digit, below) for digit in digits),
        bindings=(
            Binding(here, below, _key(place, 0), to_exchange=True),
            *(Binding(here, delay_queue(place, digit), _key(place, digit)) for digit in digits),
        ),
    )


def _key(place: int, digit: int) -> str:
    """Return the pattern of keys with this digit; `#` because a pool may be several words."""
    return ".".join([*"*" * (PLACES - 1 - place), str(digit), "#"])


def _holding(place: int, digit: int, below: str) -> Queue:
    # Without reject-publish the broker silently falls back to dead-lettering at most once.
    ttl_ms = digit * RADIX**place * UNIT_MS
    return Queue(delay_queue(place, digit), ttl_ms=ttl_ms, dead_letter_to=below, overflow="reject-publish")


def _refusing(name: str, delivery_limit: int) -> Queue:
    return Queue(name, dead_letter_to=DEAD, delivery_limit=delivery_limit, overflow="reject-publish")


def _keeping(name: str, max_length: int | None = None) -> Queue:
    return Queue(name, delivery_limit=NO_DELIVERY_LIMIT, max_length=max_length)
