"""`redrive jobs`: what is to do, is under way or is done; work that waits is hurried, re-timed, cancelled."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from services.cli.resources import add_server_options, ask, say, table

if TYPE_CHECKING:
    from services.cli.resources_api import ResourcesApi

STATES = ("queued", "delayed", "leased", "completed", "dead", "cancelled")
_HEADS = ("job", "execution", "node", "kind", "pool", "status", "attempt", "due")
_ASKS = {
    "run-now": "have a job that waits run at once",
    "reschedule": "give a job that waits another time",
    "cancel": "end a job that waits with an outcome that the rules see",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what the command takes."""
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    listing = actions.add_parser("list", help="show jobs by the time they are due", allow_abbrev=False)
    listing.add_argument("--state", choices=STATES, help="only jobs that stand so")
    listing.add_argument("--pool", help="only jobs of this pool")
    listing.add_argument("--execution", metavar="ID", help="only jobs of this execution")
    listing.add_argument("--limit", metavar="N", type=int, default=100, help="at most so many (default: 100)")
    showing = actions.add_parser("show", help="show a job", allow_abbrev=False)
    made = {name: actions.add_parser(name, help=text, allow_abbrev=False) for name, text in _ASKS.items()}
    for each in (showing, *made.values()):
        each.add_argument("job", metavar="JOB", help="the job's id")
    for each in made.values():
        each.add_argument("--reason", help="why; it is kept in the log")
    when = made["reschedule"].add_mutually_exclusive_group(required=True)
    when.add_argument("--at", metavar="TIME", help="such as 2024-05-01T12:00:00Z")
    when.add_argument("--in", metavar="DURATION", dest="delay", help="from now, such as 90, 15m or 2h")
    for each in (listing, showing, *made.values()):
        add_server_options(each)


def run(arguments: argparse.Namespace) -> int:
    """Do what was asked."""
    from services.cli.exit_codes import ExitCode
    from services.cli.output import complain
    from shared.templates.durations import parse_duration

    body: dict[str, Any] = {"reason": getattr(arguments, "reason", None)}
    if arguments.action == "reschedule":
        try:
            delay_s = None if arguments.delay is None else parse_duration(arguments.delay)
        except ValueError as problem:
            complain(f"redrive jobs reschedule: --in: {problem}")
            return ExitCode.INVALID
        body |= {"available_at": arguments.at, "delay_s": delay_s}
    return ask(f"jobs {arguments.action}", arguments, lambda api: _asked(api, arguments, body))


async def _asked(api: ResourcesApi, arguments: argparse.Namespace, body: dict[str, Any]) -> int:
    if arguments.action == "list":
        filters = {"state": arguments.state, "pool": arguments.pool, "execution_id": arguments.execution}
        items = await api.listed("/jobs", arguments.limit, **filters)
        return say(arguments, {"items": items}, _lines(items))
    path = f"/jobs/{quote(arguments.job, safe='')}"
    found = await (api.get(path) if arguments.action == "show" else api.post(f"{path}:{arguments.action}", body))
    return say(arguments, found, _lines([found]))


def _lines(items: list[dict[str, Any]]) -> list[str]:
    names = ("job_id", "execution_id", "node", "kind", "pool", "status", "attempt", "available_at")
    return table(_HEADS, [[item[name] for name in names] for item in items], "there are no jobs")
