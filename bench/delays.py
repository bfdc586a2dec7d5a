"""How much later than decided a task is tried again: through the ladder alone, and through the whole system."""

from __future__ import annotations

import asyncio
import json
import random
import time
from typing import Any
from uuid import uuid4

from bench.system import Bench, arguments, load_average, percentile, running
from shared.broker.ladder import entry
from shared.broker.port import Message
from shared.broker.rabbit import RabbitBroker
from shared.broker.rabbit_link import RabbitSettings
from shared.broker.topology import jobs_queue, topology
from tests.support.rabbit import new_node

PATH = "bench/delays"
POOL = "default"
PREFETCH = 500
SILENT_S = 30.0

# Every attempt but the last fails, for its input cannot be rendered.
FAILS_TWICE = """
apiVersion: redrive.io/v1
metadata: { name: bench, path: %s }
workflow:
  - step: flaky
    tool:
      kind: noop
      input: { n: "{{ 1 // (0 if _attempt < 3 else 1) }}" }
      eval:
        - { expr: "{{ outcome.status == 'error' }}", do: retry, attempts: 3, delay: %s, jitter: false }
"""

# Each decision to try again, and when the next attempt began.
PAIRS = """
SELECT d.occurred_at AS decided, s.occurred_at AS began, (d.payload ->> 'delay_s')::float8 AS delay_s
FROM redrive.execution AS x
JOIN redrive.event AS d ON d.execution_id = x.execution_id AND d.type = 'task.retry_scheduled'
JOIN redrive.event AS s ON s.execution_id = x.execution_id AND s.type = 'task.started'
    AND s.payload ->> 'job_id' = d.payload ->> 'job_id'
WHERE x.path = $1
"""


def whole_system(bench: Bench, tasks: int, delay_s: float, spread_s: float) -> dict[str, Any]:
    """Let tasks fail twice, and return how much later than asked their next attempts began."""
    bench.register(FAILS_TWICE % (PATH, delay_s))
    load, began, size = load_average(), time.monotonic(), 50
    for start in range(0, tasks, size):
        bench.submit(PATH, min(size, tasks - start))
        time.sleep(max(0.0, began + spread_s * (start + size) / tasks - time.monotonic()))
    bench.await_over(PATH, tasks, 120.0, look_every_s=0.2)
    rows = bench.rows(PAIRS, PATH)
    late = [((row["began"] - row["decided"]).total_seconds() - row["delay_s"]) * 1000 for row in rows]
    statuses = bench.rows("SELECT status, count(*) FROM redrive.execution WHERE path = $1 GROUP BY 1", PATH)
    return figures(late) | {
        "tasks": tasks,
        "retries": len(late),
        "missing": tasks * 2 - len(late),
        "spread_s": spread_s,
        "statuses": {row[0]: row[1] for row in statuses},
        "load": [load, load_average()],
    }


async def ladder_alone(messages: int, longest_s: float) -> dict[str, Any]:
    """Publish mixed delays in a burst to a broker that does nothing else, and return how late they came."""
    node = new_node()
    chance, load = random.Random(7), load_average()
    try:
        broker = await RabbitBroker.connect(RabbitSettings(node.url, name="bench"))
        await broker.declare(topology((POOL,)))
        consumer = await broker.consume(jobs_queue(POOL), PREFETCH)
        due: dict[str, float] = {}
        late: list[float] = []

        async def receive() -> None:
            while len(late) < messages:
                found = await consumer.receive(PREFETCH, SILENT_S)
                now = time.monotonic()
                if not found:
                    return
                late.extend((now - due[each.message_id]) * 1000 for each in found)
                await consumer.ack_up_to(found[-1].tag)

        receiving = asyncio.create_task(receive())
        for start in range(0, messages, 200):
            batch = []
            for _ in range(min(200, messages - start)):
                delay_s, name = chance.uniform(0.05, longest_s), str(uuid4())
                batch.append(Message(*entry(delay_s, POOL), b"{}", name))
                due[name] = time.monotonic() + delay_s
            await broker.publish_many(batch)
        await receiving
        await broker.close()
    finally:
        node.remove()
    return figures(late) | {"messages": messages, "missing": messages - len(late), "load": [load, load_average()]}


def figures(late: list[float]) -> dict[str, Any]:
    """Return how late something was, and how often it was early."""
    return {
        "overshoot_ms_p50": round(percentile(late, 0.5), 1),
        "overshoot_ms_p99": round(percentile(late, 0.99), 1),
        "overshoot_ms_max": round(max(late), 1),
        "overshoot_ms_min": round(min(late), 1),
        "early": sum(each < 0 for each in late),
    }


def main() -> None:
    """Print the figures, and as the last line all of them as JSON."""
    parser = arguments(__doc__ or "")
    parser.add_argument("--tasks", type=int, default=500)
    parser.add_argument("--delay", type=float, default=1.0, metavar="SECONDS")
    parser.add_argument("--spread", type=float, default=0.0, metavar="SECONDS", help="submit over this time")
    parser.add_argument("--ladder", type=int, default=10_000, metavar="MESSAGES", help="0 leaves the broker alone out")
    parser.add_argument("--longest", type=float, default=10.0, metavar="SECONDS", help="the longest delay of those")
    options = parser.parse_args()
    out: dict[str, Any] = {}
    if options.ladder:
        out = {"ladder": asyncio.run(ladder_alone(options.ladder, options.longest))}
        print(f"the ladder alone: {out['ladder']}")
    with running(options) as bench:
        bench.register(FAILS_TWICE % ("bench/warm-up", 0.2))
        bench.submit("bench/warm-up", 100)
        bench.await_over("bench/warm-up", 100, 60.0)
        out = whole_system(bench, options.tasks, options.delay, options.spread) | out
    print(json.dumps(out))


if __name__ == "__main__":
    main()
