"""`redrive dead`: messages that died and that nobody could read, sent again or thrown away."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING
from urllib.parse import quote

from services.cli.resources import add_server_options, ask, say, table

if TYPE_CHECKING:
    from services.cli.resources_api import ResourcesApi

_HEADS = ("letter", "kind", "queue", "bytes", "died", "reason")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what the command takes."""
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    listing = actions.add_parser("list", help="show dead letters, the newest first", allow_abbrev=False)
    listing.add_argument("--limit", metavar="N", type=int, default=100, help="at most so many (default: 100)")
    redriving = actions.add_parser("redrive", help="send one again to the queue it died in", allow_abbrev=False)
    discarding = actions.add_parser("discard", help="throw one away", allow_abbrev=False)
    for each in (redriving, discarding):
        each.add_argument("letter", metavar="LETTER", help="the dead letter's id")
    for each in (listing, redriving, discarding):
        add_server_options(each)


def run(arguments: argparse.Namespace) -> int:
    """Do what was asked."""
    return ask(f"dead {arguments.action}", arguments, lambda api: _asked(api, arguments))


async def _asked(api: ResourcesApi, arguments: argparse.Namespace) -> int:
    if arguments.action == "list":
        items = await api.listed("/dead-letters", arguments.limit)
        names = ("dead_letter_id", "kind", "queue", "size", "died_at", "reason")
        rows = [[item[name] for name in names] for item in items]
        return say(arguments, {"items": items}, table(_HEADS, rows, "there are no dead letters"))
    found = await api.post(f"/dead-letters/{quote(arguments.letter, safe='')}:{arguments.action}")
    return say(arguments, found, [f"{found['dead_letter_id']} is {found['outcome']}"])
