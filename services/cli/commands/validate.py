"""`redrive validate`: everything that is wrong with playbooks, at once."""

from __future__ import annotations

import argparse

from services.cli.checking import Tally, add_options, check_files, counted
from services.cli.exit_codes import ExitCode
from services.cli.output import complain
from shared.language.compile import Compiled
from shared.language.diagnostics import Diagnostic


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what the command takes."""
    add_options(parser)


def run(arguments: argparse.Namespace) -> int:
    """Report every error of every file; fail when any file is invalid."""
    tally = check_files(arguments, _errors)
    if arguments.format == "text" and (tally.files > 1 or tally.invalid):
        complain(_summary(tally))
    return ExitCode.INVALID if tally.invalid else ExitCode.OK


def _errors(compiled: Compiled) -> tuple[Diagnostic, ...]:
    return compiled.errors


def _summary(tally: Tally) -> str:
    return f"{counted(tally.files, 'file')}, {tally.invalid} invalid, {counted(tally.errors, 'error')}"
