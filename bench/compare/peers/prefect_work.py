"""The same work for Prefect twice: as flows, and as background tasks that call tasks."""

from __future__ import annotations

import os

from prefect import flow, task
from prefect.runtime import task_run

STEPS = int(os.environ["BENCH_STEPS"])
DELAY_S = int(os.environ["BENCH_DELAY_S"])


@task
def step() -> None:
    """Do nothing."""


@task(retries=1, retry_delay_seconds=DELAY_S)
def fails_first() -> None:
    """Fail the first time."""
    if task_run.run_count == 1:
        raise RuntimeError("the first attempt fails")


@flow
def steps() -> None:
    """Run steps in sequence."""
    for _ in range(STEPS):
        step()


@flow
def retried() -> None:
    """Run a step that is tried again."""
    fails_first()


@task
def background_steps() -> None:
    """Run steps in sequence, without a flow."""
    for _ in range(STEPS):
        step()
