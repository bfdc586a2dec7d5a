"""`redrive test`: playbook tests on simulated time."""

from __future__ import annotations

import argparse
import difflib
import fnmatch
import json
import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from services.cli.checking import counted, show_findings, show_unreadable
from services.cli.exit_codes import ExitCode
from services.cli.files import STDIN, STDIN_SHOWN, Unreadable, read, read_all
from services.cli.kinds import known_kinds
from services.cli.output import add_colour_option, complain, painted, print_json, printable, wants_colour
from shared.engine.playtests import Load, Loaded, Mismatch, Moment, PlayTest, TestFile, Verdict, read_tests, run_test
from shared.language.diagnostics import Diagnostic

TESTS_FAILED = ExitCode.BROKEN
MAX_MOMENTS = 40
MAX_LINE = 100
INDENT = "      "
GREEN, RED, FAINT = "32;1", "31;1", "2"


@dataclass(slots=True)
class Tally:
    """How many tests ran and how they ended, and how many files could not be used."""

    passed: int = 0
    failed: int = 0
    left_out: int = 0
    invalid: int = 0
    records: list[dict[str, Any]] = field(default_factory=list)

    @property
    def exit_code(self) -> int:
        """Return how the command ends: an invalid file matters more than a failed test."""
        if self.invalid or not (self.passed or self.failed):
            return ExitCode.INVALID
        return TESTS_FAILED if self.failed else ExitCode.OK

    def __str__(self) -> str:
        parts = [f"{self.passed} passed", f"{self.failed} failed"] if self.passed or self.failed else ["no tests ran"]
        parts += [f"{self.left_out} not selected"] if self.left_out else []
        return ", ".join(parts + ([counted(self.invalid, "invalid file")] if self.invalid else []))


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what the command takes."""
    parser.add_argument(
        "files",
        metavar="FILE",
        nargs="+",
        help="a file of tests; '-' is standard input, a folder is every such file below it (playbooks are left out)",
    )
    parser.add_argument(
        "-k", metavar="PATTERN", dest="pattern", help="run only tests whose name has this in it; * and ? are wildcards"
    )
    parser.add_argument(
        "-o", "--format", choices=("text", "json"), default="text", help="for people (default), or one JSON list"
    )
    add_colour_option(parser)
    parser.epilog = "Ends with 0 when all tests pass, 1 when one fails, 2 when a file is invalid or no test ran."


def run(arguments: argparse.Namespace) -> int:
    """Run every selected test of every file, show what was not as expected, and count."""
    tally = Tally()
    for source in read_all(arguments.files):
        if isinstance(source, Unreadable):
            _refuse(tally, arguments, [source.diagnostic()], show_unreadable(source, _colour(arguments, sys.stderr)))
            continue
        found = read_tests(source.content, source.file, _beside(source.file), known_kinds())
        if found.is_playbook and source.file not in arguments.files:
            continue
        if found.ok:
            _run_file(found, tally, arguments)
        else:
            _refuse(tally, arguments, _all_findings(found), _shown_findings(found, arguments))
    if arguments.format == "json":
        print_json(tally.records)
    else:
        complain(str(tally))
    return tally.exit_code


def _beside(file: str) -> Load:
    """Return what reads the playbooks that a file of tests names, as seen from that file."""
    folder = "" if file == STDIN_SHOWN else os.path.dirname(file)

    def load(path: str) -> Loaded | str:
        if path == STDIN:
            return "cannot be standard input"
        found = read(os.path.normpath(os.path.join(folder, path)))
        if isinstance(found, Unreadable):
            return f"{found.reason} ({found.hint})" if found.hint else found.reason
        return Loaded(found.file, found.content)

    return load


def _run_file(found: TestFile, tally: Tally, arguments: argparse.Namespace) -> None:
    chosen = [test for test in found.tests if _is_chosen(test, arguments.pattern)]
    tally.left_out += len(found.tests) - len(chosen)
    colour = _colour(arguments, sys.stdout)
    if chosen and arguments.format == "text":
        print(painted(printable(found.file), "1", colour))
    for test in chosen:
        verdict = run_test(test)
        tally.passed += verdict.passed
        tally.failed += not verdict.passed
        if arguments.format == "json":
            tally.records.append(verdict.as_json(found.file))
        else:
            print("\n".join(shown(verdict, colour)))


def _is_chosen(test: PlayTest, pattern: str | None) -> bool:
    return pattern is None or fnmatch.fnmatchcase(test.name.lower(), f"*{pattern.lower()}*")


def shown(verdict: Verdict, colour: bool) -> Iterator[str]:
    """Give the lines that people read about a test: one if it passed, else what differs and what happened."""
    name = printable(verdict.test.name)
    if verdict.passed:
        took = painted(f"({verdict.duration_s:g} s simulated)", FAINT, colour)
        yield f"  {painted('passed', GREEN, colour)}  {name} {took}"
        return
    yield f"  {painted('FAILED', RED, colour)}  {name} {painted(f'(line {verdict.test.line})', FAINT, colour)}"
    for failure in verdict.failures:
        yield from (f"{INDENT}{line}" for line in _difference(failure, colour))
    yield f"{INDENT}{painted('what happened:', '1', colour)}"
    yield from (f"{INDENT}  {line}" for line in _table(verdict.timeline, colour))
    yield from (f"{INDENT}{painted('note', '36', colour)}: {printable(remark)}" for remark in verdict.remarks)


def _difference(failure: Mismatch, colour: bool) -> Iterator[str]:
    expected, actual = _brief(failure.expected), _brief(failure.actual)
    what = painted(printable(failure.what), "1", colour)
    if len(expected) + len(actual) <= MAX_LINE:
        yield f"{what}: expected {painted(expected, GREEN, colour)}, got {painted(actual, RED, colour)}"
        return
    yield f"{what}:"
    lines = difflib.unified_diff(
        _pretty(failure.expected), _pretty(failure.actual), "expected", "actual", n=2, lineterm=""
    )
    for line in lines:
        tone = {"-": GREEN, "+": RED, "@": "36"}.get(line[:1])
        text = printable(line)
        yield f"  {painted(text, tone, colour) if tone else text}"


def _brief(value: Any) -> str:
    return printable(json.dumps(value, ensure_ascii=False))


def _pretty(value: Any) -> list[str]:
    """Return a value as JSON in lines, keys in order so that only differences differ."""
    return json.dumps(value, ensure_ascii=False, indent=2, sort_keys=True).splitlines()


def _table(moments: Sequence[Moment], colour: bool) -> Iterator[str]:
    half = MAX_MOMENTS // 2
    cut = moments if len(moments) <= MAX_MOMENTS else (*moments[:half], *moments[-half:])
    times = [f"{moment.at_s:.3f}" for moment in cut]
    wide = max(map(len, times), default=0)
    node = max((len(moment.node) for moment in cut), default=0)
    for index, (time, moment) in enumerate(zip(times, cut, strict=True)):
        if len(cut) < len(moments) and index == half:
            yield painted(f"… {len(moments) - len(cut)} more …", FAINT, colour)
        tone = RED if moment.said.startswith(("error", "failed", "execution failed")) else None
        said = painted(printable(moment.said), tone, colour) if tone else printable(moment.said)
        arrow = painted(f" → {printable(moment.decision)}", FAINT, colour) if moment.decision else ""
        yield f"{painted(f'{time:>{wide}} s', FAINT, colour)}  {moment.node:<{node}}  {said}{arrow}"


def _refuse(tally: Tally, arguments: argparse.Namespace, found: Iterable[Diagnostic], text: str) -> None:
    """Count a file that cannot be used, and say why."""
    tally.invalid += 1
    if arguments.format == "text":
        complain(text + "\n")
        return
    by_file: dict[str, list[dict[str, Any]]] = {}
    for item in found:
        told = {"what": item.code, "expected": item.hint, "actual": item.as_json()}
        by_file.setdefault(item.file, []).append(told)
    tally.records += [{"file": file, "test": None, "passed": False, "failures": told} for file, told in by_file.items()]


def _all_findings(found: TestFile) -> list[Diagnostic]:
    return [item for findings in found.findings for item in findings.diagnostics]


def _shown_findings(found: TestFile, arguments: argparse.Namespace) -> str:
    colour = _colour(arguments, sys.stderr)
    return "\n\n".join(show_findings(item.diagnostics, item.text, colour) for item in found.findings)


def _colour(arguments: argparse.Namespace, stream: Any) -> bool:
    return wants_colour(arguments.color, stream)
