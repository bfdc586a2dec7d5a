"""What went wrong in Postgres or on the way to it, as a failure for rules to read, without values or addresses."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

import asyncpg

from services.worker.tools.postgres_address import AddressError
from services.worker.tools.postgres_pools import DRIVER_ERRORS, CommitUnknownError, NoConnectionError
from shared.contracts.outcomes import RETRYABLE_SQLSTATES, Failure

MAX_MESSAGE = 500
SHORTEST_HIDDEN = 3
# The server is not there, does not want us now, or has sent us away; and it took too long or was cancelled.
_CONNECTION = ("08", "57P", "53300")
_CANCELLED = "57014"
_NOT_ENCODED = "22000"
_ARGUMENT = re.compile(r"(?:query argument|parameter) (\$[0-9]+)")
_PLACES = {"constraint_name": "constraint", "table_name": "table", "column_name": "column", "data_type_name": "type"}


def failure_of(problem: BaseException, names: Iterable[str] = (), values: Iterable[Any] = ()) -> Failure | None:
    """Return what a problem means; nothing, if it is none of the driver's.

    `names` and `values` are those of the statement's parameters: the names are said, the values are not.
    """
    match problem:
        case AddressError():
            return Failure("auth", str(problem))
        case NoConnectionError():
            return Failure("connection", str(problem), retryable=True)
        case CommitUnknownError():
            message = "the connection broke while the transaction was being committed; it may be there or not"
            return Failure("connection", message, retryable=True)
        case asyncpg.ClientConfigurationError():
            return Failure("auth", "the address of the database cannot be used: a part of it is wrong")
        case asyncpg.DataError() if not getattr(problem, "severity", None):
            return Failure("sql", _refused(str(problem), tuple(names)), _NOT_ENCODED)
        case asyncpg.PostgresError() if problem.sqlstate:
            return _of_server(problem, values)
        case asyncpg.UnsupportedClientFeatureError() | NotImplementedError():
            return Failure("sql", "a column is of a type that cannot be read; cast it to text", "0A000")
        case _ if isinstance(problem, DRIVER_ERRORS):
            return Failure("connection", f"no connection to the database: {_reason(problem)}", retryable=True)
        case _:
            return None


def _of_server(problem: Any, values: Iterable[Any]) -> Failure:
    code = str(problem.sqlstate)
    message = _without(str(problem.args[0] if problem.args else problem), values)
    details = {name: found for key, name in _PLACES.items() if (found := getattr(problem, key, None))}
    if code == _CANCELLED:
        return Failure("timeout", f"timeout: {message}", code, retryable=True)
    if code.startswith("28"):
        return Failure("auth", message, code)
    if code.startswith(_CONNECTION):
        return Failure("connection", message, code, retryable=True)
    return Failure("sql", message, code, code in RETRYABLE_SQLSTATES, details)


def _without(message: str, values: Iterable[Any]) -> str:
    """Return a message with the values of parameters left out of it, where it quotes them."""
    for value in values:
        if isinstance(value, str) and len(value) >= SHORTEST_HIDDEN:
            message = message.replace(f'"{value}"', '"…"')
    return message[:MAX_MESSAGE]


def _refused(message: str, names: tuple[str, ...]) -> str:
    """Return which parameter the driver could not send; its own words hold the value."""
    found = _ARGUMENT.search(message)
    if found is None:
        return "a value cannot be sent as what its place takes"
    index = int(found[1][1:]) - 1
    name = names[index] if index < len(names) else found[1]
    return f"the parameter '{name}' cannot be sent as what its place takes; pass a text and cast it"


def _reason(problem: BaseException) -> str:
    cause = problem.__cause__ or problem
    return str(cause)[:200] or type(cause).__name__
