"""Jobs that are due in a pool that nobody serves: said once in the log of their executions, on proof."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from services.orchestrator.publish import wake_messages
from shared.broker.port import Broker, QueueStats
from shared.broker.topology import TIMERS_POOL, jobs_queue
from shared.contracts.events import Event
from shared.contracts.ids import fact_id, parse_node
from shared.contracts.payloads import JobWaiting
from shared.runtime.logs import Log
from shared.store.port import Store
from shared.store.records import JobRow, OverduePool

log = Log("redrive.unserved")

CHUNK = 500


class Unserved:
    """Tells executions what their jobs wait for; that time passed is no proof, a broker without consumers is."""

    def __init__(self, store: Store, broker: Broker, grace_s: float, silent_s: float) -> None:
        self._store = store
        self._broker = broker
        self._grace_s = grace_s
        self._silent_s = silent_s

    async def note(self, pools: Sequence[OverduePool], stats: Mapping[str, QueueStats]) -> int:
        """Say it of overdue jobs whose queue nobody consumes and whose pool no living worker names; return of how many.

        A pool that a worker names but does not consume just now is about to be served: nothing is proven.
        """
        idle = [pool.pool for pool in pools if pool.pool != TIMERS_POOL and not _is_consumed(pool.pool, stats)]
        if not idle:
            return 0
        named = {name for row in await self._store.workers(self._silent_s) for name in row.beat.pools}
        count = 0
        for pool in idle:
            if pool not in named:
                count += await self._say(pool, self._proof(pool, stats))
        return count

    async def _say(self, pool: str, proof: str) -> int:
        rows = await self._store.unserved(pool, self._grace_s, CHUNK)
        if rows:
            await self._store.append_facts([_waiting(row, proof) for row in rows])
            await self._store.mark_unserved([row.job_id for row in rows])
            await self._broker.publish_many(wake_messages(row.execution_id for row in rows))
            log.warning("pool_unserved", pool=pool, jobs=len(rows), proof=proof)
        return len(rows)

    def _proof(self, pool: str, stats: Mapping[str, QueueStats]) -> str:
        queue = "its queue has no consumer" if jobs_queue(pool) in stats else "the pool has no queue"
        return f"{queue}, and no worker heard of within {self._silent_s:g} s serves the pool"


def _is_consumed(pool: str, stats: Mapping[str, QueueStats]) -> bool:
    queue = stats.get(jobs_queue(pool))
    return queue is not None and queue.consumers > 0


def _waiting(row: JobRow, proof: str) -> Event:
    since = row.available_at or row.created_at
    return Event(
        execution_id=row.execution_id,
        payload=JobWaiting(row.job_id, row.pool, since.isoformat(), proof),
        address=parse_node(row.node),
        event_id=fact_id(row.job_id, "waiting"),
        source="sweep",
    )
