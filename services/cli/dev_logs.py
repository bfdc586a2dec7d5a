"""Logs for people: one line for each event, with its ids behind it."""

from __future__ import annotations

import logging
import sys
from typing import TextIO

from typing_extensions import override

from services.cli.output import painted, printable
from shared.runtime.logs import fields_of, hidden

_TONES = {logging.WARNING: "33", logging.ERROR: "31", logging.CRITICAL: "31;1"}
_PREFIX = "redrive."


class OneLiners(logging.Formatter):
    """Formats a record as time, logger, event and fields; a traceback follows on lines of its own."""

    def __init__(self, *, colour: bool) -> None:
        super().__init__(datefmt="%H:%M:%S")
        self._colour = colour

    @override
    def format(self, record: logging.LogRecord) -> str:
        event = printable(record.getMessage())
        shown = painted(event, _TONES[record.levelno], self._colour) if record.levelno in _TONES else event
        fields = " ".join(f"{name}={printable(str(value))[:200]}" for name, value in fields_of(record).items())
        about = f"{self.formatTime(record, self.datefmt)}  {record.name.removeprefix(_PREFIX):<14} {shown}"
        line = f"{about}  {painted(fields, '2', self._colour)}" if fields else about
        return hidden(f"{line}\n{self.formatException(record.exc_info)}" if record.exc_info else line)


def write_one_liners(level: str, *, colour: bool, stream: TextIO | None = None) -> None:
    """Send every log of this process to a stream, stderr unless given, for people to read."""
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(OneLiners(colour=colour))
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
    for noisy in ("httpx", "httpcore", "aiormq", "aio_pika", "uvicorn"):
        logging.getLogger(noisy).setLevel(max(logging.WARNING, root.level))
