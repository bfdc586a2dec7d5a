"""`redrive down`: stop what `redrive up` started, and nothing else."""

from __future__ import annotations

import argparse
from pathlib import Path

from services.cli.exit_codes import ExitCode
from services.cli.output import complain
from services.cli.up_folder import DEFAULT_FOLDER, end
from shared.errors import ConflictError

DOWN_WITHIN_S = 120.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what the command takes."""
    help_text = f"the folder that it is kept in; ./{DEFAULT_FOLDER} (default)"
    parser.add_argument("--data", metavar="DIR", default=DEFAULT_FOLDER, help=help_text)


def run(arguments: argparse.Namespace) -> int:
    """Stop the system and return when all its processes have ended."""
    folder = Path(arguments.data).absolute()
    try:
        was_up = end(folder, within_s=DOWN_WITHIN_S)
    except ConflictError as problem:
        complain(f"redrive down: {problem}")
        return ExitCode.CONFLICT
    except TimeoutError as problem:
        complain(f"redrive down: {problem}")
        return ExitCode.TIMED_OUT
    print(f"stopped; its data is kept in {folder}" if was_up else f"nothing is up in {folder}")
    return ExitCode.OK
