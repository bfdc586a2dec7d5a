"""The tool that runs SQL on DuckDB, in memory or on a file, in a process of its own."""

from __future__ import annotations

import asyncio
import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from typing_extensions import override

from services.worker.sinks.file_places import PlaceError, Places
from services.worker.sinks.file_turns import TURNS
from services.worker.tools.configs import BadConfigError, Config, Texts, bad_config, read_config
from services.worker.tools.duckdb_attach import MEMORY, Attach, Attached, attached_of, file_of
from services.worker.tools.port import Call, Tool
from services.worker.tools.process import CannotStartError, Ended, Limits, Order, Processes
from services.worker.tools.python import signal_name
from shared.contracts.outcomes import Failure, Outcome, failure, success

CHILD = Path(__file__).with_name("duckdb_child.py")
WAIT_S = 5.0
# What the process needs besides the memory that DuckDB manages: the interpreter, threads, the result.
OWN_MEMORY = 1024**3


class DuckdbConfig(Config):
    """What a `duckdb` task may say."""

    database: str | None = None
    auth: Any = None
    command: str | None = None
    commands: Texts | None = None
    params: list[Any] | dict[str, Any] | None = None
    attach: tuple[Attach, ...] = ()
    timeout: Any = None


@dataclass(frozen=True, slots=True)
class DuckdbLimits:
    """What one call may use."""

    memory: int = 512 * 1024**2
    disk: int = 16 * 1024**3
    threads: int = 2
    rows: int = 100_000
    result: int = 64 * 1024**2


class DuckdbTool(Tool):
    """Runs statements in order; the rows of the last one that returns rows are the result."""

    kind = "duckdb"
    keeps_time = True
    config_model: ClassVar[type[Config]] = DuckdbConfig

    def __init__(
        self,
        places: Places | None = None,
        limits: DuckdbLimits | None = None,
        *,
        extensions: str | None = None,
        at_a_time: int = 16,
    ) -> None:
        self._places = places or Places()
        self._limits = limits or DuckdbLimits()
        self._extensions = extensions
        # The files are the worker's, so that the process is of the same user.
        self._processes = Processes(sys.executable, at_a_time=at_a_time, first_uid=None)

    @override
    async def run(self, call: Call) -> Outcome:
        try:
            config = read_config(self.kind, DuckdbConfig, call.config)
            database = await self._database(config, call)
            attached = [await attached_of(item, self._places, call) for item in config.attach]
            order = self._order(config, database, attached)
            files = [file for file in (database, *(each.file for each in attached)) if file is not None]
            async with asyncio.timeout(call.timeout_s), TURNS.at(files):
                ended = await self._processes.run(order, self._process_limits, None)
        except BadConfigError as problem:
            return problem.outcome
        except PlaceError as problem:
            return failure("expression", f"duckdb: {problem}")
        except CannotStartError as problem:
            return failure("exception", f"the SQL cannot be run: {problem}")
        except TimeoutError:
            return failure("timeout", f"timeout: the SQL ran longer than {call.timeout_s:g} s")
        return _outcome(ended, self._limits)

    @override
    async def close(self) -> None:
        await self._processes.close()

    async def _database(self, config: DuckdbConfig, call: Call) -> Path | None:
        path = config.database
        if config.auth is not None:
            if path is not None:
                raise bad_config(self.kind, "either database or auth says where the database is, not both")
            path = file_of(await call.credential(config.auth))
        return None if path is None or path == MEMORY else self._places.of(path)

    def _order(self, config: DuckdbConfig, database: Path | None, attached: list[Attached]) -> Order:
        if (config.command is None) == (config.commands is None):
            raise bad_config(self.kind, "one of command and commands is needed")
        request = {
            "database": None if database is None else str(database),
            "attach": [each.as_json() for each in attached],
            "hidden": [each.path for each in attached if each.file is None],
            "statements": [config.command] if config.command is not None else list(config.commands or ()),
            "params": config.params or {},
            "threads": self._limits.threads,
            "memory": self._limits.memory,
            "disk": self._limits.disk,
            "most_rows": self._limits.rows,
            "most_bytes": self._limits.result,
            "extensions": self._extensions,
            "fence": str(self._places.base) if self._places.is_fenced else None,
            "wait_s": WAIT_S,
        }
        argv = [sys.executable, "-I", "-X", "utf8", str(CHILD)]
        body = json.dumps(request).encode()
        return Order("exec", body, argv, cwd=str(self._places.base), keeps=self._process_limits.output)

    @property
    def _process_limits(self) -> Limits:
        most = self._limits
        return Limits(
            memory=most.memory + OWN_MEMORY + 4 * most.result,
            files=1024,
            file_size=None,
            output=most.result + 64 * 1024,
        )


def _outcome(ended: Ended, limits: DuckdbLimits) -> Outcome:
    if ended.why == "output":
        return failure("limit", f"the result is larger than {limits.result} bytes")
    try:
        reply = json.loads(ended.stdout.data)
    except ValueError:
        return _died(ended)
    if "error" not in reply:
        return success(reply["rows"], duckdb={"row_count": reply["row_count"], "changed": reply["changed"]})
    error = reply["error"]
    said = {name: error[name] for name in ("code", "statement") if error.get(name)}
    failed = Failure(error["kind"], error["message"], error["code"] or None, error["retryable"])
    return Outcome("error", error=failed.as_json(), extras={"duckdb": said})


def _died(ended: Ended) -> Outcome:
    code = ended.returncode
    if code is not None and code < 0:
        name = signal_name(-code)
        return failure("exception", f"the process of the SQL was ended by {name}", code=name)
    said = ended.stderr.text.strip().splitlines()
    reason = f": {said[-1][:300]}" if said else ""
    return failure("exception", f"the process of the SQL gave no result{reason}")
