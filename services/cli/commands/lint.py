"""`redrive lint`: what is wrong with playbooks, then what is allowed and probably not meant."""

from __future__ import annotations

import argparse

from services.cli.checking import Tally, add_options, check_files, counted
from services.cli.exit_codes import ExitCode
from services.cli.output import complain
from shared.language.compile import Compiled
from shared.language.diagnostics import Diagnostic
from shared.language.lint.run import lint


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what the command takes."""
    add_options(parser)
    parser.add_argument("--strict", action="store_true", help="warnings make the command fail, too")


def run(arguments: argparse.Namespace) -> int:
    """Report errors, advice and worst-case waits; fail on errors, and on warnings if that is asked for."""
    tally = check_files(arguments, _errors_and_advice)
    if arguments.format == "text" and (tally.files > 1 or tally.errors or tally.warnings or tally.notes):
        complain(_summary(tally))
    failed = tally.invalid or tally.errors or (arguments.strict and tally.warnings)
    return ExitCode.INVALID if failed else ExitCode.OK


def _errors_and_advice(compiled: Compiled) -> tuple[Diagnostic, ...]:
    return (*compiled.errors, *lint(compiled))


def _summary(tally: Tally) -> str:
    counts = ((tally.errors, "error"), (tally.warnings, "warning"), (tally.notes, "note"))
    return ", ".join((counted(tally.files, "file"), *(counted(count, noun) for count, noun in counts)))
