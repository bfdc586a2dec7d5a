"""Prefect with its API server on Postgres: flows of a served deployment, and background tasks of a task worker."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import httpx

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
from bench.compare.servers import Database, servers
from shared.runtime.guarded import Guarded
from tests.support.system import free_port

PATIENCE_S = 90.0
FLOWS_AT_ONCE = 5  # the default of a served deployment
TASKS_AT_ONCE = 10  # the default of a task worker
TASKS_FOR_A_FLOW = 3  # a background task takes a fraction of the time of a flow
FLOWS_SETUP = (
    f"a served deployment, {FLOWS_AT_ONCE} runs at once, each a process, asked for every second instead of every ten; "
    "steps follow one another in that process, their states are sent meanwhile; the API server stays up in the drill"
)
TASKS_SETUP = (
    f"background tasks that call tasks, without flows; a task worker, {TASKS_AT_ONCE} at once (all in the drill); "
    "steps follow one another there, their states are sent meanwhile; the API server stays up in the drill"
)
QUIET = {
    "DO_NOT_TRACK": "1",
    "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
    "PREFECT_CLOUD_ENABLE_ORCHESTRATION_TELEMETRY": "false",
    "PREFECT_TELEMETRY_ENABLE_RESOURCE_METRICS": "false",
    "PREFECT_SERVER_UI_ENABLED": "false",
    "PREFECT_LOGGING_LEVEL": "WARNING",
}
FLOWS_OVER = "SELECT count(*) FROM flow_run WHERE state_type = 'COMPLETED'"
TASKS_OVER = "SELECT count(*) FROM task_run WHERE state_type = 'COMPLETED' AND task_key LIKE 'background_steps-%'"
STARTS = """
SELECT extract(epoch FROM start_time)::float8 FROM task_run
WHERE task_key LIKE 'step-%' ORDER BY start_time DESC LIMIT $1
"""
FLOW_ENDS = """
SELECT extract(epoch FROM end_time)::float8 FROM flow_run WHERE state_type = 'COMPLETED' ORDER BY end_time DESC LIMIT $1
"""
TASK_ENDS = """
SELECT extract(epoch FROM end_time)::float8 FROM task_run
WHERE task_key LIKE 'background_steps-%' ORDER BY end_time DESC LIMIT $1
"""
STATES = "SELECT (SELECT count(*) FROM flow_run_state) + (SELECT count(*) FROM task_run_state)"
WAITING = "SELECT count(*) FROM task_run WHERE state_name = 'AwaitingRetry'"
WAITING_IDS = "SELECT coalesce(flow_run_id, id) FROM task_run WHERE state_name = 'AwaitingRetry'"
FLOWS_COMPLETED = "SELECT count(*) FROM flow_run WHERE state_type = 'COMPLETED' AND id = ANY($1::uuid[])"
TASKS_COMPLETED = "SELECT count(*) FROM task_run WHERE state_type = 'COMPLETED' AND id = ANY($1::uuid[])"

BOTH_COMPLETED = f"SELECT ({FLOWS_COMPLETED}) + ({TASKS_COMPLETED})"


def measure(bin_folder: Path, sizes: Sizes) -> list[Figures]:
    """Return the figures of Prefect, for both ways to run steps."""
    load = Load()
    with servers() as found:
        database = found.make_database("prefect")
        port = free_port()
        environment = QUIET | {
            "PREFECT_HOME": str(found.folder / "prefect"),
            "PREFECT_API_URL": f"http://127.0.0.1:{port}/api",
            # Its listener for notifications knows no sockets.
            "PREFECT_API_DATABASE_CONNECTION_URL": database.address("postgresql+asyncpg", tcp=True),
            "PREFECT_RUNNER_POLL_FREQUENCY": "1",
            "BENCH_STEPS": str(STEPS),
            "BENCH_DELAY_S": str(DELAY_S),
        }
        programs = Programs(bin_folder, environment, found.folder)
        client = httpx.Client(base_url=f"http://127.0.0.1:{port}/api", timeout=30.0)
        try:
            _start_server(programs, client, port)
            with programs.submitter("prefect_submit.py") as submitter:
                return _figures(_Prefect(programs, client, submitter, database), sizes, load)
        finally:
            client.close()
            programs.end()


@dataclass(slots=True)
class _Prefect:
    """A server at work, and what is asked of it."""

    programs: Programs
    client: httpx.Client
    submitter: Submitter
    database: Database

    def serve(self, what: str, at_once: int) -> Guarded:
        """Start what runs flows or background tasks."""
        return self.programs.start(what, ["python", "prefect_serve.py", what, str(at_once)])

    def deployment(self, flow: str) -> str:
        """Return the id of a flow's deployment, once it is there."""
        return str(_eventually(self.client, f"/deployments/name/{flow}/bench")["id"])

    def submit_flows(self, deployment: str, count: int) -> None:
        """Ask for runs of a deployment."""
        for _ in range(count):
            asked = {"state": {"type": "SCHEDULED"}}
            self.client.post(f"/deployments/{deployment}/create_flow_run", json=asked).raise_for_status()

    def count(self, query: str, *values: Any) -> int:
        """Return what a query counts."""
        return int(self.database.rows(query, *values)[0][0])

    def stored_states(self) -> int:
        """Return how many states are stored, once all are: those of steps come a little later than the end of a run."""
        found = -1
        while (now := self.count(STATES)) != found:
            found = now
            time.sleep(0.4)
        return found


