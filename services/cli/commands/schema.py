"""`redrive schema`: the JSON Schema of the language, for editors."""

from __future__ import annotations

import argparse
import json

from services.cli.exit_codes import ExitCode
from services.cli.kinds import known_kinds
from services.cli.output import deliver
from shared.language.schema import playbook_schema


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what the command takes."""
    parser.add_argument("-o", "--format", choices=("json",), default="json", help="JSON is all there is")
    parser.add_argument("--output", metavar="FILE", help="write to a file instead")


def run(arguments: argparse.Namespace) -> int:
    """Print the schema, or write it to a file."""
    deliver(json.dumps(playbook_schema(known_kinds()), indent=2), arguments.output)
    return ExitCode.OK
