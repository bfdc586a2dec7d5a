"""How many facts a second are stored, one by one and together, and how many decisions a second are committed."""

from __future__ import annotations

import asyncio
import json
import shutil
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from time import perf_counter
from uuid import uuid4

from shared.contracts import payloads as p
from shared.contracts.events import Event
from shared.contracts.ids import Address, fact_id, job_id
from shared.contracts.jobs import Job
from shared.engine.decide import requested
from shared.engine.turn import Decision
from shared.runtime.embedded import PrivatePostgres
from shared.store.migrate import upgrade
from shared.store.port import Batch
from shared.store.postgres.store import PostgresStore
from shared.store.records import DecisionRecord, NewExecution

EXECUTIONS = 100
OUTCOME = {"status": "success", "result": {"n": 1}, "error": None, "meta": {"attempt": 1, "duration_ms": 12.5}}


async def make_executions(store: PostgresStore, count: int) -> list[str]:
    """Create executions whose requests are applied, and return their ids."""
    new = [
        NewExecution(requested(str(uuid4()), p.ExecutionRequested("plan", {"a": 1})), "bench", 1) for _ in range(count)
    ]
    made = [item.execution_id for item in await store.create_executions(new)]
    async with store.deciding(made) as batch:
        for identity in made:
            fact = replace(batch.unapplied[identity][0], seq=1)
            batch.record(identity, DecisionRecord(1, "running", (Decision((fact,)),)))
    return made


def address(step: int) -> Address:
    """Return the place of a step's only task."""
    return Address(f"s{step}", 1, None, "run", 1, 1)


def outcome(execution_id: str, step: int) -> Event:
    """Return the fact that a step's task ended."""
    place = address(step)
    job = job_id(execution_id, place)
    said = p.TaskProcessed(job, OUTCOME)
    return Event(execution_id, said, place, event_id=fact_id(job, "processed"), source="worker:bench")


async def append_rate(store: PostgresStore, facts: int, size: int, writers: int) -> float:
    """Return how many facts a second are stored in statements of a size."""
    executions = await make_executions(store, EXECUTIONS)
    said = [outcome(executions[number % EXECUTIONS], number) for number in range(facts)]

    async def write(mine: Sequence[Event]) -> None:
        for at in range(0, len(mine), size):
            await store.append_facts(mine[at : at + size])

    began = perf_counter()
    await asyncio.gather(*(write(said[number::writers]) for number in range(writers)))
    return facts / (perf_counter() - began)


async def decision_figures(store: PostgresStore, size: int, batches: int) -> tuple[float, float]:
    """Return how many decisions a second are committed in batches of a size, and the milliseconds of a usual batch."""
    executions = await make_executions(store, size)
    took: list[float] = []
    for step in range(batches):
        await store.append_facts([outcome(execution, step) for execution in executions])
        began = perf_counter()
        async with store.deciding(executions) as batch:
            for execution in executions:
                batch.record(execution, usual_step(batch, execution, step))
        took.append(perf_counter() - began)
    return size * batches / sum(took), sorted(took)[batches // 2] * 1000


def usual_step(batch: Batch, execution_id: str, step: int) -> DecisionRecord:
    """Return what a step without retries leads to: the outcome applied, five events, the next job."""
    head = batch.executions[execution_id]
    events = list(_numbered(batch, execution_id, head.version, step))
    job = Job(job_id(execution_id, address(step + 1)), execution_id, address(step + 1), "noop", available_at=batch.now)
    return DecisionRecord(events[-1].seq or 0, "running", (Decision(tuple(events), (job,)),))


def _numbered(batch: Batch, execution_id: str, version: int, step: int) -> Iterator[Event]:
    (fact,) = batch.unapplied[execution_id]
    yield replace(fact, seq=version + 1)
    here, there = Address(f"s{step}"), Address(f"s{step + 1}")
    said: list[tuple[p.Payload, Address]] = [
        (p.TaskAdvanced("continue", decision={"matched": "else", "directive": "continue"}), address(step)),
        (p.StepCompleted({"n": 1}), here),
        (p.NextEvaluated("completed", "exclusive", ({"step": there.step, "token": step},)), here),
        (p.StepStarted((step,)), there),
        (p.TaskScheduled(job_id(execution_id, address(step + 1)), "noop", "default"), address(step + 1)),
    ]
    for place, (payload, where) in enumerate(said, version + 2):
        yield Event(execution_id, payload, where, seq=place, occurred_at=batch.now, source="orchestrator")


async def measure(url: str, scale: float) -> dict[str, float]:
    """Print the figures and return them."""
    await upgrade(url)
    store = PostgresStore.connect(url)
    out: dict[str, float] = {}
    for name, facts, size, writers in (
        ("append_one_by_one", 2_000, 1, 1),
        ("append_by_100", 20_000, 100, 1),
        ("append_by_500", 50_000, 500, 1),
        ("append_by_500_two_writers", 50_000, 500, 2),
    ):
        out[f"{name}_rows_per_s"] = round(await append_rate(store, int(facts * scale), size, writers))
        print(f"{name:<28}{out[f'{name}_rows_per_s']:>10,.0f} rows/s")
    for size, batches in ((1, 500), (10, 200), (100, 60)):
        rate, ms = await decision_figures(store, size, max(5, int(batches * scale)))
        out[f"decisions_by_{size}_per_s"], out[f"batch_of_{size}_ms_p50"] = round(rate), round(ms, 2)
        print(f"decisions in batches of {size:<4}{rate:>10,.0f} a second, {ms:.2f} ms a batch")
    await store.close()
    return out


def main() -> None:
    """Measure on a private server with durable commits, or on the database that is named."""
    if len(sys.argv) > 1:
        figures = asyncio.run(measure(sys.argv[1], 1.0))
    else:
        folder = Path(tempfile.mkdtemp(prefix="redrive-bench-"))
        folder.chmod(0o755)
        server = PrivatePostgres(folder)
        server.start()
        try:
            figures = asyncio.run(measure(server.url(), 1.0))
        finally:
            server.stop()
            shutil.rmtree(folder)
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
