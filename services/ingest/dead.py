"""Dead letters: a job that no worker could take becomes a fact that the rules see; a fact gets another chance."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from services.ingest.append import HEARTBEAT, Append, Batch
from services.ingest.consuming import Patience
from services.ingest.dead_letters import letter_of
from services.ingest.metrics import IngestMetrics
from shared.broker.port import Consumer, Delivery
from shared.broker.topology import EVENTS, JOB_DELIVERY_LIMIT, OUTCOMES, TIMERS_POOL
from shared.contracts.events import Event
from shared.contracts.ids import Address, fact_id, parse_node
from shared.contracts.messages import UnreadableMessageError, decode_facts, decode_job
from shared.contracts.payloads import JobPoisoned
from shared.runtime.logs import Log
from shared.store.port import Store
from shared.store.records import DeadLetter

_REASONS = {
    "delivery_limit": "it was handed out again and again and no worker lived to finish it",
    "rejected": "a worker could not read it",
    "maxlen": "its queue was full",
    "expired": "it waited too long",
}

# What the sweep makes good without this very message.
_RECOVERED = frozenset({"wake", "timer", "due"})

_log = Log("redrive.ingest.dead")


class DeadLetters:
    """Takes batches of `redrive.v1.dead`; what nobody can read is logged, counted and kept for people to look at."""

    def __init__(self, store: Store, append: Append, patience: Patience, metrics: IngestMetrics) -> None:
        self._store = store
        self._append = append
        self._patience = patience
        self._metrics = metrics
        self._letters: list[DeadLetter] = []

    async def take(self, consumer: Consumer, deliveries: Sequence[Delivery]) -> None:
        """Make facts of what a batch holds, store them, wake their executions, and give the batch up."""
        batch = Batch()
        self._letters = []
        for delivery in deliveries:
            batch.facts.extend(await self._facts(delivery))
        await self._append.store(batch)
        if self._letters:
            await self._patience.insist("keep", lambda: self._store.keep_dead_letters(self._letters))
        await consumer.ack_up_to(deliveries[-1].tag)

    async def _facts(self, delivery: Delivery) -> list[Event]:
        queue = delivery.headers.get("x-first-death-queue")
        if queue == OUTCOMES or (queue is None and delivery.routing_key in ("facts", HEARTBEAT)):
            return self._reports(delivery)
        if queue == EVENTS or (queue is None and delivery.routing_key == "wake"):
            # The sweep wakes an execution whose facts were not applied.
            return self._gone(delivery, "wake", "nobody could act on it")
        return await self._poisoned(delivery)

    def _reports(self, delivery: Delivery) -> list[Event]:
        try:
            facts = decode_facts(delivery.body)
        except UnreadableMessageError as problem:
            return self._gone(delivery, "unreadable", str(problem))
        self._metrics.dead.labels("facts").inc()
        return facts

    async def _poisoned(self, delivery: Delivery) -> list[Event]:
        """Return the fact that a job is dead, found by its message or, if that says nothing, by the message's name."""
        died = delivery.headers.get("x-first-death-reason", "")
        try:
            job = decode_job(delivery.body)
        except UnreadableMessageError as problem:
            return await self._poisoned_by_name(delivery, died, problem)
        if job.role == "timer":
            return self._gone(delivery, "timer", "no orchestrator could act on it")
        key = delivery.routing_key
        if key.rpartition(".")[2] == TIMERS_POOL and not key.endswith(job.pool):
            # It was due and no orchestrator could hand it on; the sweep publishes it again.
            return self._gone(delivery, "due", "no orchestrator could hand it on")
        return [self._fact(delivery, job.execution_id, job.job_id, job.address, _REASONS.get(died, died or "unknown"))]

    async def _poisoned_by_name(self, delivery: Delivery, died: str, problem: Exception) -> list[Event]:
        identity = _uuid(delivery.message_id)
        row = None if identity is None else await self._patience.insist("look", lambda: self._store.job(identity))
        address = None if row is None else parse_node(row.node)
        if row is None or address is None or row.role == "timer":
            return self._gone(delivery, "unreadable", f"{problem}; {_REASONS.get(died, died)}")
        return [self._fact(delivery, row.execution_id, row.job_id, address, f"its message cannot be read: {problem}")]

    def _fact(self, delivery: Delivery, execution_id: str, job_id: str, address: Address, reason: str) -> Event:
        died = delivery.headers.get("x-first-death-reason")
        deliveries = JOB_DELIVERY_LIMIT if died == "delivery_limit" else delivery.delivery_count + 1
        _log.error("job_poisoned", job_id=job_id, execution_id=execution_id, node=address.node, reason=reason[:300])
        self._metrics.dead.labels("job").inc()
        said = JobPoisoned(job_id, reason[:300].replace("\0", ""), deliveries)
        return Event(execution_id, said, address, event_id=fact_id(job_id, "poisoned"), source="ingest")

    def _gone(self, delivery: Delivery, kind: str, reason: str) -> list[Event]:
        self._metrics.dead.labels(kind).inc()
        if kind not in _RECOVERED:
            self._letters.append(letter_of(delivery, kind, reason))
        _log.error(
            "dead_letter",
            kind=kind,
            message_id=delivery.message_id,
            queue=delivery.headers.get("x-first-death-queue"),
            routing_key=delivery.routing_key,
            size=len(delivery.body),
            reason=reason[:300],
        )
        return []


def _uuid(text: str) -> str | None:
    try:
        return str(UUID(text))
    except (ValueError, TypeError, AttributeError):
        return None