@dataclass(slots=True)
class _Way:
    """One of the ways to run steps: how to submit, and what says that runs are over."""

    prefect: _Prefect
    submit: Callable[[int], None]
    over: str
    ends: str

    def run(self, executions: int, over: int) -> None:
        """Run executions, and return when so many are over in all."""
        self.submit(executions)
        expect(self.prefect.database.await_count(self.over, over, PATIENCE_S), over, "runs of Prefect completed")

    def measure(self, executions: int, warm_up: int, singles: int) -> tuple[float, float, Latency]:
        """Return the steps a second, the states that an execution leaves, and the latency."""
        self.run(warm_up, warm_up)
        before = self.prefect.stored_states()
        steps_per_s = rate(executions, lambda: self.run(executions, warm_up + executions))
        states = (self.prefect.stored_states() - before) / executions
        done = warm_up + executions
        submitted = one_by_one(singles, lambda number: self.run(1, done + number))
        self.prefect.stored_states()
        starts = sorted(row[0] for row in self.prefect.database.rows(STARTS, singles * STEPS))
        ended = sorted(row[0] for row in self.prefect.database.rows(self.ends, singles))
        return steps_per_s, round(states, 1), latency(submitted, in_groups(starts), ended)


def _figures(prefect: _Prefect, sizes: Sizes, load: Load) -> list[Figures]:
    worker = prefect.serve("flows", FLOWS_AT_ONCE)
    submit_flows = partial(prefect.submit_flows, prefect.deployment("steps"))
    flows_way = _Way(prefect, submit_flows, FLOWS_OVER, FLOW_ENDS)
    flows = flows_way.measure(sizes.executions, 1, sizes.singles)
    worker.kill()
    many = sizes.executions * TASKS_FOR_A_FLOW
    worker = prefect.serve("tasks", TASKS_AT_ONCE)
    submit_tasks = partial(prefect.submitter.ask, "background_steps")
    tasks_way = _Way(prefect, submit_tasks, TASKS_OVER, TASK_ENDS)
    tasks = tasks_way.measure(many, sizes.warm_up, sizes.singles * 3)
    worker.kill()
    drills = _drill(prefect, (flows_way, tasks_way), flows=sizes.retried // 2, tasks=sizes.retried)
    return [
        Figures(name, pinned("prefect"), count, speed, times, drill, None, states, setup, load.seen())
        for name, count, (speed, states, times), drill, setup in (
            ("Prefect, flows", sizes.executions, flows, drills[0], FLOWS_SETUP),
            ("Prefect, background tasks", many, tasks, drills[1], TASKS_SETUP),
        )
    ]


def _drill(prefect: _Prefect, ways: Sequence[_Way], flows: int, tasks: int) -> tuple[Drill, Drill]:
    """Kill both kinds of workers while runs wait; those count that waited, for a process takes a second to start."""
    workers = [prefect.serve("flows", flows), prefect.serve("tasks", tasks)]
    prefect.submit_flows(prefect.deployment("retried"), flows)
    expect(prefect.database.await_count(WAITING, 1, PATIENCE_S), 1, "flows waited")
    prefect.submitter.ask("fails_first", tasks)
    prefect.database.await_count(WAITING, flows + tasks, DELAY_S - 6)
    waited = [row[0] for row in prefect.database.rows(WAITING_IDS)]
    killed = time.monotonic()
    for worker in workers:
        worker.kill()
    prefect.serve("flows", flows)
    prefect.serve("tasks", tasks)
    prefect.database.await_count(BOTH_COMPLETED, len(waited), left_s(killed), waited)
    # What is submitted now must run, or the drill says nothing about what waited.
    for way in ways:
        way.run(1, prefect.count(way.over) + 1)
    are_flows = prefect.count("SELECT count(*) FROM flow_run WHERE id = ANY($1::uuid[])", waited)
    return (
        Drill(are_flows, prefect.count(FLOWS_COMPLETED, waited)),
        Drill(len(waited) - are_flows, prefect.count(TASKS_COMPLETED, waited)),
    )


def _start_server(programs: Programs, client: httpx.Client, port: int) -> None:
    server = programs.start("server", ["prefect", "server", "start", "--host", "127.0.0.1", "--port", str(port)])
    try:
        _eventually(client, "/health")
    except RuntimeError as error:
        raise RuntimeError(f"{error}:\n{server.said()}") from None


def _eventually(client: httpx.Client, path: str) -> Any:
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        try:
            answer = client.get(path)
            if answer.status_code == 200:
                return answer.json()
        except httpx.HTTPError:
            pass
        time.sleep(0.1)
    raise RuntimeError(f"Prefect did not answer to {path}")
