"""Facts on their way into the log: sanitised, stored many at once, one that cannot be stored kept from the others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from services.ingest.context import sanitised_fact
from services.ingest.metrics import IngestMetrics
from shared.contracts.events import Event
from shared.contracts.outcomes import failure
from shared.contracts.payloads import SignalReceived, TaskProcessed
from shared.engine.world import kept
from shared.errors import RejectedError
from shared.runtime.logs import Log
from shared.store.port import Store

CHUNK = 1000

_log = Log("redrive.ingest.facts")


@dataclass(frozen=True, slots=True)
class Stored:
    """What became of facts: those that are new, executions nobody knows, and how many could not be stored at all."""

    new: frozenset[str] = frozenset()
    unknown: frozenset[str] = frozenset()
    refused: int = 0

    def __or__(self, other: Stored) -> Stored:
        return Stored(self.new | other.new, self.unknown | other.unknown, self.refused + other.refused)


async def store_facts(store: Store, facts: Sequence[Event], metrics: IngestMetrics) -> Stored:
    """Store facts that nobody waits for an answer about: what cannot be stored is logged, the rest is stored."""
    clean = [sanitised_fact(fact) for fact in facts]
    done = Stored()
    for start in range(0, len(clean), CHUNK):
        done |= await _stored(store, clean[start : start + CHUNK])
    metrics.facts.labels("new").inc(len(done.new))
    lost = sum(fact.execution_id in done.unknown for fact in clean)
    metrics.facts.labels("unknown_execution").inc(lost)
    metrics.facts.labels("refused").inc(done.refused)
    metrics.facts.labels("known").inc(max(0, len(clean) - len(done.new) - lost - done.refused))
    for execution_id in sorted(done.unknown):
        _log.warning("fact_of_unknown_execution", execution_id=execution_id)
    return done


async def accept_facts(store: Store, facts: Sequence[Event], metrics: IngestMetrics) -> Stored:
    """Store facts all at once, for a caller who is told what is wrong; large values are put aside first."""
    clean = [await _lightened(store, sanitised_fact(fact)) for fact in facts]
    result = await store.append_facts(clean)
    metrics.facts.labels("new").inc(len(result.new))
    return Stored(result.new, result.unknown)


async def _stored(store: Store, facts: Sequence[Event]) -> Stored:
    """Store facts together; if one is refused, halves of them, down to the one."""
    if not facts:
        return Stored()
    try:
        result = await store.append_facts(facts)
        return Stored(result.new, result.unknown)
    except RejectedError as problem:
        if len(facts) == 1:
            return await _instead_of(store, facts[0], problem)
    middle = len(facts) // 2
    return await _stored(store, facts[:middle]) | await _stored(store, facts[middle:])


async def _instead_of(store: Store, fact: Event, problem: RejectedError) -> Stored:
    """Store, in place of an outcome that cannot be stored, one that says so: rules see it, nothing waits forever."""
    reason = str(problem)[:300]
    _log.error("fact_refused", execution_id=fact.execution_id, event_id=fact.event_id, type=fact.type, reason=reason)
    said = fact.payload
    if not isinstance(said, TaskProcessed) or fact.address is None:
        return Stored(refused=1)
    outcome = failure("exception", f"the outcome could not be stored: {reason}").as_json()
    try:
        result = await store.append_facts([replace(fact, payload=TaskProcessed(said.job_id, outcome), meta={})])
    except RejectedError:
        return Stored(refused=1)
    return Stored(result.new, result.unknown, refused=1)


async def _lightened(store: Store, fact: Event) -> Event:
    """Return a fact whose large value is stored apart and referred to."""
    stored: dict[str, Any] = {}
    match fact.payload:
        case TaskProcessed(job_id=job_id, outcome=outcome):
            result = kept(outcome.get("result"), stored)
            fact = replace(fact, payload=TaskProcessed(job_id, {**outcome, "result": result})) if stored else fact
        case SignalReceived(name=name, payload=payload):
            light = kept(payload, stored)
            fact = replace(fact, payload=SignalReceived(name, light)) if stored else fact
        case _:
            pass
    for value in stored.values():
        await store.put_result(value)
    return fact
