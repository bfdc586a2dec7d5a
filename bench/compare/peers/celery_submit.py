"""Submit what a line of standard input asks for, and answer with a line when all of it is published."""

from __future__ import annotations

import os
import sys

from celery import chain
from celery_app import fails_first, step

STEPS = int(os.environ["BENCH_STEPS"])
DELAY_S = int(os.environ["BENCH_DELAY_S"])


def submit(what: str) -> None:
    """Submit one execution."""
    if what == "fails_first":
        fails_first.apply_async((DELAY_S,))
        return
    ignored = what == "only_last_stored"
    steps = [step.si().set(ignore_result=ignored) for _ in range(STEPS - 1)]
    chain(*steps, step.si()).apply_async()


for line in sys.stdin:
    asked, count = line.split()
    for _ in range(int(count)):
        submit(asked)
    print("submitted", flush=True)
