"""The `python` tool in real subprocesses."""

from __future__ import annotations

import asyncio
import json
import os
import sys
import textwrap
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from services.worker.tools.python import PythonTool
from services.worker.tools.python_process import Limits
from shared.contracts.outcomes import Outcome
from tests.support.eventually import eventually
from tests.unit.worker.given import a_call

TOOL = PythonTool()


async def ran(code: str, tool: PythonTool = TOOL, timeout_s: float | None = 30.0, **config: Any) -> Outcome:
    given = config.pop("input", {})
    return await tool.run(a_call({"code": textwrap.dedent(code), **config}, input=given, timeout_s=timeout_s))


def error_of(outcome: Outcome) -> dict[str, Any]:
    assert outcome.status == "error", outcome.result
    assert outcome.error is not None
    return outcome.error


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


@pytest.mark.parametrize(
    ("code", "result"),
    [
        ("result = a + b", 5),
        ("return a + b", 5),
        ("def main(a, b):\n    return a + b", 5),
        ("def main(a, /, *, b):\n    return a + b", 5),
        ("def main(b, c=10):\n    return b + c", 13),
        ("def main(**given):\n    return sorted(given)", ["a", "b"]),
        ("def main(input_data):\n    return input_data", {"a": 2, "b": 3}),
        ("def main():\n    return None", None),
        ("async def main(a):\n    import asyncio\n    await asyncio.sleep(0)\n    return a", 2),
        ("main = lambda a: a * 2", 4),
        ("result = input_data['a']", 2),
        ("def main(a):\n    return a\nresult = main(7)", 7),
        ("a = a + 1\nif a > 2:\n    return 'more'\nreturn 'less'", "more"),
        ("def helper():\n    return a\na = 9\nreturn helper()", 9),
        ("from __future__ import annotations\nfor x in [1]:\n    return x", 1),
        ("try:\n    1 / 0\nexcept ZeroDivisionError as problem:\n    return str(problem)", "division by zero"),
        ("def f():\n    return 1\nresult = [x for x in range(f())]", [0]),
        ("x = 1", None),
        ("", None),
        ("result = {'t': (1, 2), 1: None, 'ü': True}", {"t": [1, 2], "1": None, "ü": True}),
        ("import __main__\nresult = __name__", "playbook_code"),
        ("from dataclasses import dataclass\n@dataclass\nclass A:\n    x: int\nresult = A(a).x", 2),
        ("import sys\nresult = 1\nsys.stdin.read()", 1),
    ],
)
async def test_code_gives_its_result_in_any_of_its_ways(code: str, result: Any) -> None:
    outcome = await ran(code, input={"a": 2, "b": 3})

    assert outcome.status == "success", outcome.error
    assert outcome.result == result


async def test_an_input_called_result_is_no_result_of_the_code() -> None:
    outcome = await ran("def main(result):\n    return result + 1", input={"result": 1})

    assert outcome.result == 2


async def test_a_script_may_stand_inline() -> None:
    outcome = await TOOL.run(a_call({"script": {"inline": "result = 3"}}))

    assert outcome.result == 3


@pytest.mark.parametrize("libs", [["json", "os.path"], {"json": "json", "os": "os"}])
async def test_libs_are_imported(libs: Any) -> None:
    outcome = await ran("result = json.dumps(os.path.basename('/a/b'))", libs=libs)

    assert outcome.result == '"b"'


async def test_libs_may_have_other_names_and_may_be_missing() -> None:
    renamed = await ran("result = js.loads('[1]')", libs={"js": "json"})
    missing = await ran("result = 1", libs=["no_such_module_here"])

    assert renamed.result == [1]
    assert missing.extras["py"]["exception"] == "ModuleNotFoundError"


async def test_an_exception_is_an_outcome_with_a_traceback_of_the_users_code() -> None:
    code = """
        def check(x):
            raise ValueError(f"bad {x}")

        def main(x):
            check(x)
    """
    outcome = await ran(code, input={"x": 4})

    error, py = error_of(outcome), outcome.extras["py"]
    assert (error["kind"], error["code"], error["message"]) == ("exception", "ValueError", "ValueError: bad 4")
    assert error["retryable"] is False
    assert (py["exception"], py["message"]) == ("ValueError", "bad 4")
    assert 'File "<code>", line 3, in check' in py["traceback"]
    assert 'raise ValueError(f"bad {x}")' in py["traceback"]
    assert "python_child" not in py["traceback"]


