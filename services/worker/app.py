"""The worker itself: takes jobs, runs them, reports, and lets go of a job when its outcome is safe."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Coroutine, Iterable
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from typing import Any

from services.worker.facts import processed, started
from services.worker.intake import Held, Intake, Room, Source, acknowledge, hand_back
from services.worker.metrics import WorkerMetrics
from services.worker.outbox import Outbox, Report
from services.worker.runner import Runner
from services.worker.running import InHand, Running
from services.worker.settings import Settings
from shared.broker.port import Broker, Delivery, Message
from shared.broker.topology import OUTCOMES
from shared.contracts.jobs import Job
from shared.contracts.messages import UnreadableMessageError, decode_job
from shared.contracts.outcomes import Outcome, failure
from shared.runtime.clock import Clock
from shared.runtime.crashpoints import crash_point
from shared.runtime.logs import Log

HEARTBEAT_KEY = "heartbeat"
TICK_S = 0.025
FLUSH_S = 10.0


class Worker:
    """Serves pools with one runner, as many jobs at once as its concurrency says."""

    def __init__(
        self, settings: Settings, broker: Broker, runner: Runner, clock: Clock, metrics: WorkerMetrics
    ) -> None:
        self._settings = settings
        self._runner = runner
        self._clock = clock
        self._metrics = metrics
        self._outbox = Outbox(broker, clock, metrics)
        self._hand = InHand()
        self._slots = asyncio.Semaphore(settings.concurrency)
        self._busy = asyncio.Event()
        self._intakes = [Intake(broker, pool, clock, self._room) for pool in settings.pools]
        self._log = Log("redrive.worker", worker=settings.name)

    @property
    def problem(self) -> str | None:
        """Say why no jobs can come, if so."""
        return None if all(intake.is_consuming for intake in self._intakes) else "not consuming"

    async def run(self, stop: asyncio.Event) -> None:
        """Work until asked to stop; then finish what can be finished in time and hand back the rest."""
        self._log.info("worker_started", pools=self._settings.pools, concurrency=self._settings.concurrency)
        helpers = _spawned(self._outbox.run(), self._watch(), self._heartbeat())
        intakes = _spawned(*[intake.run(self._take) for intake in self._intakes])
        asked = asyncio.create_task(stop.wait())
        try:
            await asyncio.wait([asked, *helpers, *intakes], return_when=asyncio.FIRST_COMPLETED)
            _raise_first(task for task in (*helpers, *intakes) if task.done())
            await self._wind_down(intakes)
        finally:
            await _cancelled([asked, *helpers, *intakes, *self._tasks()])
            for intake in self._intakes:
                await intake.close()
        self._log.info("worker_stopped")

    def _room(self) -> Room:
        concurrency = self._settings.concurrency
        return Room(concurrency - self._hand.unfinished, concurrency - self._hand.leased)

    async def _take(self, source: Source, deliveries: list[Delivery]) -> None:
        crash_point("worker.after_receive")
        known: list[Held] = []
        unreadable: list[int] = []
        for delivery in deliveries:
            try:
                job = decode_job(delivery.body)
            except UnreadableMessageError as problem:
                self._log.error("message_rejected", message_id=delivery.message_id, reason=str(problem)[:300])
                unreadable.append(delivery.tag)
                continue
            known.extend(self._begin(job, delivery, Held(source, delivery.tag)))
        if unreadable:
            self._metrics.rejected.inc(len(unreadable))
            await source.reject(unreadable, requeue=False)
        await acknowledge(known)

    def _begin(self, job: Job, delivery: Delivery, held: Held) -> list[Held]:
        """Begin a job; of one that is known, return the delivery if it can be given up at once."""
        if self._hand.ran_lately(job.job_id):
            self._metrics.duplicates.inc()
            return [held]
        running = self._hand.jobs.get(job.job_id)
        if running is not None:
            # It is settled with the first copy, and not before: that one may be of a connection that was lost.
            self._metrics.duplicates.inc()
            running.deliveries.append(held)
            return [] if running.lease != "held" else running.release()
        run = Running(job, [held], delivery.delivery_count + 1, self._clock.monotonic(), self._clock.now())
        self._hand.jobs[job.job_id] = run
        run.task = asyncio.create_task(self._work(run), name=f"job:{job.job_id}")
        return []

    async def _work(self, run: Running) -> None:
        # Pools are filled side by side, so that more may be at hand than may run.
        async with self._slots:
            run.is_begun = True
            run.began, run.started_at = self._clock.monotonic(), self._clock.now()
            self._busy.set()
            with self._metrics.running.track_inprogress():
                outcome = await self._runner.run(run.job)
        crash_point("worker.after_run")
        self._conclude(run, outcome)

    def _conclude(self, run: Running, outcome: Outcome) -> None:
        run.is_done = True
        job, name = run.job, self._settings.name
        # The start is said again with the end: it may have been announced, but another ingest may be slower with it.
        facts = [
            started(job, name, run.delivery_count, run.started_at),
            processed(job, name, outcome, run.delivery_count, self._clock.now()),
        ]
        run.is_announced = True
        self._metrics.ended(job.kind, outcome.status, self._clock.monotonic() - run.began)

        async def confirmed() -> list[Held]:
            self._hand.finish(run)
            return run.release()

        self._outbox.put(Report(facts, confirmed=confirmed))
        self._look_again()

    async def _watch(self) -> None:
        """Announce what takes a while, and lease what takes long."""
        while True:
            if not any(run.is_under_way for run in self._hand.jobs.values()):
                self._busy.clear()
                await self._busy.wait()
            await self._clock.sleep(TICK_S)
            now = self._clock.monotonic()
            for run in list(self._hand.jobs.values()):
                if run.is_under_way:
                    self._look_after(run, now - run.began)

    def _look_after(self, run: Running, age_s: float) -> None:
        if not run.is_announced and age_s >= self._settings.announce_after_s:
            run.is_announced = True
            fact = started(run.job, self._settings.name, run.delivery_count, run.started_at)
            self._outbox.put(Report([fact]))
        if run.lease == "none" and age_s >= self._settings.lease_after_s:
            run.lease = "asked"
            until = self._clock.now() + timedelta(seconds=self._settings.lease_s)
            fact = started(run.job, self._settings.name, run.delivery_count, run.started_at, until)
            self._outbox.put(Report([fact], confirmed=lambda: self._leased(run)))

    async def _leased(self, run: Running) -> list[Held]:
        """Hold a job by its lease from now on, and let the broker forget it."""
        run.lease = "held"
        self._metrics.leased.set(self._hand.leased)
        for intake in self._intakes:
            await intake.fit()
        self._look_again()
        self._log.info("job_leased", job_id=run.job.job_id, execution_id=run.job.execution_id)
        return run.release()

    async def _heartbeat(self) -> None:
        while True:
            self._outbox.put(Report(message=self._beat()))
            await self._clock.sleep(self._settings.heartbeat_s)

    def _beat(self) -> Message:
        now = self._clock.now()
        jobs = self._hand.jobs.values()
        said = {
            "worker": self._settings.name,
            "pools": list(self._settings.pools),
            "concurrency": self._settings.concurrency,
            "busy": sum(run.is_under_way for run in jobs),
            # Only these live by the lease. The broker holds the others: if this worker dies they come again, and a
            # lease that lapses meanwhile would end them as lost while they run elsewhere.
            "running": [run.job.job_id for run in jobs if run.lease == "held"],
            "lease_until": (now + timedelta(seconds=self._settings.lease_s)).isoformat(),
            "lease_s": self._settings.lease_s,
        }
        body = json.dumps({"v": 1, "heartbeat": said}).encode()
        return Message(OUTCOMES, HEARTBEAT_KEY, body, f"{self._settings.name}.{now.timestamp()}")

    async def _wind_down(self, intakes: list[asyncio.Task[Any]]) -> None:
        self._log.info("worker_stopping", running=self._hand.unfinished, grace_s=self._settings.grace_s)
        for intake in self._intakes:
            await intake.stop()
        await asyncio.wait(intakes)
        await self._give_up([run for run in self._hand.jobs.values() if not run.is_begun])
        await self._within(self._settings.grace_s, _all_of(self._tasks()))
        await self._give_up([run for run in self._hand.jobs.values() if not run.is_done])
        await self._within(FLUSH_S, self._outbox.flushed())

    async def _give_up(self, unfinished: list[Running]) -> None:
        """Hand jobs back; what the broker has forgotten ends as lost, so that the rules see it."""
        await _cancelled([run.task for run in unfinished if run.task is not None])
        for run in unfinished:
            if run.is_done:
                continue
            self._metrics.handed_back.inc()
            self._log.info("job_handed_back", job_id=run.job.job_id, lease=run.lease)
            if run.lease == "none":
                self._hand.give_up(run)
                await hand_back(run.release())
            else:
                self._conclude(run, self._lost(run))

    def _lost(self, run: Running) -> Outcome:
        outcome = failure("worker_lost", "the worker was stopped before the task ended")
        meta = {"attempt": run.job.address.attempt, "worker": self._settings.name, "job_id": run.job.job_id}
        return replace(outcome, meta=meta)

    async def _within(self, seconds: float, what: Awaitable[Any]) -> None:
        """Wait for something, but not longer."""
        both = [asyncio.ensure_future(what), asyncio.ensure_future(self._clock.sleep(seconds))]
        try:
            await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
        finally:
            await _cancelled(both)

    def _tasks(self) -> list[asyncio.Task[None]]:
        return [run.task for run in self._hand.jobs.values() if run.task is not None]

    def _look_again(self) -> None:
        for intake in self._intakes:
            intake.look_again()


async def _all_of(tasks: list[asyncio.Task[None]]) -> None:
    if tasks:
        await asyncio.wait(tasks)


def _spawned(*work: Coroutine[Any, Any, None]) -> list[asyncio.Task[Any]]:
    return [asyncio.create_task(each) for each in work]


def _raise_first(tasks: Iterable[asyncio.Task[Any]]) -> None:
    for task in tasks:
        task.result()


async def _cancelled(tasks: Iterable[asyncio.Future[Any]]) -> None:
    waiting = [task for task in tasks if not task.done()]
    for task in waiting:
        task.cancel()
    if waiting:
        with suppress(asyncio.CancelledError):
            await asyncio.wait(waiting)
