"""How Redrive compares with Celery and Prefect: the same work on the same servers, one system after the other."""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any

from bench.compare import celery_peer, prefect_peer, redrive_peer
from bench.compare.measures import Figures, Sizes
from bench.compare.report import print_json, print_table
from bench.compare.scratch import peers_environment
from bench.compare.servers import postgres_from, programs_with_trigrams

NO_TRIGRAMS = "Prefect needs a Postgres with pg_trgm: install one, for example with 'apt-get install postgresql'"
Work = Callable[[], list[Figures]]


class TimeIsUpError(Exception):
    """The whole takes longer than it may."""


def main() -> None:
    """Print the table, and as the last line all figures as JSON."""
    options = _options()
    bin_folder = peers_environment() if options.peers else Path()
    programs = programs_with_trigrams() if "prefect" in options.peers else None
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    signal.signal(signal.SIGALRM, _time_is_up)
    signal.alarm(options.limit)
    found, missing = _measured(_works(bin_folder, options), programs)
    signal.alarm(0)
    circumstances = {"postgres": _version(programs), "cores": os.cpu_count()}
    print_table(found, circumstances)
    for name, reason in missing.items():
        print(f"{name} was not measured: {reason}")
    print_json(found, circumstances, missing)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.compare", description=__doc__)
    add = parser.add_argument
    add("--peers", default="celery,prefect", type=lambda text: [each for each in text.split(",") if each])
    add("--executions", type=int, default=500, help="of Redrive, and of Celery")
    add("--prefect-executions", type=int, default=8, help="of flows; three times as many background tasks")
    add("--retried", type=int, default=200, help="executions in the drill; a tenth for Prefect")
    add("--limit", type=int, default=360, metavar="SECONDS", help="what is not measured by then is left out")
    options = parser.parse_args()
    if unknown := set(options.peers) - {"celery", "prefect"}:
        parser.error(f"no such peer: {', '.join(sorted(unknown))}")
    return options


def _works(bin_folder: Path, options: argparse.Namespace) -> dict[str, Work]:
    many = Sizes(executions=options.executions, warm_up=100, singles=40, retried=options.retried)
    few = Sizes(executions=options.prefect_executions, warm_up=4, singles=3, retried=max(2, options.retried // 10))
    works: dict[str, Work] = {"redrive": partial(redrive_peer.measure, many)}
    if "celery" in options.peers:
        works["celery"] = partial(celery_peer.measure, bin_folder, many)
    if "prefect" in options.peers:
        works["prefect"] = partial(prefect_peer.measure, bin_folder, few)
    return works


def _measured(works: dict[str, Work], programs: Path | None) -> tuple[list[Figures], dict[str, str]]:
    """Return the figures, and why some are missing."""
    found: list[Figures] = []
    missing: dict[str, str] = {}
    with postgres_from(programs):
        for name, work in works.items():
            if name == "prefect" and programs is None:
                missing[name] = NO_TRIGRAMS
                continue
            print(f"measuring {name} ...", flush=True)
            began = time.monotonic()
            try:
                found += work()
                print(f"  took {time.monotonic() - began:.0f} s", flush=True)
            except TimeIsUpError:
                missing |= dict.fromkeys(list(works)[list(works).index(name) :], "the time was up")
                break
            except RuntimeError as error:
                missing[name] = str(error)
    return found, missing


def _time_is_up(_number: int, _frame: FrameType | None) -> Any:
    raise TimeIsUpError


def _version(programs: Path | None) -> str:
    if programs is None:
        return "of the wheel"
    command = [str(programs / "postgres"), "--version"]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


if __name__ == "__main__":
    main()
