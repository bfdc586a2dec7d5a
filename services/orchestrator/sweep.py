"""The sweep: what was committed and not published, is stuck, lost, lapsed or forgotten, each on proof."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta

from services.orchestrator.metrics import OrchestratorMetrics
from services.orchestrator.publish import wake_messages
from services.orchestrator.settings import Settings
from services.orchestrator.unserved import Unserved
from shared.broker.job_messages import job_message
from shared.broker.ladder import HORIZON_S
from shared.broker.port import Broker, QueueStats
from shared.broker.topology import EVENTS, OUTCOMES, TIMERS, TIMERS_POOL, jobs_queue, topology
from shared.contracts.events import Event
from shared.contracts.ids import derived, fact_id, parse_node
from shared.contracts.jobs import job_from_json
from shared.contracts.outcomes import failure
from shared.contracts.payloads import JobRepublished, TaskProcessed
from shared.errors import ConflictError, UnavailableError
from shared.runtime.clock import Clock
from shared.runtime.logs import Log
from shared.store.port import Store
from shared.store.records import JobRow, OverduePool

log = Log("redrive.sweep")

CHUNK = 500
ENTER_AHEAD_S = HORIZON_S * 0.9
BROKER_NAME = "redrive"
OVERTAKEN_BY = 2
# A job may be in one of these before it comes to its pool, or what it led to afterwards.
ON_THE_WAY = (EVENTS, OUTCOMES, TIMERS)


class Stillness:
    """Pools in which nothing moves: their queues are empty, and from one round to a later one nothing has started.

    One look is no proof: what is empty may be in the hands of workers, or on its way from them to the store.
    """

    def __init__(self, clock: Clock, for_s: float) -> None:
        self._clock = clock
        self._for_s = for_s
        self._since: dict[str, tuple[float, OverduePool]] = {}

    def is_proven(self, pool: OverduePool, *, is_empty: bool) -> bool:
        """Say whether a pool has been seen like this before, and long enough ago."""
        now = self._clock.monotonic()
        since, before = self._since.get(pool.pool, (now, None))
        if not is_empty:
            self._since.pop(pool.pool, None)
            return False
        if before != pool:
            self._since[pool.pool] = (now, pool)
            return False
        return now - since >= self._for_s


class Sweep:
    """One small loop that any orchestrator may run beside any other."""

    def __init__(
        self, store: Store, broker: Broker, settings: Settings, clock: Clock, metrics: OrchestratorMetrics
    ) -> None:
        self._store = store
        self._broker = broker
        self._settings = settings
        self._clock = clock
        self._metrics = metrics
        self._still = Stillness(clock, settings.grace_s)
        self._unserved = Unserved(store, broker, settings.grace_s, settings.silent_s)

    async def begin(self) -> None:
        """Fill a new broker; if a server is down, the first round will."""
        try:
            await self.refill_a_wiped_broker()
        except (UnavailableError, ConflictError) as problem:
            log.warning("sweep_failed", reason=str(problem)[:300])

    async def run(self, stop: asyncio.Event) -> None:
        """Sweep again and again until asked to stop; a server that is down is tried again next time."""
        while not stop.is_set():
            try:
                await self.once()
            except (UnavailableError, ConflictError) as problem:
                log.warning("sweep_failed", reason=str(problem)[:300])
            await self._pause(stop)

    async def _pause(self, stop: asyncio.Event) -> None:
        waiting = asyncio.ensure_future(stop.wait())
        sleeping = asyncio.ensure_future(self._clock.sleep(self._settings.sweep_every_s))
        _, pending = await asyncio.wait({waiting, sleeping}, return_when=asyncio.FIRST_COMPLETED)
        for task in pending:
            task.cancel()

    async def once(self) -> dict[str, int]:
        """Make one round and return how much of each kind was recovered."""
        grace = self._settings.grace_s
        found = {
            "refilled": await self.refill_a_wiped_broker(),
            "unpublished": await self._republish(
                await self._store.take_unpublished(grace, HORIZON_S, CHUNK), "committed and never published"
            ),
            "entered": await self._publish(await self._store.take_due_within(ENTER_AHEAD_S, CHUNK)),
            **await self._look_at_overdue(),
            "lapsed": await self._end_lapsed(),
            "woken": await self._wake_stale(),
        }
        for kind, count in found.items():
            self._metrics.recovered.labels(kind).inc(count)
        if any(found.values()):
            log.info("sweep_recovered", **found)
        return found

    async def refill_a_wiped_broker(self) -> int:
        """Publish everything outstanding again if the broker does not bear the mark that the store knows."""
        if await self._is_marked():
            return 0
        async with self._store.alone("refill"):
            # Another may have done it meanwhile.
            return 0 if await self._is_marked() else await self._refill()

    async def _is_marked(self) -> bool:
        borne = await self._broker.incarnation()
        return borne is not None and borne == await self._store.broker_mark(BROKER_NAME)

    async def _refill(self) -> int:
        known, borne = await self._store.broker_mark(BROKER_NAME), await self._broker.incarnation()
        await self._broker.declare(topology(self._settings.pools))
        began = await self._store.now()
        count = 0
        cursor: str | None = None
        while True:
            page = await self._store.outstanding(HORIZON_S, CHUNK, cursor)
            lost = [row for row in page.items if row.published_at is None or row.published_at < began]
            count += await self._republish(lost, "the broker was wiped or replaced")
            cursor = page.cursor
            if cursor is None:
                break
            log.info("broker_refilling", published=count)
        mark = borne or derived("incarnation", self._clock.now().isoformat(), self._settings.name)
        if borne is None:
            await self._broker.mark_incarnation(mark)
        await self._store.set_broker_mark(BROKER_NAME, mark)
        log.warning("broker_refilled", published=count, had=known, mark=mark)
        return count

    async def _publish(self, rows: Sequence[JobRow]) -> int:
        """Publish jobs with what is left of their delay by the store's clock."""
        if not rows:
            return 0
        now = await self._store.now()
        messages = [job_message(job_from_json(row.message), _remaining(row, now)) for row in rows]
        await self._broker.publish_many(messages)
        await self._store.mark_published([row.job_id for row in rows])
        return len(rows)

    async def _republish(self, rows: Sequence[JobRow], proof: str) -> int:
        """Publish jobs again, and have it in the log of their executions with what proved that it was needed."""
        if not rows:
            return 0
        await self._publish(rows)
        now = await self._store.now()
        await self._store.append_facts([_republished(row, proof, now) for row in rows if row.pool != TIMERS_POOL])
        await self._broker.publish_many(wake_messages(row.execution_id for row in rows))
        for row in rows:
            log.warning("job_republished", job_id=row.job_id, pool=row.pool, proof=proof)
        return len(rows)

    async def _look_at_overdue(self) -> dict[str, int]:
        """See to jobs that are past their time: those that are stuck, and those that nobody is there to take."""
        pools = await self._store.overdue(self._settings.grace_s)
        if not pools:
            return {"stuck": 0, "unserved": 0}
        stats = await self._broker.stats([*ON_THE_WAY, *(jobs_queue(pool.pool) for pool in pools)])
        return {
            "stuck": await self._republish_stuck(pools, stats),
            "unserved": await self._unserved.note(pools, stats),
        }

    async def _republish_stuck(self, pools: Sequence[OverduePool], stats: Mapping[str, QueueStats]) -> int:
        """Publish jobs again that are overdue and were overtaken, or whose queues are all empty."""
        quiet = all(name in stats and stats[name].ready == 0 for name in ON_THE_WAY)
        count = 0
        for pool in pools:
            queue = stats.get(jobs_queue(pool.pool))
            empty = self._still.is_proven(pool, is_empty=quiet and queue is not None and queue.ready == 0)
            before = self._proven_before(pool, empty)
            if before is None:
                continue
            rows = await self._store.take_overdue(pool.pool, before, self._settings.grace_s, CHUNK)
            count += await self._republish(
                rows, "overdue, and its queues are empty" if empty else "overdue, and overtaken by a later job"
            )
        return count

    def _proven_before(self, pool: OverduePool, empty: bool) -> datetime | None:
        """Return the time before which jobs of a pool are proven to be stuck; none, if nothing is proven."""
        if empty:
            return datetime.max.replace(tzinfo=pool.oldest_due.tzinfo)
        if pool.started_due is None:
            return None
        # Batches are published and stored side by side, so that a little overtaking is no proof of anything.
        return pool.started_due - timedelta(seconds=OVERTAKEN_BY * self._settings.grace_s)

    async def _end_lapsed(self) -> int:
        """Report the attempts of workers that are gone as outcomes, for the rules to judge."""
        rows = await self._store.take_lapsed(self._settings.silent_s, CHUNK)
        if rows:
            await self._store.append_facts([_worker_lost(row) for row in rows])
            await self._broker.publish_many(wake_messages(row.execution_id for row in rows))
        return len(rows)

    async def _wake_stale(self) -> int:
        executions = await self._store.stale_facts(self._settings.grace_s, CHUNK)
        if executions:
            await self._broker.publish_many(wake_messages(executions))
        return len(executions)


def _remaining(row: JobRow, now: datetime) -> float:
    """Return what is left of a job's delay by the clock that wrote its due time."""
    if row.available_at is None:
        return 0.0
    left = (row.available_at - now).total_seconds()
    return float(min(HORIZON_S, max(0.0, left)))


def _republished(row: JobRow, proof: str, now: datetime) -> Event:
    overdue_s = max(0.0, (now - row.available_at).total_seconds()) if row.available_at is not None else 0.0
    return Event(
        execution_id=row.execution_id,
        payload=JobRepublished(row.job_id, proof, round(overdue_s, 3)),
        address=parse_node(row.node),
        event_id=derived("fact", row.job_id, "republished", now.isoformat()),
        occurred_at=now,
        source="sweep",
    )


def _worker_lost(row: JobRow) -> Event:
    outcome = failure("worker_lost", f"worker {row.worker_id or 'unknown'} is gone and its lease ran out")
    return Event(
        execution_id=row.execution_id,
        payload=TaskProcessed(row.job_id, outcome.as_json()),
        address=parse_node(row.node),
        event_id=fact_id(row.job_id, "processed"),
        source="sweep",
    )
