"""The embedded system kept up until it is asked to stop, and what people are told about it."""

from __future__ import annotations

import asyncio
import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from services.cli.dev_logs import write_one_liners
from services.cli.exit_codes import ExitCode
from services.cli.output import called_as, complain, wants_colour
from shared.errors import ConflictError, RejectedError, UnavailableError
from shared.runtime.config import SettingsError
from shared.runtime.lifecycle import stop_on_signals

if TYPE_CHECKING:
    from services.cli.embedded import Running


@dataclass(frozen=True, slots=True)
class Dev:
    """What a system that stays up was asked for."""

    data: Path
    port: int
    amqp_url: str | None
    pools: tuple[str, ...]
    colour: str = "auto"


def stay_up(dev: Dev) -> int:
    """Run the system until SIGINT or SIGTERM and return the exit code."""
    level = os.environ.get("REDRIVE_LOG_LEVEL", "INFO")
    write_one_liners(level, colour=wants_colour(dev.colour, sys.stderr))
    try:
        return asyncio.run(_until_asked_to_stop(dev))
    except ConflictError as problem:
        return _refused(str(problem), ExitCode.CONFLICT)
    except (RejectedError, SettingsError) as problem:
        return _refused(str(problem), ExitCode.INVALID)
    except UnavailableError as problem:
        return _refused(str(problem), ExitCode.UNREACHABLE)


def _refused(message: str, code: ExitCode) -> ExitCode:
    complain(f"redrive dev: {message}")
    return code


async def _until_asked_to_stop(dev: Dev) -> int:
    async with stop_on_signals() as stop:
        await _serve(dev, stop)
    return ExitCode.OK


async def _serve(dev: Dev, stop: asyncio.Event) -> None:
    from services.cli.embedded import Wanted, embedded

    wanted = Wanted(
        "dev", data=dev.data, port=dev.port, is_open=True, amqp_url=dev.amqp_url, pools=dev.pools
    )  # fmt: skip
    async with embedded(wanted) as running:
        complain(welcome(running))
        asked = asyncio.create_task(stop.wait())
        await asyncio.wait([asked, running.ended], return_when=asyncio.FIRST_COMPLETED)
        asked.cancel()
        if running.ended.done():
            running.ended.result()


def welcome(running: Running) -> str:
    """Return what people need to know: where it is, where its data is, what to try."""
    url = running.url
    auth = ' -H "Authorization: Bearer $REDRIVE_API_KEY"' if running.key else ""
    return f"""
Redrive is up at {url} (documentation: {url}/docs)
  data      {running.folder.path} ({running.database}; started again on this folder, everything goes on)
  broker    {running.broker}

Try:
  {called_as()} run examples/tour.yaml --demo --server {url}
  curl -s{auth} {url}/api/v1/executions -H 'Content-Type: application/json' \\
       -d '{{"playbook": "apiVersion: redrive.io/v1\\nworkflow: [{{step: hello, tool: noop}}]"}}'
  curl -s{auth} {url}/api/v1/executions

Ctrl-C stops it.
"""
