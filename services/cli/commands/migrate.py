"""`redrive migrate`: bring the database to the schema that this release needs."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Mapping

from services.cli.exit_codes import ExitCode
from shared.runtime.config import Environment, SettingsError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Let the caller name the database and how far to go."""
    parser.add_argument("--database", metavar="URL", help="where; REDRIVE_DATABASE_URL unless given")
    parser.add_argument("--down", action="store_true", help="remove everything instead, data included")
    parser.add_argument("--current", action="store_true", help="only say which version the database is at")


def run(arguments: argparse.Namespace) -> int:
    """Migrate, or say where the database stands."""
    import asyncio

    from shared.errors import UnavailableError
    from shared.store.migrate import current, downgrade, upgrade

    try:
        url = arguments.database or database_url(os.environ)
    except SettingsError as problem:
        print(f"redrive migrate: {problem}", file=sys.stderr)
        return ExitCode.INVALID
    if not url:
        print("redrive migrate: name the database with --database or REDRIVE_DATABASE_URL", file=sys.stderr)
        return ExitCode.INVALID
    try:
        if not arguments.current:
            asyncio.run(downgrade(url) if arguments.down else upgrade(url))
        print(asyncio.run(current(url)) or "empty")
    except UnavailableError as problem:
        print(f"redrive migrate: {problem}", file=sys.stderr)
        return ExitCode.UNREACHABLE
    return ExitCode.OK


def database_url(values: Mapping[str, str]) -> str:
    """Return the database that an environment names, itself or by a file; raises SettingsError."""
    env = Environment(values)
    found = env.text("REDRIVE_DATABASE_URL", "")
    env.check()
    return found
