"""`redrive run`: one playbook to its end, on the embedded system or on a server."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from services.cli.exit_codes import ExitCode
from services.cli.output import add_colour_option, complain, wants_colour


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what the command takes."""
    add = parser.add_argument
    add("file", metavar="FILE", help="a playbook; '-' is standard input")
    add("--set", metavar="K=V", action="append", default=[], help="a value of the workload, in YAML; a.b=v goes deeper")
    add("--workload", metavar="FILE", help="a YAML or JSON file with the workload; --set comes on top")
    add("--playbooks", metavar="DIR", action="append", default=[], help="playbooks it may call, by their metadata.path")
    add(
        "--credential",
        metavar="NAME=DSN",
        action="append",
        default=[],
        help="an address kept in memory for this run; NAME=@FILE reads it from a file",
    )
    add("--data", metavar="DIR", help="keep everything in this folder; it is temporary unless given")
    add("--server", metavar="URL", help="run there, and not on the embedded system")
    add("--key", metavar="KEY", help="the key for the server; REDRIVE_API_KEY unless given")
    add("--timeout", metavar="TIME", help="wait no longer than this, such as 90 or 5m, and end with 7")
    add("--log", metavar="FILE", help="append the services' logs here; they go nowhere unless given")
    add("--demo", action="store_true", help="start a flaky service on the loopback, known as workload.api_url")
    add("-q", "--quiet", action="store_true", help="show nothing but the result")
    add("-o", "--format", choices=("text", "json"), default="text", help="the result (default), or all about the run")
    add_colour_option(parser)
    parser.epilog = (
        "Progress goes to stderr, the result to stdout. Ends with 0 when the execution completed, 3 when it failed, "
        "2 when the playbook is invalid, 7 when the time was up, 130 when interrupted."
    )


def run(arguments: argparse.Namespace) -> int:
    """Run a playbook and say what came of it."""
    from services.cli.run_inputs import InputError, credentials_of, read_playbook, read_playbooks, workload_of
    from services.cli.run_session import Run, run_to_the_end

    colour = wants_colour(arguments.color, sys.stderr)
    try:
        _check(arguments)
        wanted = Run(
            playbook=read_playbook(arguments.file, colour=colour),
            others=read_playbooks(arguments.playbooks, colour=colour),
            workload=workload_of(arguments.workload, arguments.set),
            is_json=arguments.format == "json",
            quiet=arguments.quiet,
            colour=arguments.color,
            timeout_s=_seconds(arguments.timeout),
            server=arguments.server,
            key=arguments.key or os.environ.get("REDRIVE_API_KEY"),
            data=Path(arguments.data) if arguments.data else None,
            log=Path(arguments.log) if arguments.log else None,
            is_demo=arguments.demo,
            credentials=credentials_of(arguments.credential),
        )
    except InputError as problem:
        complain(str(problem))
        return ExitCode.INVALID
    return run_to_the_end(wanted)


def _check(arguments: argparse.Namespace) -> None:
    from services.cli.run_inputs import InputError

    if arguments.server:
        for name in ("data", "credential", "log"):
            if getattr(arguments, name):
                raise InputError(f"--{name} is for the embedded system; a server has its own")


def _seconds(text: str | None) -> float | None:
    from services.cli.run_inputs import InputError
    from shared.templates.durations import parse_duration

    if text is None:
        return None
    try:
        found = parse_duration(text)
    except ValueError as problem:
        raise InputError(f"--timeout: {problem}") from None
    if found <= 0:
        raise InputError("--timeout: it has to be more than 0")
    return found
