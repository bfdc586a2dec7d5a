"""Serve the deployments of the flows, or the background tasks."""

from __future__ import annotations

import sys

import prefect
from prefect import task_worker
from prefect_work import background_steps, fails_first, retried, steps

if __name__ == "__main__":
    what, at_once = sys.argv[1], int(sys.argv[2])
    if what == "flows":
        prefect.serve(steps.to_deployment("bench"), retried.to_deployment("bench"), limit=at_once)
    else:
        task_worker.serve(background_steps, fails_first, limit=at_once)
