"""The tool that runs SQL on a Postgres database."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from typing_extensions import override

from services.worker.tools.configs import BadConfigError, Config, Seconds, Texts, bad_config, read_config
from services.worker.tools.port import Call, Tool
from services.worker.tools.postgres_address import Address, address_of, address_of_dsn
from services.worker.tools.postgres_errors import failure_of
from services.worker.tools.postgres_params import UNSTORABLE
from services.worker.tools.postgres_pools import (
    SERVER_MARGIN_S,
    WAIT_S,
    Pools,
    job_settings,
)
from services.worker.tools.postgres_running import Done, Fetch, Reading, Run, StaleTypeError, StatementError
from services.worker.tools.postgres_text import Bound, SqlTextError, Statement, bind, split, used
from shared.contracts.outcomes import Failure, Outcome, failure, success

MAX_STATEMENTS = 1000


class PostgresTimeouts(Config):
    """How long the parts of a call may take."""

    connect: Seconds = WAIT_S
    read: Seconds | None = None
    total: Seconds | None = None


class PostgresConfig(Config):
    """What a `postgres` task may say."""

    auth: Any = None
    dsn: str | None = None
    command: str | None = None
    commands: Texts | None = None
    params: list[Any] | dict[str, Any] | None = None
    fetch: Fetch = "rows"
    timeout: PostgresTimeouts = PostgresTimeouts()


@dataclass(frozen=True, slots=True)
class _Task:
    """What is to be run, and how long that may take."""

    statements: list[Statement]
    bounds: list[Bound]
    total_s: float | None


class PostgresTool(Tool):
    """Runs statements over pooled connections, all of one task in one transaction."""

    kind = "postgres"
    keeps_time = True
    config_model = PostgresConfig

    def __init__(self, reading: Reading | None = None, pools: Pools | None = None) -> None:
        self._reading = reading or Reading()
        self._pools = pools or Pools()

    @override
    async def run(self, call: Call) -> Outcome:
        try:
            config = read_config(self.kind, PostgresConfig, call.config)
            task = _task(call, config)
        except BadConfigError as problem:
            return problem.outcome
        limit = asyncio.timeout(task.total_s)
        try:
            async with limit:
                return await self._ran(call, config, task)
        except StatementError as problem:
            return _failed(problem.failure, problem.statement, problem.command)
        except Exception as problem:
            if limit.expired() and isinstance(problem, TimeoutError):
                return failure("timeout", f"timeout: the statements took longer than {task.total_s:g} s")
            found = failure_of(problem)
            if found is None:
                raise
            return _failed(found)

    @override
    async def close(self) -> None:
        await self._pools.close()

    async def _ran(self, call: Call, config: PostgresConfig, task: _Task) -> Outcome:
        address = await _address(call, config)
        try:
            return await self._on_a_connection(address, call, config, task)
        except StaleTypeError:
            await self._pools.renew(address)
            if any(statement.steers_transactions for statement in task.statements):
                raise
            # All of it was in the transaction that is rolled back.
            return await self._on_a_connection(address, call, config, task)

    async def _on_a_connection(self, address: Address, call: Call, config: PostgresConfig, task: _Task) -> Outcome:
        settings = partial(job_settings, call.job_id, call.execution_id, _statement_s(config, task.total_s))
        reading = replace(self._reading, fetch=config.fetch)
        async with self._pools.connection(address, config.timeout.connect) as connection:
            run = Run(connection, task.bounds, task.statements, reading, settings("SET LOCAL"), settings("SET"))
            done = await run.run()
        return _outcome(done, config.fetch)


async def _address(call: Call, config: PostgresConfig) -> Address:
    if config.auth is not None:
        return address_of(await call.credential(config.auth))
    return address_of_dsn(config.dsn or "")


def _task(call: Call, config: PostgresConfig) -> _Task:
    statements = _statements(config)
    limits = (config.timeout.total, call.timeout_s)
    total_s = min((limit for limit in limits if limit is not None), default=None)
    return _Task(statements, _bounds(statements, config), total_s)


def _statements(config: PostgresConfig) -> list[Statement]:
    """Return what is to be run; raises BadConfigError."""
    if (config.auth is None) == (config.dsn is None):
        raise bad_config("postgres", "either auth or dsn is needed")
    if (config.command is None) == (config.commands is None):
        raise bad_config("postgres", "either command or commands is needed")
    texts = config.commands if config.command is None else (config.command,)
    if any(UNSTORABLE.search(text) for text in texts or ()):
        raise bad_config("postgres", "command: a NUL character or half of a surrogate pair is no SQL")
    try:
        found = [statement for text in texts or () for statement in split(text)]
    except SqlTextError as problem:
        raise bad_config("postgres", f"command: {problem}") from None
    if not 0 < len(found) <= MAX_STATEMENTS:
        raise bad_config("postgres", f"command: {len(found)} statements; there are at least 1 and at most 1000")
    if any(statement.streams for statement in found):
        raise bad_config("postgres", "command: COPY from STDIN or to STDOUT has nothing to read from or write to")
    return found


def _bounds(statements: list[Statement], config: PostgresConfig) -> list[Bound]:
    given = config.params
    if isinstance(given, list) and len(given) > used(statements):
        raise bad_config("postgres", f"params has {len(given)} values, the statements use {used(statements)} of them")
    try:
        return [bind(statement, given) for statement in statements]
    except SqlTextError as problem:
        raise bad_config("postgres", f"params: {problem}") from None


def _statement_s(config: PostgresConfig, total: float | None) -> float | None:
    """Return how long the server may take for one statement, so that none outlives its job."""
    limits = (config.timeout.read, None if total is None else total + SERVER_MARGIN_S)
    return min((limit for limit in limits if limit is not None), default=None)


def _outcome(done: Sequence[Done], fetch: Fetch) -> Outcome:
    told = [each for each in done if each.rows is not None]
    last = told[-1] if told else done[-1]
    extras = {"pg": {"code": "00000", "row_count": last.row_count, "command": last.command}}
    notes = [note for each in done for note in each.notes]
    return replace(success(_result(done, last, fetch), **extras), meta={"notes": notes} if notes else {})


def _result(done: Sequence[Done], last: Done, fetch: Fetch) -> Any:
    first = next(iter(last.rows or ()), None)
    match fetch:
        case "none":
            return None
        case "one":
            return first
        case "value":
            return next(iter((first or {}).values()), None)
        case "rows":
            each = {f"command_{index}": _shown(item) for index, item in enumerate(done)}
            return {**_shown(last), **each}


def _shown(done: Done) -> dict[str, Any]:
    return {"rows": done.rows or [], "row_count": done.row_count}


def _failed(found: Failure, statement: int | None = None, command: str | None = None) -> Outcome:
    details = {**found.details, **({} if statement is None else {"statement": statement})}
    pg = {"code": found.code, "row_count": 0, "command": command}
    return Outcome("error", error=replace(found, details=details).as_json(), extras={"pg": pg})
