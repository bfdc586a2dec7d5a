"""Celery on RabbitMQ, with its results in Postgres."""

from __future__ import annotations

import os
import time
from pathlib import Path

from bench.compare.measures import (
    DELAY_S,
    STEPS,
    Drill,
    Figures,
    Latency,
    Load,
    Sizes,
    expect,
    in_groups,
    latency,
    left_s,
    one_by_one,
    rate,
)
from bench.compare.programs import Programs, Submitter
from bench.compare.scratch import pinned
from bench.compare.servers import Database, broker, servers, wipe
from shared.runtime.guarded import Guarded
from tests.support.rabbit import RabbitNode

PATIENCE_S = 120.0
# The best that was found. As many processes as cores, the default, make fewer steps, for a task waits much of its time
# for the database. Threads and gevent make far fewer: outside forked processes Celery connects anew for each result.
PROCESSES = 4 * (os.cpu_count() or 1)
SETUP = (
    f"chains of tasks; one worker of {PROCESSES} processes (prefork); quorum queues, native delayed delivery, "
    "confirmed messages, late acknowledgement; results in Postgres"
)
TABLE = "celery_taskmeta"
SUCCEEDED = f"SELECT count(*) FROM {TABLE} WHERE status = 'SUCCESS'"
WAITING = f"SELECT count(*) FROM {TABLE} WHERE status = 'RETRY'"
DONE = f"""
SELECT extract(epoch FROM date_done)::float8 FROM {TABLE} WHERE status = 'SUCCESS' ORDER BY date_done DESC LIMIT $1
"""


def measure(bin_folder: Path, sizes: Sizes) -> list[Figures]:
    """Return the figures of Celery."""
    load = Load()
    with servers() as found, broker() as node:
        database = found.make_database("celery")
        environment = {
            "BENCH_BROKER": node.url,
            "BENCH_RESULTS": database.address("db+postgresql+psycopg"),
            "BENCH_STEPS": str(STEPS),
            "BENCH_DELAY_S": str(DELAY_S),
        }
        programs = Programs(bin_folder, environment, found.folder)
        try:
            with programs.submitter("celery_submit.py") as submitter:
                return [_figures(_Celery(programs, submitter, database, node), sizes, load)]
        finally:
            programs.end()


class _Celery:
    """A worker at work, and what is asked of it."""

    def __init__(self, programs: Programs, submitter: Submitter, database: Database, node: RabbitNode) -> None:
        self.programs = programs
        self.submitter = submitter
        self.database = database
        self.node = node
        self.worker = self.start_worker()

    def start_worker(self) -> Guarded:
        """Start the worker; it connects when its servers are there."""
        options = ["--pool", "prefork", "--concurrency", str(PROCESSES), "--loglevel", "WARNING"]
        return self.programs.start("worker", ["celery", "-A", "celery_app", "worker", *options])

    def warm_up(self, executions: int) -> None:
        """Run executions that nobody times, the first of which make the table."""
        self.submitter.ask("steps", executions)
        if not self._await_table():
            raise RuntimeError(f"Celery made no table:\n{self.worker.said()}")
        self.await_succeeded(executions * STEPS)

    def run(self, what: str, executions: int, succeeded: int) -> None:
        """Run executions, and return when so many tasks succeeded in all."""
        self.submitter.ask(what, executions)
        self.await_succeeded(succeeded)

    def rate(self, what: str, executions: int, stored_each: int) -> float:
        """Return the steps a second of executions that are submitted at once."""
        wanted = self.succeeded() + executions * stored_each
        return rate(executions, lambda: self.run(what, executions, wanted))

    def await_succeeded(self, wanted: int) -> None:
        """Return when so many tasks succeeded in all."""
        found = self.database.await_count(SUCCEEDED, wanted, PATIENCE_S)
        expect(found, wanted, f"tasks succeeded:\n{self.worker.said()}")

    def succeeded(self) -> int:
        """Return how many tasks succeeded so far."""
        return int(self.database.rows(SUCCEEDED)[0][0])

    def _await_table(self) -> bool:
        deadline = time.monotonic() + PATIENCE_S
        while not self.database.has_table(TABLE):
            if time.monotonic() > deadline:
                return False
            time.sleep(0.1)
        return True


def _figures(celery: _Celery, sizes: Sizes, load: Load) -> Figures:
    celery.warm_up(sizes.warm_up)
    before = _rows(celery)
    steps_per_s = celery.rate("steps", sizes.executions, stored_each=STEPS)
    stored = _rows(celery) - before
    only_last = celery.rate("only_last_stored", sizes.executions // 2, stored_each=1)
    return Figures(
        name="Celery",
        version=pinned("celery"),
        executions=sizes.executions,
        steps_per_s=steps_per_s,
        latency=_latency(celery, sizes.singles),
        worker_killed=_drill(celery, sizes.retried, wiped=False),
        broker_wiped=_drill(celery, sizes.retried, wiped=True),
        rows_per_execution=round(stored / sizes.executions, 1),
        setup=SETUP,
        load=load.seen(),
        also={"steps_per_s_if_only_the_last_result_is_stored": only_last},
    )


def _rows(celery: _Celery) -> int:
    return int(celery.database.rows(f"SELECT count(*) FROM {TABLE}")[0][0])


def _latency(celery: _Celery, executions: int) -> Latency:
    before = celery.succeeded()
    submitted = one_by_one(executions, lambda number: celery.run("steps", 1, before + number * STEPS))
    done = sorted(row[0] for row in celery.database.rows(DONE, executions * STEPS))
    marks = in_groups(done)
    return latency(submitted, marks, [each[-1] for each in marks])


def _drill(celery: _Celery, executions: int, *, wiped: bool) -> Drill:
    # What an earlier drill lost says RETRY for ever.
    lost = int(celery.database.rows(WAITING)[0][0])
    before = celery.succeeded()
    celery.submitter.ask("fails_first", executions)
    waiting = celery.database.await_count(WAITING, lost + executions, DELAY_S - 3)
    expect(waiting - lost, executions, f"waited:\n{celery.worker.said()}")
    killed = time.monotonic()
    celery.worker.kill()
    if wiped:
        wipe(celery.node)
    celery.worker = celery.start_worker()
    done = celery.database.await_count(SUCCEEDED, before + executions, left_s(killed))
    # What is submitted now must run, or the drill says nothing about what waited.
    celery.run("steps", 1, done + STEPS)
    return Drill(executions, done - before)
