"""`redrive playbooks`: the catalogue of a server."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING
from urllib.parse import quote

from services.cli.exit_codes import ExitCode
from services.cli.output import complain
from services.cli.resources import add_server_options, ask, say, table

if TYPE_CHECKING:
    from services.cli.resources_api import ResourcesApi

_HEADS = ("path", "version", "digest", "created")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what the command takes."""
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    listing = actions.add_parser("list", help="show the latest version of each playbook", allow_abbrev=False)
    listing.add_argument("--limit", metavar="N", type=int, default=200, help="at most so many (default: 200)")
    showing = actions.add_parser("show", help="print the text of a playbook", allow_abbrev=False)
    showing.add_argument("path", metavar="PATH")
    showing.add_argument("--version", metavar="N", type=int, help="this version instead of the latest")
    versions = actions.add_parser("versions", help="show every version of a playbook", allow_abbrev=False)
    versions.add_argument("path", metavar="PATH")
    putting = actions.add_parser("register", help="put a playbook into the catalogue", allow_abbrev=False)
    putting.add_argument("file", metavar="FILE")
    putting.add_argument("--path", help="where it goes, if its text does not say")
    for each in (listing, showing, versions, putting):
        add_server_options(each)


def run(arguments: argparse.Namespace) -> int:
    """Do what was asked."""
    from services.cli.run_inputs import InputError

    try:
        return ask(f"playbooks {arguments.action}", arguments, lambda api: _asked(api, arguments))
    except InputError as problem:
        complain(f"redrive playbooks {arguments.action}: {problem}")
        return ExitCode.INVALID


async def _asked(api: ResourcesApi, arguments: argparse.Namespace) -> int:
    match arguments.action:
        case "register":
            return await _register(api, arguments)
        case "show":
            version = "" if arguments.version is None else f"/versions/{arguments.version}"
            found = await api.get(f"/playbooks/{quote(arguments.path, safe='/')}{version}")
            return say(arguments, found, [found["source"].rstrip("\n")])
        case "versions":
            items = (await api.get(f"/playbooks/{quote(arguments.path, safe='/')}/versions"))["items"]
        case _:
            items = await api.listed("/playbooks", arguments.limit)
    rows = [(item["path"], item["version"], item["digest"][:12], item["created_at"]) for item in items]
    return say(arguments, {"items": items}, table(_HEADS, rows, "there are no playbooks"))


async def _register(api: ResourcesApi, arguments: argparse.Namespace) -> int:
    from services.cli.run_inputs import read_playbook

    text = read_playbook(arguments.file, colour=False).text
    found = await api.post("/playbooks", {"source": text, "path": arguments.path})
    new = "registered" if found["created"] else "known already"
    for warning in found["warnings"]:
        complain(f"{arguments.file}:{warning['line']}:{warning['column']}: {warning['message']}")
    return say(arguments, found, [f"{found['path']} version {found['version']} ({new})"])
