"""The way into `redrive`: find the command, load it alone, run it, end as a shell expects."""

from __future__ import annotations

import argparse
import atexit
import contextlib
import gc
import importlib
import io
import os
import sys
from collections.abc import Sequence
from typing import Any, NoReturn, Protocol, cast

from services.cli.exit_codes import ExitCode

COMMANDS = {
    "run": "run a playbook to its end, without a server or on one",
    "dev": "run the whole system in one process, with its API, durable in a folder",
    "up": "run the whole system in the background, each service a process, on private servers",
    "down": "stop what 'redrive up' started",
    "validate": "report everything that is wrong with playbooks",
    "lint": "report also what is allowed and probably not meant, and how long tasks can wait",
    "schema": "print the JSON Schema of the language, for editors",
    "graph": "draw the steps and their arcs, as Mermaid or SVG",
    "test": "run playbook tests: outcomes are given, time is simulated, nothing is called",
    "credentials": "keep, list and delete credentials; seal them with a new key",
    "executions": "list, look at, follow, stop, take up again, replay and simulate executions",
    "playbooks": "look into the catalogue of a server, and put playbooks there",
    "jobs": "list jobs; hurry, re-time and cancel those that wait",
    "dead": "list dead letters, send them again or throw them away",
    "workers": "show who works, in which pools",
    "queues": "show what waits in every pool, and which pools nobody serves",
    "doctor": "look at database, broker, queues, clocks and keys, and say how to mend what is wrong",
    "migrate": "bring the database to the schema of this release",
    "broker": "make the definitions that RabbitMQ starts with: its users, their rights, hashes of their passwords",
    "ingest": "run the service that takes submissions and facts, and answers questions",
    "orchestrator": "run the service that decides what happens next",
    "worker": "run the service that runs tools",
    "help": "explain redrive, or one of its commands",
}
SERVICES = ("ingest", "orchestrator", "worker")


class Command(Protocol):
    """What a module of `services.cli.commands` offers."""

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Declare what the command takes."""

    def run(self, arguments: argparse.Namespace) -> int:
        """Do it and return the exit code."""


def whole_process() -> NoReturn:
    """Run the command line of this process and end it, without taking apart what the system takes back anyway."""
    code = main()
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError, AttributeError):
            stream.flush()
    os._exit(code)


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command line and return its exit code."""
    words = list(sys.argv[1:] if argv is None else argv)
    try:
        _tolerate_any_text()
        code = _dispatch(words)
        if sys.stdout is not None:
            sys.stdout.flush()
        return code
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else int(ExitCode.OK)
    except KeyboardInterrupt:
        return ExitCode.INTERRUPTED
    except BrokenPipeError:
        _discard_output()
        return ExitCode.PIPE_CLOSED
    except OSError as problem:
        _discard_output()
        print(f"redrive: {problem.strerror or problem}", file=sys.stderr)
        return ExitCode.BROKEN


def _dispatch(words: list[str]) -> int:
    top = _top_parser()
    if not words:
        top.print_help(sys.stderr)
        return ExitCode.INVALID
    name, rest = str(top.parse_args(words[:1]).command), words[1:]
    if name == "help":
        if not rest:
            top.print_help()
            return ExitCode.OK
        name, rest = rest[0], ["--help"]
    if name == "help" or name not in COMMANDS:
        _unknown(name, top)
    return _run(name, rest)


def _run(name: str, words: list[str]) -> int:
    about = f"{COMMANDS[name][0].upper()}{COMMANDS[name][1:]}."
    parser = argparse.ArgumentParser(f"redrive {name}", description=about, allow_abbrev=False)
    if name in SERVICES:
        parser.epilog = "What a service needs to know stands in its environment."
        parser.parse_args(words)
        return int(_load(f"services.{name}.__main__").main())
    command = cast(Command, _load(f"services.cli.commands.{name}"))
    command.add_arguments(parser)
    arguments = parser.parse_args(words)
    from services.cli.output import CannotWrite

    try:
        return command.run(arguments)
    except CannotWrite as problem:
        parser.error(str(problem))


def _load(module: str) -> Any:
    """Import a module; the collector rests meanwhile, for loading leaves no garbage and looking for it takes time."""
    gc.disable()
    try:
        return importlib.import_module(module)
    finally:
        gc.freeze()
        gc.enable()


def _top_parser() -> argparse.ArgumentParser:
    width = max(map(len, COMMANDS))
    listing = "\n".join(f"  {name:<{width}}  {summary}" for name, summary in COMMANDS.items())
    parser = argparse.ArgumentParser(
        "redrive",
        usage="redrive [-h] [--version] COMMAND …",
        description="Check, test, draw and run playbooks.",
        epilog=f"commands:\n{listing}\n\n'redrive COMMAND --help' explains one of them.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--version", action=_Version, nargs=0, help="show the version and exit")
    parser.add_argument("command", metavar="COMMAND", help=argparse.SUPPRESS)
    return parser


class _Version(argparse.Action):
    """Look the version up only when it is asked for: that costs more than most commands."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> NoReturn:
        from importlib import metadata

        try:
            version = metadata.version("redrive")
        except metadata.PackageNotFoundError:
            version = "(not installed)"
        print(f"redrive {version}")
        parser.exit()


def _unknown(name: str, parser: argparse.ArgumentParser) -> NoReturn:
    from services.cli.output import printable
    from shared.language.diagnostics import nearest

    near = nearest(name, COMMANDS)
    hint = f"did you mean '{near}'?" if near is not None else f"commands: {', '.join(COMMANDS)}"
    parser.error(f"unknown command '{printable(name)}'; {hint}")


def _tolerate_any_text() -> None:
    """Let no file name or message fail because the terminal cannot show it."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def _discard_output() -> None:
    """Keep the interpreter from writing to the closed stream once more when it ends."""
    if sys.stdout is None:
        return
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)


if __name__ == "__main__":
    whole_process()