async def test_a_traceback_has_the_frames_of_a_returning_script_and_of_causes() -> None:
    code = "try:\n    int('x')\nexcept ValueError as first:\n    raise RuntimeError('second') from first\nreturn 1"
    outcome = await ran(code)

    traceback = outcome.extras["py"]["traceback"]
    assert 'File "<code>", line 2, in <code>' in traceback
    assert "ValueError: invalid literal" in traceback
    assert traceback.rstrip().endswith("RuntimeError: second")
    assert "python_child" not in traceback


@pytest.mark.parametrize(
    ("code", "exception", "message"),
    [
        ("def main(:", "SyntaxError", "line 1"),
        ("class Mine(Exception):\n    pass\nraise Mine()", "Mine", "Mine"),
        ("import json\njson.loads('{')", "JSONDecodeError", "Expecting"),
        ("raise SystemExit(3)", "SystemExit", "3"),
        ("def f():\n    f()\nf()", "RecursionError", "recursion"),
        ("def main(a, zz):\n    return 1", "TypeError", "main() needs zz, which no input gives; inputs: a"),
        ("class Odd(Exception):\n    def __str__(self):\n        1 / 0\nraise Odd", "Odd", "cannot be shown"),
        ("input()", "EOFError", "EOF"),
    ],
)
async def test_whatever_is_raised_is_named(code: str, exception: str, message: str) -> None:
    outcome = await ran(code, input={"a": 1})

    assert outcome.extras["py"]["exception"] == exception
    assert message in error_of(outcome)["message"]


@pytest.mark.parametrize(
    ("code", "complaint"),
    [
        ("import datetime\nresult = {'rows': [1, datetime.date(2024, 1, 1)]}", "result.rows[1] is of type date"),
        ("result = {1, 2}", "result is of type set"),
        ("result = [float('nan')]", "result[0] is nan"),
        ("result = {'a': float('inf')}", "result.a is inf"),
        ("result = {(1, 2): 3}", "key of type tuple"),
        ("result = []\nresult.append(result)", "no JSON"),
        ("result = 10 ** 5000", "no JSON"),
        ("result = main", "result is of type function"),
    ],
)
async def test_a_result_that_is_no_json_says_where(code: str, complaint: str) -> None:
    outcome = await ran(f"def main():\n    pass\n{code}")

    assert error_of(outcome)["kind"] == "exception"
    assert complaint in error_of(outcome)["message"]


async def test_the_end_of_what_is_printed_is_kept() -> None:
    outcome = await ran("import sys\nprint('a' * 10000)\nprint('last')\nprint('oops', file=sys.stderr)\nresult = 1")

    assert outcome.meta["stdout"].startswith("… aaa")
    assert outcome.meta["stdout"].endswith("last\n")
    assert outcome.meta["stderr"] == "oops\n"


async def test_the_environment_of_the_worker_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REDRIVE_WORKER_TOKEN", "s3cret")
    monkeypatch.setenv("PYTHONPATH", "/nowhere")
    outcome = await ran("import os, sys\nresult = [dict(os.environ), sys.path, os.getcwd(), sys.flags.isolated]")

    environment, path, cwd, isolated = outcome.result
    assert "s3cret" not in json.dumps(outcome.result)
    assert set(environment) <= {"PATH", "LANG", "HOME", "TMPDIR", "LC_CTYPE"}
    assert "/nowhere" not in path
    assert cwd == environment["HOME"]
    assert isolated == 1
    assert not os.path.exists(cwd)  # noqa: ASYNC240


async def test_code_that_takes_too_long_is_killed_with_its_children() -> None:
    code = """
        import os, subprocess, sys, time
        child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
        print(os.getpid(), child.pid, flush=True)
        while True:
            time.sleep(1)
    """
    outcome = await ran(code, timeout_s=1.0)

    error = error_of(outcome)
    assert (error["kind"], error["retryable"]) == ("timeout", True)
    assert error["message"] == "timeout: the code ran longer than 1 s"
    pids = [int(text) for text in outcome.meta["stdout"].split()]
    assert len(pids) == 2
    await eventually(lambda: _none_alive(pids))


async def test_code_that_is_done_leaves_no_children() -> None:
    code = "import subprocess\nresult = subprocess.Popen(['sleep', '600']).pid"
    outcome = await ran(code)

    await eventually(lambda: _none_alive([outcome.result]))


async def test_a_cancelled_call_leaves_no_process(tmp_path: Path) -> None:
    mark = tmp_path / "pid"
    code = f"import os, time\nopen({str(mark)!r}, 'w').write(str(os.getpid()) + ' ')\ntime.sleep(600)"
    task = asyncio.create_task(ran(code))

    async def begun() -> bool:
        return mark.exists() and mark.read_text().endswith(" ")

    await eventually(begun)
    task.cancel()
    await asyncio.wait([task])

    assert task.cancelled()
    await eventually(lambda: _none_alive([int(mark.read_text())]))


