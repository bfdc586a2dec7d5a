"""What commands about a server's resources share: where it is, one question to it, lists as people read them."""

from __future__ import annotations

import argparse
import os
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from services.cli.exit_codes import ExitCode
from services.cli.output import complain, print_json, printable

if TYPE_CHECKING:
    from services.cli.resources_api import ResourcesApi

DEFAULT_SERVER = "http://127.0.0.1:8080"


def add_server_options(parser: argparse.ArgumentParser) -> None:
    """Let the caller say which server is asked, with which key, and how the answer is written."""
    parser.add_argument("--server", metavar="URL", help=f"REDRIVE_SERVER unless given, else {DEFAULT_SERVER}")
    parser.add_argument("--key", metavar="KEY", help="the key for the server; REDRIVE_API_KEY unless given")
    add_format_option(parser)


def add_format_option(parser: argparse.ArgumentParser) -> None:
    """Let the caller say how the answer is written."""
    parser.add_argument("-o", "--format", choices=("text", "json"), default="text", help="people's output, or JSON")


def address_of(arguments: argparse.Namespace) -> tuple[str, str | None]:
    """Return which server is asked, and with which key."""
    server = arguments.server or os.environ.get("REDRIVE_SERVER") or DEFAULT_SERVER
    return server, arguments.key or os.environ.get("REDRIVE_API_KEY")


def ask(name: str, arguments: argparse.Namespace, work: Callable[[ResourcesApi], Awaitable[int]]) -> int:
    """Do something with a client of the server and return the exit code; what goes wrong is said."""
    import asyncio

    from services.cli.api import ApiError
    from services.cli.resources_api import ResourcesApi

    async def asked() -> int:
        api = ResourcesApi(*address_of(arguments))
        try:
            return await work(api)
        finally:
            await api.close()

    try:
        return asyncio.run(asked())
    except ApiError as problem:
        complain(f"redrive {name}: {problem}")
        return problem.code


def say(arguments: argparse.Namespace, data: object, lines: Iterable[str]) -> int:
    """Print an answer as it was asked for, and return that all is well."""
    if arguments.format == "json":
        print_json(data)
    else:
        for line in lines:
            print(line)
    return ExitCode.OK


def table(heads: Sequence[str], rows: Iterable[Sequence[Any]], nothing: str) -> list[str]:
    """Return rows in columns under their heads, or a sentence if there is no row."""
    cells = [[_cell(value) for value in row] for row in rows]
    if not cells:
        return [nothing]
    widths = [max(len(row[index]) for row in [list(heads), *cells]) for index in range(len(heads))]
    return [_line(row, widths) for row in [[head.upper() for head in heads], *cells]]


def _line(row: Sequence[str], widths: Sequence[int]) -> str:
    return "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()


def _cell(value: Any) -> str:
    if value is None or value == "":
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list | tuple):
        return ", ".join(_cell(item) for item in value) or "-"
    return printable(str(value))
