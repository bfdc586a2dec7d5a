"""The tool that runs Python code of a playbook in a limited subprocess."""

from __future__ import annotations

import math
import signal
from dataclasses import replace
from typing import Annotated, Any

from pydantic import BeforeValidator
from typing_extensions import override

from services.worker.tools.configs import BadConfigError, Config, Size, bad_config, read_config
from services.worker.tools.port import Call, Tool
from services.worker.tools.python_process import Finished, Limits, PythonProcesses
from shared.contracts.outcomes import Outcome, failure, success

MAX_MESSAGE = 1000


def _modules(value: object) -> object:
    """Return modules with the names they get: a list gives each its own, as `import` does."""
    if isinstance(value, list):
        return [(str(name).partition(".")[0], name) for name in value]
    return list(value.items()) if isinstance(value, dict) else value


class Script(Config):
    """Code that is kept elsewhere."""

    uri: str | None = None
    file: str | None = None
    inline: str | None = None


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

    def __init__(self, processes: PythonProcesses | None = None, limits: Limits | None = None) -> None:
        self._processes = processes or PythonProcesses()
        self._limits = limits or Limits()

    @override
    async def run(self, call: Call) -> Outcome:
        try:
            config = read_config(self.kind, PythonConfig, call.config)
            code = _code(config)
        except BadConfigError as problem:
            return problem.outcome
        limits = self._limits_of(config, call.timeout_s)
        request = {"code": code, "input": call.input, "libs": config.libs}
        finished = await self._processes.run(request, limits, call.timeout_s)
        outcome = _outcome(finished, limits, call.timeout_s)
        printed = {"stdout": finished.stdout, "stderr": finished.stderr}
        return replace(outcome, meta={name: text for name, text in printed.items() if text})

    def _limits_of(self, config: PythonConfig, timeout_s: float | None) -> Limits:
        most = self._limits
        memory = most.memory
        if config.memory is not None:
            memory = config.memory if memory is None else min(config.memory, memory)
        # One second more than the clock allows: only code that escapes the clock ever meets this limit.
        cpu = most.cpu_s if timeout_s is None else math.ceil(timeout_s) + 1
        return replace(most, memory=memory, cpu_s=cpu)


def _code(config: PythonConfig) -> str:
    if config.code is not None:
        return config.code
    if config.script is not None and config.script.inline is not None:
        return config.script.inline
    raise bad_config("python", "code or script.inline is needed; this worker loads no scripts from elsewhere")


def _outcome(finished: Finished, limits: Limits, timeout_s: float | None) -> Outcome:
    match finished.why:
        case "reply" if finished.reply is not None and "error" in finished.reply:
            return _raised(finished.reply["error"], limits)
        case "reply":
            return success((finished.reply or {}).get("result"))
        case "timeout":
            return failure("timeout", f"timeout: the code ran longer than {timeout_s:g} s")
        case "output":
            return failure("limit", f"the code printed more than {limits.output} bytes")
        case "result":
            return failure("limit", f"the result is larger than {limits.result} bytes")
        case _:
            return _died(finished.returncode, limits)


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
    if returncode == -signal.SIGXCPU:
        return failure("limit", f"the code used more than {limits.cpu_s} s of processor time")
    if returncode is not None and returncode < 0:
        name = signal.Signals(-returncode).name
        return failure("exception", f"the process of the code was ended by {name} before it gave a result", code=name)
    return failure("exception", f"the process of the code ended with status {returncode} before it gave a result")
