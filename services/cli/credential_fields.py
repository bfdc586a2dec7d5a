"""The fields of a credential as they are given to a command: from files, the environment, standard input, or argv."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TextIO

MOST_BYTES = 1024 * 1024
# Fields that are mappings: `headers.X-Key` is one entry of them.
_DEEP = ("headers", "options")


class FieldError(Exception):
    """The fields cannot be made out; the message never repeats a value."""


def fields_of(
    given: Sequence[str],
    from_env: Sequence[str],
    environ: Mapping[str, str] = os.environ,
    stdin: TextIO | None = None,
) -> tuple[dict[str, Any], list[str]]:
    """Return the fields, and the names of those whose value stood on the command line; raises FieldError."""
    fields: dict[str, Any] = {}
    seen: list[str] = []
    for entry in from_env:
        name, is_one, variable = entry.partition("=")
        text = _variable(variable if is_one else name, environ)
        if is_one:
            _put(fields, name, text)
        else:
            fields.update(_object(text, f"the environment variable {name}"))
    for entry in given:
        name, is_pair, value = entry.partition("=")
        if not is_pair or not name:
            raise FieldError("--field takes NAME=VALUE, or NAME=@FILE")
        if value.startswith("@"):
            value = _file(value[1:], name)
        else:
            seen.append(name)
        _put(fields, name, value)
    return fields or _from_stdin(sys.stdin if stdin is None else stdin), seen


def _put(fields: dict[str, Any], name: str, value: str) -> None:
    outer, is_deep, inner = name.partition(".")
    if is_deep and outer in _DEEP and inner:
        fields.setdefault(outer, {})[inner] = value
    else:
        fields[name] = value


def _variable(name: str, environ: Mapping[str, str]) -> str:
    if name not in environ:
        raise FieldError(f"the environment variable {name} is not set")
    return environ[name]


def _file(path: str, name: str) -> str:
    try:
        text = Path(path).read_bytes()[: MOST_BYTES + 1].decode()
    except (OSError, UnicodeDecodeError) as problem:
        reason = problem.strerror if isinstance(problem, OSError) else "it is no text"
        raise FieldError(f"the file for '{name}' cannot be read: {reason}") from None
    if len(text) > MOST_BYTES:
        raise FieldError(f"the file for '{name}' is too large")
    # Editors end a file with a newline that is no part of a secret.
    return text.removesuffix("\n").removesuffix("\r")


def _from_stdin(stdin: TextIO | None) -> dict[str, Any]:
    if stdin is None or stdin.isatty():
        raise FieldError("give --field NAME=@FILE, --from-env NAME=VARIABLE, or the fields as JSON on standard input")
    return _object(stdin.read(MOST_BYTES), "standard input")


def _object(text: str, what: str) -> dict[str, Any]:
    try:
        data = json.loads(text)
    except (ValueError, RecursionError):
        raise FieldError(f"{what} holds no JSON") from None
    if not isinstance(data, dict) or not data:
        raise FieldError(f"{what} holds no JSON object with fields")
    return data
