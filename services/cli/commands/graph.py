"""`redrive graph`: the steps of a playbook as a picture."""

from __future__ import annotations

import argparse
import json
import sys

from services.cli.checking import show_findings, show_unreadable
from services.cli.exit_codes import ExitCode
from services.cli.files import Unreadable, read
from services.cli.kinds import known_kinds
from services.cli.output import add_colour_option, complain, deliver, wants_colour
from shared.language.compile import compile_playbook
from shared.language.graph import Graph, as_json, as_mermaid, graph_of


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what the command takes."""
    parser.add_argument("file", metavar="FILE", help="a playbook; '-' is standard input")
    parser.add_argument(
        "-o", "--format", choices=("mermaid", "svg", "json"), default="mermaid", help="mermaid unless given"
    )
    parser.add_argument("--output", metavar="FILE", help="write to a file instead")
    add_colour_option(parser)


def run(arguments: argparse.Namespace) -> int:
    """Draw a valid playbook; say on stderr what is wrong with another."""
    colour = wants_colour(arguments.color, sys.stderr)
    source = read(arguments.file)
    if isinstance(source, Unreadable):
        complain(show_unreadable(source, colour))
        return ExitCode.INVALID
    compiled = compile_playbook(source.content, source.file, known_kinds())
    if compiled.plan is None:
        complain(show_findings(compiled.errors, source.text, colour))
        return ExitCode.INVALID
    deliver(_drawn(graph_of(compiled.plan), arguments.format), arguments.output)
    return ExitCode.OK


def _drawn(graph: Graph, form: str) -> str:
    if form == "json":
        return json.dumps(as_json(graph), indent=2)
    if form == "mermaid":
        return as_mermaid(graph)
    from shared.language.graph_svg import as_svg

    return as_svg(graph)
