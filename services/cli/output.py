"""How commands speak: colours where they are wanted, safe text, JSON, and files written whole or not at all."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Mapping
from typing import TextIO

COLOUR_CHOICES = ("auto", "always", "never")


class CannotWrite(Exception):  # noqa: N818
    """A file named by the caller cannot be written; the caller names another."""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(f"cannot write {printable(path)}: {reason}")


def add_colour_option(parser: argparse.ArgumentParser) -> None:
    """Let the caller decide about colours."""
    parser.add_argument(
        "--color", choices=COLOUR_CHOICES, default="auto", help="colours; auto: on a terminal (default)"
    )


def wants_colour(choice: str, stream: TextIO | None, environ: Mapping[str, str] = os.environ) -> bool:
    """Say whether this stream is written in colour: as asked, else only on a terminal that shows them."""
    if choice != "auto":
        return choice == "always"
    if stream is None or environ.get("NO_COLOR") or environ.get("TERM") == "dumb":
        return False
    return stream.isatty()


def painted(text: str, code: str, colour: bool) -> str:
    """Return the text in a colour, or as it is."""
    return f"\x1b[{code}m{text}\x1b[0m" if colour else text


def printable(text: str) -> str:
    """Return the text on one line, without anything that a terminal would act on."""
    return "".join(char if char.isprintable() else "·" for char in text)


def print_json(value: object) -> None:
    """Print one JSON document, in ASCII so that no encoding of the stream can spoil it."""
    print(json.dumps(value, indent=2))


def complain(message: str) -> None:
    """Say on stderr what went wrong, after everything said on stdout."""
    if sys.stdout is not None:
        sys.stdout.flush()
    if sys.stderr is not None:
        print(message, file=sys.stderr)


def deliver(text: str, path: str | None) -> None:
    """Print a text, or write it to the file that was asked for."""
    if path is None or path == "-":
        print(text)
    else:
        write_whole(path, f"{text}\n")


def write_whole(path: str, text: str) -> None:
    """Write a file so that nobody ever sees half of it, keeping its mode if it exists."""
    target = os.path.realpath(path)
    try:
        if os.path.exists(target) and not os.path.isfile(target):
            _write(target, text, "w")
            return
        _replace(target, text)
    except OSError as problem:
        raise CannotWrite(path, problem.strerror or str(problem)) from problem


def _replace(target: str, text: str) -> None:
    draft = os.path.join(os.path.dirname(target), f".redrive-{os.urandom(6).hex()}")
    try:
        _write(draft, text, "x")
        if os.path.exists(target):
            os.chmod(draft, os.stat(target).st_mode & 0o7777)
        os.replace(draft, target)
    except BaseException:
        if os.path.exists(draft):
            os.unlink(draft)
        raise


def _write(path: str, text: str, mode: str) -> None:
    with open(path, mode, encoding="utf-8", newline="\n") as file:
        file.write(text)


def called_as() -> str:
    """Return how this program is called from here: by its name where the path leads to it, else by its place."""
    import shutil
    from pathlib import Path

    if shutil.which("redrive"):
        return "redrive"
    place = Path(sys.argv[0])
    if place.name != "redrive" or not place.is_file():
        return "redrive"
    return str(place.relative_to(Path.cwd())) if place.is_relative_to(Path.cwd()) else str(place)
