"""`redrive up`: the whole system in the background, each service a process, on private servers in a folder."""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from pathlib import Path

from services.cli.exit_codes import ExitCode
from services.cli.output import called_as, complain
from services.cli.up_folder import DEFAULT_FOLDER, LOG, LOOK_AGAIN_S, end, holder, prepare, read_state
from shared.errors import ConflictError, RejectedError, UnavailableError

DEFAULT_PORT = 8080
MOST_WORKERS = 64
UP_WITHIN_S = 180.0
TAIL_LINES = 30


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what the command takes."""
    add = parser.add_argument
    add("--workers", metavar="N", type=_workers, default=1, help=f"how many; 1 (default) to {MOST_WORKERS}")
    add("--data", metavar="DIR", default=DEFAULT_FOLDER, help=f"where everything is kept; ./{DEFAULT_FOLDER} (default)")
    add("--port", metavar="N", type=_port, default=DEFAULT_PORT, help=f"of 127.0.0.1; {DEFAULT_PORT} (default)")
    add("--attached", action="store_true", help="stay in the foreground until Ctrl-C")
    parser.epilog = (
        "Listens on the loopback and asks nobody for a key unless REDRIVE_API_KEYS is set. Needs RabbitMQ on the path. "
        "'redrive down' stops it; started again on the same folder, everything goes on."
    )


def run(arguments: argparse.Namespace) -> int:
    """Start the system and return when it is ready, or stay."""
    folder = Path(arguments.data).absolute()
    if arguments.attached:
        return _stay(folder, arguments.port, arguments.workers)
    try:
        if (found := holder(folder)) is not None:
            raise ConflictError(f"{folder} is in use by process {found.get('pid')}; 'redrive down' stops it")
        prepare(folder)
    except (ConflictError, RejectedError) as problem:
        complain(f"redrive up: {problem}")
        return ExitCode.CONFLICT if isinstance(problem, ConflictError) else ExitCode.INVALID
    return _detached(folder, arguments.port, arguments.workers)


def _stay(folder: Path, port: int, workers: int) -> int:
    import asyncio

    from services.cli.up_session import Up, stay_up

    try:
        asyncio.run(stay_up(Up(folder, port, workers, dict(os.environ))))
    except ConflictError as problem:
        complain(f"redrive up: {problem}")
        return ExitCode.CONFLICT
    except RejectedError as problem:
        complain(f"redrive up: {problem}")
        return ExitCode.INVALID
    except UnavailableError as problem:
        complain(f"redrive up: {problem}")
        return ExitCode.UNREACHABLE
    return ExitCode.OK


def _detached(folder: Path, port: int, workers: int) -> int:
    """Start a process that stays, and say where the system is once it is ready."""
    options = ["--attached", "--data", str(folder), "--port", str(port), "--workers", str(workers)]
    with (folder / LOG).open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "services.cli", "up", *options],
            stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True,
        )  # fmt: skip
    deadline = time.monotonic() + UP_WITHIN_S
    while True:
        state = read_state(folder)
        if state.get("pid") == process.pid and state.get("status") == "ready":
            print(welcome(folder, state["url"], workers))
            return ExitCode.OK
        if (code := process.poll()) is not None:
            complain(_tail(folder / LOG))
            return code or ExitCode.BROKEN
        if time.monotonic() > deadline:
            end(folder, within_s=60.0)
            complain(f"redrive up: not ready within {UP_WITHIN_S:g} s\n{_tail(folder / LOG)}")
            return ExitCode.TIMED_OUT
        time.sleep(LOOK_AGAIN_S)


def welcome(folder: Path, url: str, workers: int) -> str:
    """Return what people need to know: where it is, what runs, what to try."""
    return f"""\
Redrive is up at {url} (documentation: {url}/docs)
  processes  ingest, orchestrator, {workers} worker{"" if workers == 1 else "s"}, Postgres, RabbitMQ
  folder     {folder} (data, *.log, *.pid; started again on it, everything goes on)

Try:
  {called_as()} run examples/tour.yaml --demo --server {url}
  curl -s {url}/api/v1/executions

'{called_as()} down' (or 'make down') stops it."""


def _tail(path: Path) -> str:
    lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    return "\n".join(lines[-TAIL_LINES:])


def _port(text: str) -> int:
    if not text.isascii() or not text.isdecimal() or not 0 < int(text) <= 65535:
        raise argparse.ArgumentTypeError(f"{text!r} is no port")
    return int(text)


def _workers(text: str) -> int:
    if not text.isascii() or not text.isdecimal() or not 0 < int(text) <= MOST_WORKERS:
        raise argparse.ArgumentTypeError(f"{text!r} is no number from 1 to {MOST_WORKERS}")
    return int(text)
