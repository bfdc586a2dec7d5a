"""The `shell` tool in real processes."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from services.worker.tools.process import Limits, Processes
from services.worker.tools.shell import ShellTool
from shared.contracts.outcomes import Outcome
from tests.support.eventually import eventually
from tests.unit.worker.given import a_call

PROCESSES = Processes()
TOOL = ShellTool(PROCESSES)


@pytest.fixture(scope="module", autouse=True)
def _no_process_left() -> Iterator[None]:
    yield
    asyncio.run(PROCESSES.close())


async def ran(tool: ShellTool = TOOL, timeout_s: float | None = 30.0, **config: Any) -> Outcome:
    return await tool.run(a_call(config, timeout_s=timeout_s))


def error_of(outcome: Outcome) -> dict[str, Any]:
    assert outcome.status == "error", outcome.result
    assert outcome.error is not None
    return outcome.error


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


async def test_a_command_line_runs_in_a_shell_and_its_output_is_text() -> None:
    outcome = await ran(cmd='echo "{\\"a\\": 1}" | cat; echo oops >&2')

    assert outcome.status == "success"
    assert outcome.result == {"exit_code": 0, "stdout": '{"a": 1}\n', "stderr": "oops\n"}
    assert outcome.extras["shell"] == outcome.result


@pytest.mark.parametrize(
    ("config", "stdout"),
    [
        ({"argv": ["printf", "%s|", "a b", "$HOME", 3, True, {"x": None}]}, 'a b|$HOME|3|true|{"x": null}|'),
        ({"cmds": ["echo one > kept", "cat kept; echo two"]}, "one\ntwo\n"),
        ({"cmds": "echo one"}, "one\n"),
        ({"cmd": "cat", "stdin": "Grüße\n"}, "Grüße\n"),
        ({"cmd": "cat"}, ""),
        ({"cmd": "pwd", "cwd": "/usr"}, "/usr\n"),
        ({"cmd": "echo $A-$B-$C-$D", "env": {"A": "x y", "B": 2, "C": [1], "D": None}}, "x y-2-[1]-\n"),
        ({"cmd": "printf '\\377'"}, "\ufffd"),
        ({"cmd": "echo x > /dev/stdout"}, "x\n"),
    ],
)
async def test_commands_get_what_they_are_given(config: dict[str, Any], stdout: str) -> None:
    outcome = await ran(**config)

    assert outcome.status == "success", outcome.error
    assert outcome.result["stdout"] == stdout


async def test_the_environment_of_the_worker_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REDRIVE_WORKER_TOKEN", "s3cret")
    outcome = await ran(cmd="env; pwd", env={"MINE": "1"})

    *lines, cwd = outcome.result["stdout"].splitlines()
    environment = dict(line.split("=", 1) for line in lines)
    assert {*environment} - {"PWD", "OLDPWD", "SHLVL", "_"} == {"PATH", "LANG", "HOME", "TMPDIR", "MINE"}
    assert environment["HOME"] == environment["TMPDIR"] == cwd
    assert not os.path.exists(cwd)  # noqa: ASYNC240


@pytest.mark.parametrize(
    ("config", "code", "message"),
    [
        ({"cmd": "echo before; exit 3"}, 3, "the command ended with exit code 3"),
        ({"cmd": "no_such_program_here"}, 127, "the command ended with exit code 127"),
        ({"argv": ["no_such_program_here"]}, 127, "the command cannot be started: No such file or directory"),
        ({"argv": ["/etc/passwd"]}, 127, "the command cannot be started: Permission denied"),
        ({"cmd": "true", "cwd": "/nowhere"}, 127, "the command cannot be started: No such file or directory"),
        ({"cmd": "kill -TERM $$"}, 143, "the command was ended by SIGTERM"),
        ({"cmds": ["true", "false", "echo never"]}, 1, "command 2 of 3 ended with exit code 1"),
    ],
)
async def test_another_exit_code_than_0_is_a_failure(config: dict[str, Any], code: int, message: str) -> None:
    outcome = await ran(**config)

    error = error_of(outcome)
    assert (error["kind"], error["code"], error["message"]) == ("exception", code, message)
    assert error["retryable"] is False
    assert outcome.extras["shell"]["exit_code"] == outcome.result["exit_code"] == code
    assert "never" not in outcome.result["stdout"]


async def test_a_signal_is_named() -> None:
    outcome = await ran(cmd="kill -KILL $$")

    assert outcome.extras["shell"]["signal"] == "SIGKILL"


async def test_a_command_that_takes_too_long_is_killed_with_everything_it_started() -> None:
    line = "setsid sh -c 'echo $$; sleep 600 & echo $!; wait' & sleep 600 & echo $!; wait"
    outcome = await ran(cmd=line, timeout_s=2.5)

    error = error_of(outcome)
    assert (error["kind"], error["retryable"]) == ("timeout", True)
    assert error["message"] == "timeout: the command ran longer than 2.5 s"
    pids = [int(text) for text in outcome.extras["shell"]["stdout"].split()]
    assert len(pids) == 3
    assert not any(alive(pid) for pid in pids)


async def test_the_time_is_for_all_commands_together() -> None:
    outcome = await ran(cmds=["sleep 2", "sleep 2"], timeout_s=3.0)

    assert error_of(outcome)["message"] == "timeout: command 2 of 2 ran longer than 3 s"


async def test_a_command_that_is_done_leaves_nothing_running() -> None:
    outcome = await ran(cmd="nohup setsid sleep 600 >/dev/null 2>&1 & echo $!")

    assert outcome.status == "success"
    assert not alive(int(outcome.result["stdout"]))


async def test_a_cancelled_call_leaves_no_process() -> None:
    seconds = f"6{os.getpid()}.25"
    task = asyncio.create_task(ran(cmd=f"sleep {seconds}"))

    def running() -> list[str]:
        found = []
        for place in Path("/proc").glob("[0-9]*/cmdline"):
            try:
                found += [place.parent.name] if place.read_bytes() == f"sleep\0{seconds}\0".encode() else []
            except OSError:
                continue
        return found

    async def begun() -> bool:
        return bool(running())

    await eventually(begun)
    task.cancel()
    await asyncio.wait([task])

    assert task.cancelled()
    assert running() == []


async def test_what_is_printed_is_limited_and_its_end_is_shown() -> None:
    tool = ShellTool(PROCESSES, replace(Limits(), output=100_000))
    endless = await ran(tool, cmd="yes")
    together = await ran(tool, cmds=["head -c 60000 /dev/zero", "head -c 60000 /dev/zero"])
    long = await ran(tool, cmd="seq 1 10000")

    assert error_of(endless)["message"] == "the command printed more than 100000 bytes"
    assert error_of(together)["message"] == "command 2 of 2 printed more than 100000 bytes"
    assert endless.result is None
    assert long.result["stdout"].startswith("1\n2\n")
    assert long.extras["shell"]["stdout"].startswith("… ")
    assert long.extras["shell"]["stdout"].endswith("\n10000\n")
    assert len(long.extras["shell"]["stdout"]) < 5000


async def test_memory_files_and_time_are_limited() -> None:
    limits = replace(Limits(), memory=300_000_000, files=20, file_size=1000)
    tool = ShellTool(PROCESSES, limits)
    shown = await ran(tool, cmd="ulimit -v; ulimit -n; ulimit -c; head -c 5000 /dev/zero > big; wc -c < big")
    spinning = await ran(ShellTool(PROCESSES, replace(limits, cpu_s=1)), cmd="while :; do :; done", timeout_s=None)

    memory, files, core, size = shown.result["stdout"].split()
    assert (int(memory), int(files), int(core), int(size)) == (300_000_000 // 1024, 20, 0, 1000)
    assert error_of(spinning)["kind"] == "limit"
    assert "1 s of processor time" in error_of(spinning)["message"]


@pytest.mark.skipif(sys.platform != "linux" or os.geteuid() != 0, reason="only root can give commands less rights")
async def test_commands_of_a_worker_that_is_root_run_as_another_user() -> None:
    peek = f"id -u; cat /proc/{os.getpid()}/environ; cat /etc/shadow; kill -0 {os.getpid()}"
    outcome = await ran(cmd=peek)
    tool = ShellTool(Processes(first_uid=None))
    as_root = await ran(tool, cmd="id -u")
    await tool.close()

    assert int(outcome.result["stdout"]) >= 65000
    assert outcome.result["stderr"].lower().count("permi") == 3
    assert as_root.result["stdout"] == "0\n"


@pytest.mark.parametrize(
    "config",
    [
        {},
        {"cmd": ""},
        {"cmds": []},
        {"argv": []},
        {"cmd": "a", "argv": ["b"]},
        {"cmd": 3},
        {"cmd": "a", "comand": "b"},
        {"cmd": "a", "env": {"A=B": "c"}},
    ],
)
async def test_a_configuration_that_says_nothing_to_run_is_refused(config: dict[str, Any]) -> None:
    error = error_of(await ran(**config))

    assert error["kind"] == "expression"
    assert error["message"].startswith("shell: ")


async def test_a_nul_in_a_word_is_said() -> None:
    assert "cannot be started" in error_of(await ran(argv=["echo", "a\0b"]))["message"]


async def test_a_reader_that_stops_early_breaks_nothing() -> None:
    outcome = await ran(cmd="head -c 1", stdin="x" * 5_000_000)

    assert outcome.result["stdout"] == "x"
