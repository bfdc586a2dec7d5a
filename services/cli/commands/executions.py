"""`redrive executions`: list, look at, follow, stop, take up again, replay and simulate executions on a server."""

from __future__ import annotations

import argparse
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from services.cli.exit_codes import ExitCode
from services.cli.output import add_colour_option, complain, printable
from services.cli.resources import add_server_options, ask, say, table

if TYPE_CHECKING:
    from services.cli.resources_api import ResourcesApi

STATUSES = ("new", "running", "paused", "completed", "failed", "cancelled")
_HEADS = ("execution", "path", "status", "steps", "retries", "created")
_HELP = {
    "list": "show executions, the newest first",
    "show": "show an execution: how far it is, how it ended, which attempts wait",
    "watch": "follow an execution to its end; exit code 3 if it does not end well",
    "events": "show the log, one event a line",
    "explain": "show the decisions in words",
    "timeline": "show how long every attempt waited, lay in its queue and ran",
    "cancel": "end an execution",
    "pause": "take no decision until it is resumed",
    "resume": "take decisions again",
    "redrive": "run again what failed, or from a step on",
    "replay": "take every decision of the log again and compare it with the recorded one",
    "simulate": "lay an edited playbook over the recorded run; nothing is executed",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what the command takes."""
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    made = {name: actions.add_parser(name, help=text, allow_abbrev=False) for name, text in _HELP.items()}
    for name, action in made.items():
        if name != "list":
            action.add_argument("execution", metavar="EXECUTION", help="the execution's id")
    _add_list_options(made["list"])
    made["watch"].add_argument("--timeout", metavar="SECONDS", type=float, help="give up after so long, exit code 7")
    add_colour_option(made["watch"])
    made["events"].add_argument("--type", metavar="NAME", action="append", help="only events of this type or alias")
    made["events"].add_argument("--after", metavar="SEQ", type=int, default=0, help="only events after this place")
    made["events"].add_argument("--limit", metavar="N", type=int, default=1000, help="at most so many (default: 1000)")
    made["explain"].add_argument("--node", help="only what was decided at this node or below it")
    for name in ("events", "timeline"):
        made[name].add_argument("--step", help="only what happened in this step")
    for name in ("cancel", "pause", "resume", "redrive"):
        made[name].add_argument("--reason", help="why; it is kept in the log")
    made["redrive"].add_argument("--step", help="run again from this step on, instead of what failed")
    made["redrive"].add_argument("--workload", metavar="FILE", help="another workload, from a YAML or JSON file")
    made["redrive"].add_argument("--version", help="another version of the playbook: a number, or latest")
    edited = made["simulate"].add_mutually_exclusive_group(required=True)
    edited.add_argument("--playbook", metavar="FILE", help="the edited playbook")
    edited.add_argument("--version", help="another version of the playbook: a number, or latest")
    for action in made.values():
        add_server_options(action)


def _add_list_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--status", choices=STATUSES, help="only executions that stand so")
    parser.add_argument("--path", help="only executions of this playbook")
    parser.add_argument("--label", metavar="NAME=VALUE", action="append", help="only executions with this label")
    parser.add_argument("--since", metavar="TIME", help="only those made since, such as 2024-05-01T12:00:00Z")
    parser.add_argument("--q", metavar="TEXT", help="looked for in path, failure and id")
    parser.add_argument("--limit", metavar="N", type=int, default=50, help="at most so many (default: 50)")


def run(arguments: argparse.Namespace) -> int:
    """Do what was asked."""
    from services.cli.run_inputs import InputError

    actions: dict[str, Callable[[ResourcesApi, argparse.Namespace], Awaitable[int]]] = {
        "list": _list,
        "show": _show,
        "watch": _watch,
        "events": _events,
        "explain": _explain,
        "timeline": _timeline,
        "redrive": _control,
        "cancel": _control,
        "pause": _control,
        "resume": _control,
        "replay": _replay,
        "simulate": _simulate,
    }
    try:
        return ask(f"executions {arguments.action}", arguments, lambda api: actions[arguments.action](api, arguments))
    except InputError as problem:
        complain(f"redrive executions {arguments.action}: {problem}")
        return ExitCode.INVALID


async def _list(api: ResourcesApi, arguments: argparse.Namespace) -> int:
    items = await api.listed(
        "/executions",
        arguments.limit,
        status=arguments.status,
        path=arguments.path,
        label=arguments.label,
        since=arguments.since,
        q=arguments.q,
    )
    return say(arguments, {"items": items}, table(_HEADS, [_row(item) for item in items], "there are no executions"))


def _row(item: dict[str, Any]) -> list[Any]:
    steps = f"{item['progress']['steps_ended']}/{item['progress']['steps_started']}"
    return [item["execution_id"], item["path"], item["status"], steps, item["retries"], item["created_at"]]


async def _show(api: ResourcesApi, arguments: argparse.Namespace) -> int:
    from services.cli.execution_words import about

    found = await api.execution(_path(arguments.execution))
    return say(arguments, found, about(found))


async def _watch(api: ResourcesApi, arguments: argparse.Namespace) -> int:
    import asyncio

    from services.cli.execution_words import about
    from services.cli.run_show import showing

    identity = _path(arguments.execution)
    before = await api.execution(identity)
    try:
        async with asyncio.timeout(arguments.timeout):
            async with showing(before["path"], quiet=arguments.format == "json", colour=arguments.color) as show:
                async for event in api.events(identity):
                    show.tell(event)
    except TimeoutError:
        complain(f"redrive executions watch: not over within {arguments.timeout:g} s")
        return ExitCode.TIMED_OUT
    found = await api.execution(identity)
    say(arguments, found, about(found))
    return ExitCode.OK if found["status"] == "completed" else ExitCode.EXECUTION_FAILED


async def _events(api: ResourcesApi, arguments: argparse.Namespace) -> int:
    from services.cli.execution_words import event_line

    items = await api.log(
        _path(arguments.execution), arguments.limit, after=arguments.after, type=arguments.type, step=arguments.step
    )
    return say(arguments, {"items": items}, map(event_line, items))


async def _explain(api: ResourcesApi, arguments: argparse.Namespace) -> int:
    found = await api.get(f"/executions/{_path(arguments.execution)}/explain", node=arguments.node)
    lines = [f"{item['seq']:>6}  {printable(item['node'])}: {printable(item['text'])}" for item in found["items"]]
    return say(arguments, found, lines or ["nothing was decided yet"])


async def _timeline(api: ResourcesApi, arguments: argparse.Namespace) -> int:
    from services.cli.execution_words import timeline_lines

    found = await api.get(f"/executions/{_path(arguments.execution)}/timeline", step=arguments.step)
    return say(arguments, found, timeline_lines(found))


async def _control(api: ResourcesApi, arguments: argparse.Namespace) -> int:
    from services.cli.run_inputs import workload_of

    body: dict[str, Any] = {"reason": arguments.reason}
    if arguments.action == "redrive":
        version = arguments.version
        body["step"] = arguments.step
        body["version"] = int(version) if version is not None and version.isdecimal() else version
        body["workload"] = None if arguments.workload is None else workload_of(arguments.workload, [])
    path = f"/executions/{_path(arguments.execution)}:{arguments.action}"
    found = await api.post(path, body)
    return say(arguments, found, [f"{arguments.action} is asked of {found['execution_id']}"])


async def _replay(api: ResourcesApi, arguments: argparse.Namespace) -> int:
    from services.cli.replaying import replayed

    found = await replayed(api, _path(arguments.execution))
    said = [f"{found.events} events, {len(found.differences)} differences", *map(printable, found.differences)]
    data = {"execution_id": arguments.execution, "events": found.events, "differences": found.differences}
    say(arguments, data, said)
    return ExitCode.OK if not found.differences else ExitCode.CONFLICT


async def _simulate(api: ResourcesApi, arguments: argparse.Namespace) -> int:
    from services.cli.execution_words import simulation_lines
    from services.cli.run_inputs import read_playbook

    version = arguments.version
    body: dict[str, Any] = {"version": int(version) if version is not None and version.isdecimal() else version}
    if arguments.playbook is not None:
        body["playbook"] = read_playbook(arguments.playbook, colour=False).text
    found = await api.post(f"/executions/{_path(arguments.execution)}:simulate", body)
    return say(arguments, found, simulation_lines(found))


def _path(identity: str) -> str:
    from urllib.parse import quote

    return quote(identity, safe="")
