"""The Celery application: set up to lose nothing, as its documentation describes."""

from __future__ import annotations

import os

from celery import Celery

app = Celery("bench", broker=os.environ["BENCH_BROKER"], backend=os.environ["BENCH_RESULTS"])
app.conf.update(
    task_default_queue_type="quorum",
    # Delays are kept by the broker instead of the worker, which needs a topic exchange.
    task_default_exchange_type="topic",
    task_acks_late=True,
    task_reject_on_worker_lost=True,
    broker_transport_options={"confirm_publish": True},
    broker_connection_retry_on_startup=True,
    worker_cancel_long_running_tasks_on_connection_loss=True,
)


@app.task
def step() -> None:
    """Do nothing."""


@app.task(bind=True, max_retries=1)
def fails_first(self, delay_s: int) -> None:
    """Fail the first time, and ask to be tried again."""
    if self.request.retries == 0:
        raise self.retry(countdown=delay_s)
