"""Submit the background tasks that a line of standard input asks for, and answer with a line when that is done."""

from __future__ import annotations

import sys

from prefect_work import background_steps, fails_first

TASKS = {"background_steps": background_steps, "fails_first": fails_first}

for line in sys.stdin:
    what, count = line.split()
    for _ in range(int(count)):
        TASKS[what].delay()
    print("submitted", flush=True)
