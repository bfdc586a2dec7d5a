"""One run from its start to its end: on the embedded system or on a server, shown, and reported."""

from __future__ import annotations

import asyncio
import json
import logging
import sys
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import ExitStack, asynccontextmanager, contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TextIO

from services.cli.exit_codes import ExitCode
from services.cli.output import complain, print_json
from services.cli.run_inputs import Playbook
from services.cli.run_report import Report
from services.cli.run_show import Show, showing
from shared.errors import ConflictError, RejectedError, UnavailableError
from shared.runtime.config import SettingsError
from shared.runtime.lifecycle import stop_on_signals


@dataclass(frozen=True, slots=True)
class Run:
    """Everything a run was asked for."""

    playbook: Playbook
    others: Sequence[Playbook]
    workload: dict[str, Any]
    is_json: bool = False
    quiet: bool = False
    colour: str = "auto"
    timeout_s: float | None = None
    server: str | None = None
    key: str | None = field(default=None, repr=False)
    data: Path | None = None
    log: Path | None = None
    is_demo: bool = False
    credentials: dict[str, str] = field(default_factory=dict, repr=False)


def run_to_the_end(run: Run) -> int:
    """Run a playbook and return the exit code."""
    with ExitStack() as stack:
        stack.enter_context(_logs(run.log))
        if run.is_demo:
            from services.cli.demo import demo_service

            run.workload["api_url"] = stack.enter_context(demo_service())
        return asyncio.run(_until_asked_to_stop(run))


async def _until_asked_to_stop(run: Run) -> int:
    from services.cli.api import ApiError

    async with stop_on_signals() as stop:
        session = asyncio.create_task(_session(run))
        asked = asyncio.create_task(stop.wait())
        await asyncio.wait([session, asked], return_when=asyncio.FIRST_COMPLETED)
        asked.cancel()
        if not session.done():
            session.cancel()
        try:
            return await session
        except asyncio.CancelledError:
            complain("redrive run: interrupted")
            return ExitCode.INTERRUPTED
        except ApiError as problem:
            return _ended_badly(str(problem), problem.code)
        except ConflictError as problem:
            return _ended_badly(str(problem), ExitCode.CONFLICT)
        except (RejectedError, SettingsError) as problem:
            return _ended_badly(str(problem), ExitCode.INVALID)
        except UnavailableError as problem:
            return _ended_badly(str(problem), ExitCode.UNREACHABLE)


def _ended_badly(message: str, code: ExitCode) -> ExitCode:
    complain(f"redrive run: {message}")
    return code


async def _session(run: Run) -> int:
    async with _system(run) as (url, key, ended):
        following = asyncio.create_task(_followed(run, url, key))
        watched = [following, *([ended] if ended is not None else ())]
        try:
            await asyncio.wait(watched, return_when=asyncio.FIRST_COMPLETED)
            if not following.done() and ended is not None:
                ended.result()
            report = await following
        finally:
            following.cancel()
            await asyncio.gather(following, return_exceptions=True)
    return _told(run, report)


@asynccontextmanager
async def _system(run: Run) -> AsyncIterator[tuple[str, str | None, asyncio.Task[None] | None]]:
    """Give the address and the key of a system, and for an embedded one what tells of its early end."""
    if run.server is not None:
        yield run.server, run.key, None
        return
    from services.cli.embedded import Wanted, embedded

    async with embedded(Wanted("run", data=run.data, credentials=run.credentials)) as running:
        yield running.url, running.key, running.ended


async def _followed(run: Run, url: str, key: str | None) -> Report:
    from services.cli.api import Api

    api = Api(url, key)
    try:
        for playbook in run.others:
            await api.register(playbook.text, playbook.path)
        report = Report(await api.start(run.playbook.text, run.workload))
        try:
            async with asyncio.timeout(run.timeout_s):
                async with showing(run.playbook.name, quiet=run.quiet, colour=run.colour) as show:
                    await _watched(api, report, show)
        except TimeoutError:
            report.error = {"kind": "timeout", "message": f"not over within {run.timeout_s:g} s"}
        except asyncio.CancelledError:
            _say_what_becomes(run, report)
            raise
        report.result = await api.whole(report.result)
        if run.is_json:
            report.steps = await api.whole(report.steps)
        return report
    finally:
        await api.close()


async def _watched(api: Any, report: Report, show: Show) -> None:
    async for event in api.events(report.execution_id):
        report.apply(event)
        show.tell(event)


def _told(run: Run, report: Report) -> int:
    """Print what came of the run, and return the exit code."""
    is_over = report.status in ("completed", "failed", "cancelled")
    if run.is_json:
        print_json(report.as_json())
    elif report.status == "completed":
        print(json.dumps(report.result, indent=2, ensure_ascii=False))
    if not is_over:
        complain(f"redrive run: not over within {run.timeout_s:g} s")
        _say_what_becomes(run, report)
        return ExitCode.TIMED_OUT
    if report.status != "completed" and run.quiet and not run.is_json:
        complain(f"redrive run: {report.status}: {(report.error or {}).get('message')}")
    if run.is_demo and not run.quiet:
        from services.cli.demo import what_next

        complain(what_next())
    return ExitCode.OK if report.status == "completed" else ExitCode.EXECUTION_FAILED


def _say_what_becomes(run: Run, report: Report) -> None:
    """Say where an execution goes on that is no longer followed."""
    if run.server is not None:
        complain(f"redrive run: the execution goes on at {run.server}: {report.execution_id}")
    elif run.data is not None:
        again = f"redrive dev --data {run.data}"
        complain(f"redrive run: the execution {report.execution_id} goes on when the system does: {again}")


@contextmanager
def _logs(path: Path | None) -> Iterator[None]:
    """Send the services' logs to a file, or nowhere; afterwards they go where they went before."""
    from shared.runtime.logs import write_json_logs

    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    try:
        with nullcontext() if path is None else _opened(path) as file:
            if file is None:
                root.handlers[:] = [logging.NullHandler()]
                root.setLevel(logging.CRITICAL)
            else:
                write_json_logs("run", "INFO", file)
            yield
    finally:
        root.handlers[:] = handlers
        root.setLevel(level)


def _opened(path: Path) -> TextIO:
    try:
        return path.open("a", encoding="utf-8", buffering=1)
    except OSError as problem:
        sys.exit(_ended_badly(f"cannot write {path}: {problem.strerror}", ExitCode.INVALID))
