"""`redrive workers`: who works, in which pools, and when each was heard of."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from services.cli.resources import add_server_options, ask, say, table

if TYPE_CHECKING:
    from services.cli.resources_api import ResourcesApi

_HEADS = ("worker", "pools", "concurrency", "running", "host", "release", "seen")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what the command takes."""
    parser.add_argument("--within", metavar="SECONDS", type=float, help="only those heard of within so long")
    add_server_options(parser)


def run(arguments: argparse.Namespace) -> int:
    """Show the workers."""

    async def work(api: ResourcesApi) -> int:
        items = (await api.get("/workers", silent=arguments.within))["items"]
        names = ("worker_id", "pools", "concurrency", "running", "host", "release", "seen_at")
        rows = [[item[name] for name in names] for item in items]
        return say(arguments, {"items": items}, table(_HEADS, rows, "no worker was heard of"))

    return ask("workers", arguments, work)
