"""Logs as lines of JSON: an event's name, its ids, and nothing that a person would have to parse."""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, TextIO

from typing_extensions import override

MAX_TEXT = 4000
_FIELDS = "redrive_fields"
_hiding: list[Callable[[str], str]] = []
_STANDARD = frozenset(vars(logging.makeLogRecord({}))) | {_FIELDS, "message", "asctime", "taskName"}


class Log:
    """Writes events with their ids; a logger of the standard library lies beneath."""

    __slots__ = ("_fields", "_logger")

    def __init__(self, name: str, **fields: Any) -> None:
        self._logger = logging.getLogger(name)
        self._fields = fields

    def bound(self, **fields: Any) -> Log:
        """Return a log that says these fields with every event."""
        return Log(self._logger.name, **{**self._fields, **fields})

    def debug(self, event: str, **fields: Any) -> None:
        """Write an event that only a developer looks for."""
        self._write(logging.DEBUG, event, fields)

    def info(self, event: str, **fields: Any) -> None:
        """Write an event of normal work."""
        self._write(logging.INFO, event, fields)

    def warning(self, event: str, **fields: Any) -> None:
        """Write an event that an operator may want to look into."""
        self._write(logging.WARNING, event, fields)

    def error(self, event: str, problem: BaseException | None = None, **fields: Any) -> None:
        """Write an event that an operator has to look into, with the traceback of what led to it."""
        self._write(logging.ERROR, event, fields, problem)

    def _write(self, level: int, event: str, fields: dict[str, Any], problem: BaseException | None = None) -> None:
        if self._logger.isEnabledFor(level):
            self._logger.log(level, event, exc_info=problem, extra={_FIELDS: {**self._fields, **fields}})


class JsonLines(logging.Formatter):
    """Formats every record, also those of other libraries, as one line of JSON."""

    def __init__(self, service: str) -> None:
        super().__init__()
        self._service = service

    @override
    def format(self, record: logging.LogRecord) -> str:
        hide = _hiding[-1] if _hiding else str
        line: dict[str, Any] = {
            "at": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "service": self._service,
            "logger": record.name,
            "event": hide(record.getMessage())[:MAX_TEXT],
        }
        line.update(fields_of(record))
        if record.exc_info:
            # What must not be shown is looked for before a cut could leave half of it.
            line["traceback"] = hide(self.formatException(record.exc_info))[-MAX_TEXT:]
        return hide(json.dumps(line, default=str))


def hide_in_logs(hide: Callable[[str], str]) -> None:
    """Let a function take out of every line of this process what must not be shown; the last one given counts."""
    _hiding[:] = [hide]


def hidden(text: str) -> str:
    """Return a text without what must not be shown."""
    return _hiding[-1](text) if _hiding else text


def fields_of(record: logging.LogRecord) -> dict[str, Any]:
    """Return what a record says besides its event: ids, and whatever another library added."""
    own = {name: value for name, value in vars(record).items() if name not in _STANDARD}
    return {**own, **getattr(record, _FIELDS, {})}


def write_json_logs(service: str, level: str = "INFO", stream: TextIO | None = None) -> None:
    """Send every log of this process to a stream, stderr unless given, as lines of JSON."""
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(JsonLines(service))
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
    for noisy in ("httpx", "httpcore", "aiormq", "aio_pika"):
        logging.getLogger(noisy).setLevel(max(logging.WARNING, root.level))
