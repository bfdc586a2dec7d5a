"""`redrive doctor`: look at servers, tables, queues, clocks and keys, and say how to mend what is wrong."""

from __future__ import annotations

import argparse
import os
from typing import TYPE_CHECKING

from services.cli.exit_codes import ExitCode
from services.cli.output import complain, print_json, printable

if TYPE_CHECKING:
    from services.cli.doctor import Finding

_MARKS = {"ok": "ok", "warning": "warn", "problem": "FAIL", "skipped": "skip"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what the command takes."""
    parser.add_argument("--database", metavar="URL", help="the database; REDRIVE_DATABASE_URL unless given")
    parser.add_argument("--amqp", metavar="URL", help="the broker; REDRIVE_AMQP_URL unless given")
    parser.add_argument("--data", metavar="DIR", help="the data folder of an embedded system; REDRIVE_DATA_DIR")
    parser.add_argument("--fix", action="store_true", help="declare what is missing on the broker")
    parser.add_argument("-o", "--format", choices=("text", "json"), default="text", help="people's output, or JSON")
    parser.epilog = "Exit code 0 if nothing is wrong, 1 if something is, 2 if the environment cannot be read."


def run(arguments: argparse.Namespace) -> int:
    """Examine everything that the environment names, and say what was found."""
    import asyncio

    from services.cli.doctor import examine, patient_of

    given = {"REDRIVE_DATABASE_URL": arguments.database, "REDRIVE_AMQP_URL": arguments.amqp}
    values = {**os.environ, **{name: text for name, text in given.items() if text is not None}}
    patient, wrong = patient_of(values, arguments.data)
    if wrong:
        complain("\n".join(f"redrive doctor: {line}" for line in wrong))
        return ExitCode.INVALID
    findings = asyncio.run(examine(patient, fix=arguments.fix))
    if arguments.format == "json":
        print_json({"healthy": _is_healthy(findings), "findings": [finding.as_json() for finding in findings]})
    else:
        for finding in findings:
            print(f"{_MARKS[finding.status]:<4}  {finding.check:<11}  {printable(finding.found)}")
            if finding.mend is not None and finding.status != "ok":
                print(f"      {'':<11}  → {printable(finding.mend)}")
    return ExitCode.OK if _is_healthy(findings) else ExitCode.BROKEN


def _is_healthy(findings: list[Finding]) -> bool:
    return all(finding.status != "problem" for finding in findings)
