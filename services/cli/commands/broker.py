"""`redrive broker`: make the definitions that RabbitMQ starts with, with hashes of the passwords of its users."""

from __future__ import annotations

import argparse
import os
import tempfile
from pathlib import Path

from services.cli.exit_codes import ExitCode
from services.cli.output import complain
from shared.broker.definitions import filled
from shared.errors import RejectedError
from shared.runtime.config import Environment, SettingsError

# RabbitMQ runs as another user and has to read it; there are hashes in it, and no passwords.
MODE = 0o644


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what the command takes."""
    add = parser.add_argument
    add(
        "--template",
        metavar="FILE",
        required=True,
        help="definitions whose users name the settings with their passwords",
    )
    add("--output", metavar="FILE", required=True, help="where the definitions go; replaced as a whole")
    parser.epilog = (
        "A user of the template names the setting that holds its password, with 'password_from'; the setting X may "
        "also be given as X_FILE, the path of a file that holds it. RabbitMQ loads the result with 'load_definitions'."
    )


def run(arguments: argparse.Namespace) -> int:
    """Write the definitions."""
    env = Environment(os.environ)
    try:
        template = Path(arguments.template).read_text(encoding="utf-8")
        text = filled(template, lambda name: _secret(env, name), os.urandom)
        _replace(Path(arguments.output), text)
    except (RejectedError, SettingsError) as problem:
        complain(f"redrive broker: {problem}")
        return ExitCode.INVALID
    except (OSError, UnicodeDecodeError) as problem:
        complain(f"redrive broker: {problem}")
        return ExitCode.BROKEN
    print(f"{arguments.output} is made")
    return ExitCode.OK


def _secret(env: Environment, name: str) -> str:
    found = env.text(name, "")
    env.check()
    return found


def _replace(path: Path, text: str) -> None:
    """Put a file in place as a whole, so that nobody reads half of it."""
    handle, draft = tempfile.mkstemp(prefix=path.name, dir=path.parent)
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
        os.chmod(draft, MODE)
        os.replace(draft, path)
    except BaseException:
        os.unlink(draft)
        raise
