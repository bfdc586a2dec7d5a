"""What `validate` and `lint` share: compile many files, show what was found, count it."""

from __future__ import annotations

import argparse
import dataclasses
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from services.cli.files import Source, Unreadable, read_playbook_files
from services.cli.kinds import known_kinds
from services.cli.output import add_colour_option, complain, painted, print_json, printable, wants_colour
from shared.language.compile import Compiled, compile_playbook
from shared.language.diagnostics import Diagnostic, Severity, render
from shared.language.plan import Plan

Judge: TypeAlias = Callable[[Compiled], Sequence[Diagnostic]]


@dataclass(frozen=True, slots=True)
class Checked:
    """A file with everything that was found in it."""

    source: Source | Unreadable
    findings: tuple[Diagnostic, ...]
    plan: Plan | None


@dataclass(slots=True)
class Tally:
    """How much was looked at and how much was found."""

    files: int = 0
    invalid: int = 0
    errors: int = 0
    warnings: int = 0
    notes: int = 0

    def count(self, checked: Checked) -> None:
        """Add one file."""
        found = [item.severity for item in checked.findings]
        self.files += 1
        self.invalid += checked.plan is None
        self.errors += found.count(Severity.ERROR)
        self.warnings += found.count(Severity.WARNING)
        self.notes += found.count(Severity.INFO)


def add_options(parser: argparse.ArgumentParser) -> None:
    """Let the caller name files and say how findings are shown."""
    parser.add_argument(
        "files",
        metavar="FILE",
        nargs="+",
        help="a playbook; '-' is standard input, a folder is every *.yaml and *.yml below it but hidden ones",
    )
    parser.add_argument(
        "-o", "--format", choices=("text", "json"), default="text", help="for people (default), or one JSON list"
    )
    add_colour_option(parser)


def check_files(arguments: argparse.Namespace, judge: Judge) -> Tally:
    """Look at every file, show what the judge finds as the caller wants it, and return the count."""
    tally = Tally()
    if arguments.format == "json":
        found: list[Diagnostic] = []
        for checked in _checked(arguments.files, judge):
            tally.count(checked)
            found.extend(checked.findings)
        print_json([item.as_json() for item in found])
        return tally
    for checked in _checked(arguments.files, judge):
        tally.count(checked)
        _show(checked, arguments.color)
    return tally


def show_findings(findings: Sequence[Diagnostic], text: str, colour: bool) -> str:
    """Return findings as people read them, with nothing in a file's name that a terminal would act on."""
    named = [dataclasses.replace(item, file=printable(item.file)) for item in findings]
    return render(named, text, colour=colour)


def show_unreadable(source: Unreadable, colour: bool) -> str:
    """Return why a file cannot be read, as findings are shown, but without a place."""
    file, error = painted(printable(source.file), "1", colour), painted("error", "31;1", colour)
    head = f"{file}: {error}[unreadable]: {source.reason}"
    return head if source.hint is None else f"{head}\n  {painted('hint', '36', colour)}: {printable(source.hint)}"


def counted(count: int, noun: str) -> str:
    """Return a count with its noun: '1 file', '3 files'."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def _checked(names: Sequence[str], judge: Judge) -> Iterator[Checked]:
    kinds = known_kinds()
    for source in read_playbook_files(names):
        if isinstance(source, Unreadable):
            yield Checked(source, (source.diagnostic(),), None)
        else:
            compiled = compile_playbook(source.content, source.file, kinds)
            yield Checked(source, tuple(judge(compiled)), compiled.plan)


def _show(checked: Checked, choice: str) -> None:
    source = checked.source
    if isinstance(source, Unreadable):
        complain(show_unreadable(source, wants_colour(choice, sys.stderr)))
        return
    colour = wants_colour(choice, sys.stdout)
    if checked.findings:
        print(show_findings(checked.findings, source.text, colour), end="\n\n")
    elif checked.plan is not None:
        plan = checked.plan
        about = f"(playbook '{printable(plan.name)}', {counted(len(plan.steps), 'step')})"
        print(f"{printable(source.file)}: {painted('ok', '32;1', colour)} {about}")
