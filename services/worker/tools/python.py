"""The tool that runs Python code of a playbook in a limited process."""

from __future__ import annotations

import json
import math
import signal
from dataclasses import replace
from typing import Annotated, Any

from pydantic import BeforeValidator
from typing_extensions import override

from services.worker.tools.configs import BadConfigError, Config, Size, bad_config, read_config
from services.worker.tools.port import Call, Tool
from services.worker.tools.process import CannotStartError, Ended, Limits, Order, Processes
from services.worker.tools.python_scripts import Script, ScriptError, Scripts, Source
from shared.contracts.outcomes import Outcome, failure, success
from shared.runtime.logs import Log

MAX_MESSAGE = 1000
MAX_LINE = 1_000_000
PLAYBOOK, CODE = "<playbook>", "<code>"
"""What tracebacks call the code: by lines of the playbook if they are known, else by its own."""

_log = Log("redrive.worker.python")


def _modules(value: object) -> object:
    """Return modules with the names they get: a list gives each its own, as `import` does."""
    if isinstance(value, list):
        return [(str(name).partition(".")[0], name) for name in value]
    return list(value.items()) if isinstance(value, dict) else value


class PythonConfig(Config):
    """What a `python` task may say."""

    code: str | None = None
    script: Script | None = None
    libs: Annotated[tuple[tuple[str, str], ...], BeforeValidator(_modules)] = ()
    memory: Size | None = None
    timeout: Any = None


class PythonTool(Tool):
    """Runs code: a `main` function, a script that sets `result`, or one that returns."""

    kind = "python"
    keeps_time = True
    config_model = PythonConfig

    def __init__(
        self, processes: Processes | None = None, limits: Limits | None = None, scripts: Scripts | None = None
    ) -> None:
        self._processes = processes or Processes()
        self._limits = limits or Limits()
        self._scripts = scripts or Scripts()

    @override
    async def run(self, call: Call) -> Outcome:
        try:
            config = read_config(self.kind, PythonConfig, call.config)
            source = await self._source(config, call)
            limits = self._limits_of(config, call.timeout_s)
            ended = await self._processes.run(_order(source, config, call), limits, call.timeout_s)
        except (BadConfigError, ScriptError) as problem:
            return problem.outcome
        except CannotStartError as problem:
            return failure("exception", f"the code cannot be run: {problem}")
        outcome = _outcome(ended, limits, call.timeout_s)
        printed = {"stdout": ended.stdout.text, "stderr": ended.stderr.text}
        return replace(outcome, meta={name: text for name, text in printed.items() if text})

    @override
    async def open(self) -> None:
        try:
            self._processes.warm_up()
        except CannotStartError as problem:
            _log.error("python_not_ready", reason=str(problem))

    @override
    async def close(self) -> None:
        await self._processes.close()

    async def _source(self, config: PythonConfig, call: Call) -> Source:
        if (config.code is None) == (config.script is None):
            raise bad_config(self.kind, "one of code and script is needed")
        text = config.code if config.script is None else config.script.inline
        if text is None:
            assert config.script is not None
            return await self._scripts.load(config.script, call)
        if call.code_line is None or call.code_line > MAX_LINE:
            return Source(text, CODE)
        return Source(text, PLAYBOOK, call.code_line)

    def _limits_of(self, config: PythonConfig, timeout_s: float | None) -> Limits:
        most = self._limits
        memory = most.memory
        if config.memory is not None:
            memory = config.memory if memory is None else min(config.memory, memory)
        return replace(most, memory=memory, cpu_s=processor_time(most, timeout_s))


def processor_time(most: Limits, timeout_s: float | None) -> int | None:
    """Return the limit of processor time that goes with a limit of time.

    It is one second more than the clock allows: only what escapes the clock ever meets it.
    """
    return most.cpu_s if timeout_s is None else math.ceil(timeout_s) + 1


def _order(source: Source, config: PythonConfig, call: Call) -> Order:
    request = {
        "code": source.text,
        "file": source.file,
        "first_line": source.first_line,
        "input": call.input,
        "libs": config.libs,
    }
    body = json.dumps(request).encode()
    return Order("python", len(body).to_bytes(8, "big") + body)


def _outcome(ended: Ended, limits: Limits, timeout_s: float | None) -> Outcome:
    reply = ended.reply or {}
    match ended.why:
        case "timeout":
            return failure("timeout", f"timeout: the code ran longer than {timeout_s:g} s")
        case "output":
            return failure("limit", f"the code printed more than {limits.output} bytes")
        case "reply":
            return failure("limit", f"the result is larger than {limits.reply} bytes")
    if "error" in reply:
        return _raised(reply["error"], limits)
    if "result" in reply:
        return success(reply["result"])
    if "problem" in reply:
        return failure("exception", f"the process of the code cannot be set up: {reply['problem']}")
    return _died(ended.returncode, limits)


def _raised(error: dict[str, Any], limits: Limits) -> Outcome:
    name, message = error["exception"], error["message"]
    py = {"exception": name, "message": message, "traceback": error["traceback"]}
    if error.get("module"):
        py["module"] = error["module"]
    if name == "MemoryError":
        return failure("limit", f"the code needs more memory than {limits.memory} bytes", code=name, py=py)
    text = message if name == "NotJsonError" else f"{name}: {message}" if message else name
    return failure("exception", text[:MAX_MESSAGE], code=name, py=py)


def _died(returncode: int | None, limits: Limits) -> Outcome:
    if returncode is None:
        return failure("exception", "the process of the code was lost before it gave a result")
    if returncode == -signal.SIGXCPU:
        return failure("limit", f"the code used more than {limits.cpu_s} s of processor time")
    if returncode < 0:
        name = signal_name(-returncode)
        return failure("exception", f"the process of the code was ended by {name} before it gave a result", code=name)
    return failure("exception", f"the process of the code ended with status {returncode} before it gave a result")


def signal_name(number: int) -> str:
    """Return what people call a signal."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
