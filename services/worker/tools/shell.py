"""The tool that runs commands in limited processes."""

from __future__ import annotations

import asyncio
import json
import signal
from dataclasses import replace
from typing import Annotated, Any

from pydantic import BeforeValidator
from typing_extensions import override

from services.worker.tools.configs import BadConfigError, Config, bad_config, read_config
from services.worker.tools.port import Call, Tool
from services.worker.tools.process import TAIL_BYTES, CannotStartError, Ended, Limits, Order, Processes, Room
from services.worker.tools.python import processor_time, signal_name
from shared.contracts.outcomes import Outcome, failure

SHELL = "/bin/sh"
SIGNAL_CODES = 128
CANNOT_START = 127


def _texts(value: object) -> object:
    return [value] if isinstance(value, str) else value


def _words(value: object) -> object:
    return [_word(item) for item in value] if isinstance(value, list) else value


def _variables(value: object) -> object:
    if not isinstance(value, dict):
        return value
    for name in value:
        if not name or "=" in name or "\0" in name:
            raise ValueError("the name of a variable is neither empty nor has it '=' in it")
    return {name: _word(item) for name, item in value.items() if item is not None}


def _word(value: object) -> object:
    """Return data as a command takes it: a text as it is, everything else as JSON."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


class ShellConfig(Config):
    """What a `shell` task may say."""

    cmd: str | None = None
    cmds: Annotated[tuple[str, ...] | None, BeforeValidator(_texts)] = None
    argv: Annotated[tuple[str, ...] | None, BeforeValidator(_words)] = None
    env: Annotated[dict[str, str] | None, BeforeValidator(_variables)] = None
    cwd: str | None = None
    stdin: str | None = None
    timeout: Any = None


class ShellTool(Tool):
    """Runs a command line, several in order, or a program without a shell; another exit code than 0 is a failure."""

    kind = "shell"
    keeps_time = True
    config_model = ShellConfig

    def __init__(self, processes: Processes | None = None, limits: Limits | None = None) -> None:
        self._processes = processes or Processes()
        self._limits = limits or Limits()

    @override
    async def run(self, call: Call) -> Outcome:
        try:
            config = read_config(self.kind, ShellConfig, call.config)
            commands = _commands(config)
            limits = replace(self._limits, cpu_s=processor_time(self._limits, call.timeout_s))
            async with self._processes.room() as room:
                return await _Run(config, limits, call.timeout_s).of(commands, room)
        except BadConfigError as problem:
            return problem.outcome
        except CannotStartError as problem:
            return failure("exception", f"the command cannot be run: {problem}")

    @override
    async def close(self) -> None:
        await self._processes.close()


class _Run:
    """Commands that run one after the other until one fails, and what they said."""

    def __init__(self, config: ShellConfig, limits: Limits, timeout_s: float | None) -> None:
        self._config = config
        self._limits = limits
        self._timeout_s = timeout_s
        self._stdout: list[str] = []
        self._stderr: list[str] = []
        self._left = limits.output

    async def of(self, commands: list[list[str]], room: Room) -> Outcome:
        began = asyncio.get_running_loop().time()
        for number, argv in enumerate(commands, start=1):
            is_last = number == len(commands)
            spent_s = asyncio.get_running_loop().time() - began
            left_s = None if self._timeout_s is None else max(0.0, self._timeout_s - spent_s)
            limits = replace(self._limits, output=max(self._left, 0))
            ended = await room.run(self._order(argv, number), limits, left_s, is_last=is_last)
            self._hear(ended)
            if is_last or ended.why != "ended" or ended.returncode != 0:
                which = f"command {number} of {len(commands)}" if len(commands) > 1 else "the command"
                return self._outcome(ended, which)
        raise AssertionError("there is at least one command")

    def _order(self, argv: list[str], number: int) -> Order:
        stdin = (self._config.stdin or "").encode("utf-8", "replace") if number == 1 else b""
        env = self._config.env or {}
        return Order("exec", stdin, argv, env, self._config.cwd, keeps=self._limits.output)

    def _hear(self, ended: Ended) -> None:
        self._stdout.append(ended.stdout.text)
        self._stderr.append(ended.stderr.text)
        self._left -= ended.stdout.size + ended.stderr.size

    def _outcome(self, ended: Ended, which: str) -> Outcome:
        failed = self._failure(ended, which)
        code = _exit_code(ended)
        said = {"stdout": "".join(self._stdout), "stderr": "".join(self._stderr)}
        tails = {name: text if len(text) <= TAIL_BYTES else f"… {text[-TAIL_BYTES:]}" for name, text in said.items()}
        shell: dict[str, Any] = {"exit_code": code, **tails}
        if ended.why == "ended" and (ended.returncode or 0) < 0:
            shell["signal"] = signal_name(-(ended.returncode or 0))
        if failed is None:
            return Outcome("success", {"exit_code": code, **said}, extras={"shell": shell})
        result = {"exit_code": code, **said} if ended.why == "ended" else None
        return replace(failed, result=result, extras={"shell": shell})

    def _failure(self, ended: Ended, which: str) -> Outcome | None:
        """Return what went wrong, if anything did."""
        match ended.why:
            case "timeout":
                return failure("timeout", f"timeout: {which} ran longer than {self._timeout_s:g} s")
            case "output" | "reply":
                return failure("limit", f"{which} printed more than {self._limits.output} bytes")
            case "lost":
                return failure("exception", f"{which} was lost before it ended")
        if ended.reply is not None:
            return failure("exception", f"{which} cannot be started: {ended.reply['problem']}", code=CANNOT_START)
        code = ended.returncode or 0
        if code == -signal.SIGXCPU:
            return failure("limit", f"{which} used more than {self._limits.cpu_s} s of processor time")
        if code < 0:
            return failure("exception", f"{which} was ended by {signal_name(-code)}", code=SIGNAL_CODES - code)
        return failure("exception", f"{which} ended with exit code {code}", code=code) if code else None


def _commands(config: ShellConfig) -> list[list[str]]:
    given = [part for part in (config.cmd, config.cmds, config.argv) if part is not None]
    if len(given) != 1 or not given[0]:
        raise bad_config("shell", "one of cmd, cmds and argv is needed, and says what to run")
    if config.argv is not None:
        return [list(config.argv)]
    lines = [config.cmd] if config.cmd is not None else list(config.cmds or ())
    return [[SHELL, "-c", line] for line in lines]


def _exit_code(ended: Ended) -> int | None:
    """Return the exit code as a shell tells it: 128 and the number of the signal, if one ended it."""
    if ended.why != "ended" or ended.returncode is None:
        return None
    if ended.reply is not None:
        return CANNOT_START
    return SIGNAL_CODES - ended.returncode if ended.returncode < 0 else ended.returncode
