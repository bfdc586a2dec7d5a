"""The exit codes of `redrive`, which scripts may rely on."""

from __future__ import annotations

from enum import IntEnum


class ExitCode(IntEnum):
    """How a command ended, as the shell sees it."""

    OK = 0
    BROKEN = 1
    INVALID = 2
    EXECUTION_FAILED = 3
    NOT_AUTHORISED = 4
    NOT_FOUND = 5
    CONFLICT = 6
    TIMED_OUT = 7
    UNREACHABLE = 8
    INTERRUPTED = 130
    PIPE_CLOSED = 141
