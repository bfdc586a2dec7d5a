"""`redrive queues`: what waits in every pool, who serves it, and which pools nobody serves."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from services.cli.output import complain, printable
from services.cli.resources import add_server_options, ask, say, table

if TYPE_CHECKING:
    from services.cli.resources_api import ResourcesApi

_HEADS = ("pool", "served", "workers", "ready", "waiting", "unrouted", "delayed", "leased", "since")
_INTERNAL = ("queue", "exists", "served", "ready", "consumers")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what the command takes."""
    parser.add_argument("--all", action="store_true", help="also the queues that the services use among themselves")
    add_server_options(parser)


def run(arguments: argparse.Namespace) -> int:
    """Show the pools; of one that has work and that nobody serves, say on stderr what to do."""

    async def work(api: ResourcesApi) -> int:
        items = (await api.get("/queues"))["items"]
        shown = [item for item in items if arguments.all or item["pool"] is not None]
        code = say(arguments, {"items": shown}, _lines(shown))
        for item in shown:
            if item["pool"] is not None and item["waiting"] and not item["served"]:
                complain(_advice(item))
        return code

    return ask("queues", arguments, work)


def _lines(items: list[dict[str, Any]]) -> list[str]:
    pools = [item for item in items if item["pool"] is not None]
    internal = [item for item in items if item["pool"] is None]
    lines = table(_HEADS, [_row(item) for item in pools], "there are no pools")
    if internal:
        rows = [(item["name"], *(item[name] for name in _INTERNAL[1:])) for item in internal]
        lines += ["", *table(_INTERNAL, rows, "there are no queues")]
    return lines


def _row(item: dict[str, Any]) -> list[Any]:
    return [item["pool"], *(item[name] for name in _HEADS[1:-1]), item["oldest_due"]]


def _advice(item: dict[str, Any]) -> str:
    pool = printable(item["pool"])
    return f"redrive queues: nobody serves the pool {pool}; start a worker with REDRIVE_POOLS={pool}"