async def test_code_that_outlives_a_worker_killed_hard_does_not(tmp_path: Path) -> None:
    if sys.platform != "linux":
        pytest.skip("only Linux tells a process that its parent died")
    mark = tmp_path / "pid"
    code = f"import os, time\nopen({str(mark)!r}, 'w').write(str(os.getpid()) + ' ')\ntime.sleep(600)"
    parent = (
        "import asyncio\n"
        "from services.worker.tools.python_process import Limits, PythonProcesses\n"
        f"request = {{'code': {code!r}, 'input': {{}}, 'libs': []}}\n"
        "asyncio.run(PythonProcesses().run(request, Limits(), None))\n"
    )
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", parent, cwd=Path(__file__).parents[2])

    async def begun() -> bool:
        return mark.exists() and mark.read_text().endswith(" ")

    await eventually(begun)
    process.kill()
    await process.wait()

    await eventually(lambda: _none_alive([int(mark.read_text())]))


@pytest.mark.parametrize(
    ("code", "complaint"),
    [
        ("import os\nos._exit(3)", "ended with status 3"),
        ("import os, signal\nos.kill(os.getpid(), signal.SIGSEGV)", "ended by SIGSEGV"),
    ],
)
async def test_a_process_that_dies_is_an_outcome(code: str, complaint: str) -> None:
    outcome = await ran(code)

    assert complaint in error_of(outcome)["message"]


async def test_memory_is_limited() -> None:
    outcome = await ran("x = bytearray(400_000_000)\nresult = 1", memory="200MB")

    error = error_of(outcome)
    assert error["kind"] == "limit"
    assert "200000000 bytes" in error["message"]


async def test_the_limit_of_the_operator_is_the_highest() -> None:
    tool = PythonTool(limits=replace(Limits(), memory=200_000_000))
    outcome = await ran("x = bytearray(400_000_000)\nresult = 1", tool, memory="2GB")

    assert error_of(outcome)["kind"] == "limit"


async def test_processor_time_is_limited() -> None:
    tool = PythonTool(limits=replace(Limits(), cpu_s=1))
    outcome = await ran("while True:\n    pass", tool, timeout_s=None)

    error = error_of(outcome)
    assert error["kind"] == "limit"
    assert "1 s of processor time" in error["message"]


async def test_open_files_and_file_sizes_are_limited() -> None:
    tool = PythonTool(limits=replace(Limits(), files=32, file_size=1_000_000))
    files = await ran("held = [open('/dev/null') for _ in range(100)]", tool)
    size = await ran("import signal\nf = open('x', 'wb')\nf.write(b'0' * 2_000_000)\nf.flush()", tool)

    assert files.extras["py"]["exception"] == "OSError"
    assert error_of(size)["kind"] == "exception"


async def test_what_is_printed_and_returned_is_limited() -> None:
    tool = PythonTool(limits=replace(Limits(), output=100_000, result=100_000))
    printed = await ran("while True:\n    print('x' * 1000)", tool)
    returned = await ran("result = 'x' * 200_000", tool)

    assert "printed more than 100000 bytes" in error_of(printed)["message"]
    assert "result is larger than 100000 bytes" in error_of(returned)["message"]


async def test_large_inputs_and_results_pass() -> None:
    outcome = await ran("result = rows[::-1]", input={"rows": list(range(500_000))})

    assert outcome.result[0] == 499_999
    assert len(outcome.result) == 500_000


async def test_a_result_with_a_lone_surrogate_arrives() -> None:
    outcome = await ran("result = '\\ud800'")

    assert outcome.result == "\ud800"


@pytest.mark.parametrize("config", [{}, {"script": {"uri": "file:///x"}}, {"code": 1}, {"code": "x=1", "libz": []}])
async def test_a_configuration_without_code_says_so(config: dict[str, Any]) -> None:
    error = error_of(await TOOL.run(a_call(config)))

    assert error["kind"] == "expression"
    assert error["message"].startswith("python: ")


async def test_many_calls_run_side_by_side() -> None:
    outcomes = await asyncio.gather(*[ran("result = n", input={"n": n}) for n in range(12)])

    assert [outcome.result for outcome in outcomes] == list(range(12))


async def _none_alive(pids: list[int]) -> bool:
    return not any(alive(pid) for pid in pids if pid != os.getpid())
