"""The orchestrator as a process: lanes that take wake-ups and timers in batches, and the sweep beside them."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from services.orchestrator.due import Due
from services.orchestrator.handler import Handler
from services.orchestrator.metrics import OrchestratorMetrics
from services.orchestrator.publish import Publisher
from services.orchestrator.settings import Settings
from services.orchestrator.sweep import Sweep
from shared.broker.port import Broker, Consumer, Delivery
from shared.broker.topology import EVENTS, TIMERS, topology
from shared.contracts.jobs import Job
from shared.contracts.messages import UnreadableMessageError, decode_job, decode_wake
from shared.errors import ConflictError, UnavailableError
from shared.runtime.clock import Clock
from shared.runtime.crashpoints import crash_point
from shared.runtime.logs import Log
from shared.store.port import Store

log = Log("redrive.orchestrator")

RECEIVE_WAIT_S = 1.0
PAUSE_S = 0.5


class Orchestrator:
    """Hears wake-ups, decides, publishes; any number of these may run at once."""

    def __init__(
        self, store: Store, broker: Broker, settings: Settings, clock: Clock, metrics: OrchestratorMetrics
    ) -> None:
        self._broker = broker
        self._settings = settings
        self._clock = clock
        self._metrics = metrics
        self._handler = Handler(store, Publisher(broker, store), env=settings.env, committed=metrics.decided)
        self._due = Due(store, broker)
        self.sweep = Sweep(store, broker, settings, clock, metrics)

    async def run(self, stop: asyncio.Event) -> None:
        """Work until asked to stop; what was received and not finished is handed back."""
        await self._broker.declare(topology(self._settings.pools))
        # Before anything new is published: what a new or wiped broker lacks is then what was published before.
        await self.sweep.begin()
        async with asyncio.TaskGroup() as group:
            for queue, lanes in ((EVENTS, self._settings.lanes), (TIMERS, 1)):
                for _ in range(lanes):
                    group.create_task(self._lane(queue, stop))
            group.create_task(self.sweep.run(stop))

    async def _lane(self, queue: str, stop: asyncio.Event) -> None:
        consumer = await self._broker.consume(queue, self._settings.batch)
        try:
            while not stop.is_set():
                deliveries = await consumer.receive(self._settings.batch, RECEIVE_WAIT_S)
                if deliveries:
                    await self._take(consumer, deliveries)
        finally:
            await consumer.close()

    async def _take(self, consumer: Consumer, deliveries: Sequence[Delivery]) -> None:
        """Decide on everything a batch of deliveries is about, then acknowledge it."""
        crash_point("orchestrator.after_receive")
        executions: set[str] = set()
        timers: dict[str, list[str]] = {}
        due: list[Job] = []
        unreadable: list[int] = []
        for delivery in deliveries:
            try:
                _read(delivery, executions, timers, due)
            except UnreadableMessageError as problem:
                log.error("message_unreadable", message_id=delivery.message_id, reason=str(problem)[:300])
                self._metrics.unreadable.inc()
                unreadable.append(delivery.tag)
        try:
            await self._due.forward(due)
            await self._handle(executions, timers)
        except (UnavailableError, ConflictError) as problem:
            log.warning("batch_put_back", reason=str(problem)[:300], deliveries=len(deliveries))
            self._metrics.put_back.inc(len(deliveries))
            await consumer.reject([delivery.tag for delivery in deliveries], requeue=True)
            await self._clock.sleep(PAUSE_S)
            return
        crash_point("orchestrator.before_ack")
        await consumer.reject(unreadable, requeue=False)
        await consumer.ack_up_to(deliveries[-1].tag)

    async def _handle(self, executions: set[str], timers: dict[str, list[str]]) -> None:
        """Handle a batch at once; if something in it breaks the decider, each execution on its own."""
        try:
            with self._metrics.seconds.time():
                decided = await self._handler.handle(sorted(executions), timers)
            self._metrics.batches.inc()
            self._metrics.decisions.inc(decided)
        except (UnavailableError, ConflictError):
            raise
        except Exception as problem:
            everything = sorted({*executions, *timers})
            if len(everything) > 1:
                log.error("batch_split", problem, executions=len(everything))
                for execution_id in everything:
                    own = {execution_id: timers[execution_id]} if execution_id in timers else {}
                    await self._handle({execution_id}, own)
                return
            # Its facts stay unapplied: the sweep wakes it again, and nothing of it is lost.
            self._metrics.undecidable.inc()
            log.error("execution_undecidable", problem, execution_id=everything[0] if everything else None)


def _read(delivery: Delivery, executions: set[str], timers: dict[str, list[str]], due: list[Job]) -> None:
    if delivery.routing_key == "wake" or delivery.exchange == EVENTS:
        executions.update(decode_wake(delivery.body).executions)
        return
    job = decode_job(delivery.body)
    if job.role != "timer":
        due.append(job)
        return
    timers.setdefault(job.execution_id, []).append(job.job_id)
