"""The `python` tool in real subprocesses."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import tempfile
import textwrap
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from services.worker.tools.http import HttpTool
from services.worker.tools.http_exchange import Exchange
from services.worker.tools.http_guard import guard_of
from services.worker.tools.process import Limits, Processes
from services.worker.tools.python import PythonTool
from services.worker.tools.python_scripts import MAX_SCRIPT_BYTES, Scripts
from shared.contracts.outcomes import Outcome
from tests.support.eventually import eventually
from tests.support.http_server import Answer, HttpServer
from tests.unit.worker.given import a_call

PROCESSES = Processes()
TOOL = PythonTool(PROCESSES)


@pytest.fixture(scope="module", autouse=True)
def _no_process_left() -> Iterator[None]:
    yield
    asyncio.run(PROCESSES.close())


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """Give a folder that code may write to, whichever user it runs as."""
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o777)
        yield Path(name)


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
    assert (await ran("import os, tempfile\nresult = tempfile.gettempdir() == os.getcwd()")).result is True
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


async def test_a_cancelled_call_leaves_no_process(open_folder: Path) -> None:
    mark = open_folder / "pid"
    code = f"import os, time\nopen({str(mark)!r}, 'w').write(str(os.getpid()) + ' ')\ntime.sleep(600)"
    task = asyncio.create_task(ran(code))

    async def begun() -> bool:
        return mark.exists() and mark.read_text().endswith(" ")

    await eventually(begun)
    task.cancel()
    await asyncio.wait([task])

    assert task.cancelled()
    await eventually(lambda: _none_alive([int(mark.read_text())]))


async def test_code_that_outlives_a_worker_killed_hard_does_not(open_folder: Path) -> None:
    if sys.platform != "linux":
        pytest.skip("only Linux tells a process that its parent died")
    mark = open_folder / "pid"
    code = f"import os, time\nopen({str(mark)!r}, 'w').write(str(os.getpid()) + ' ')\ntime.sleep(600)"
    parent = (
        "import asyncio\n"
        "from services.worker.tools.python import PythonTool\n"
        "from tests.unit.worker.given import a_call\n"
        f"asyncio.run(PythonTool().run(a_call({{'code': {code!r}}})))\n"
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
    tool = PythonTool(PROCESSES, replace(Limits(), memory=200_000_000))
    outcome = await ran("x = bytearray(400_000_000)\nresult = 1", tool, memory="2GB")

    assert error_of(outcome)["kind"] == "limit"


async def test_processor_time_is_limited() -> None:
    tool = PythonTool(PROCESSES, replace(Limits(), cpu_s=1))
    outcome = await ran("while True:\n    pass", tool, timeout_s=None)

    error = error_of(outcome)
    assert error["kind"] == "limit"
    assert "1 s of processor time" in error["message"]


async def test_open_files_and_file_sizes_are_limited() -> None:
    tool = PythonTool(PROCESSES, replace(Limits(), files=32, file_size=1_000_000))
    files = await ran("held = [open('/dev/null') for _ in range(100)]", tool)
    size = await ran("import signal\nf = open('x', 'wb')\nf.write(b'0' * 2_000_000)\nf.flush()", tool)

    assert files.extras["py"]["exception"] == "OSError"
    assert error_of(size)["kind"] == "exception"


async def test_what_is_printed_and_returned_is_limited() -> None:
    tool = PythonTool(PROCESSES, replace(Limits(), output=100_000, reply=100_000))
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


async def test_a_call_sees_nothing_of_the_one_before_it() -> None:
    first = """
        import builtins, os, sys, types, json, threading
        leaked = "a global"
        builtins.leaked = "a builtin"
        sys.modules["leaked_module"] = types.ModuleType("leaked_module")
        json.leaked = "an attribute"
        os.environ["LEAKED"] = "an environment variable"
        open("leaked.txt", "w").write("a file")
        open(os.path.join(os.environ["TMPDIR"], "leaked.tmp"), "w").write("another")
        sys.path.append("/leaked")
        os.umask(0)
        result = [os.getcwd(), os.getpid()]
    """
    second = """
        import builtins, json, os, sys
        found = [text for text in (globals().get("leaked"), getattr(builtins, "leaked", None)) if text]
        found += [name for name in sys.modules if "leaked" in name]
        found += [name for name in os.listdir(".") + os.listdir(os.environ["TMPDIR"])]
        found += [getattr(json, "leaked", None), os.environ.get("LEAKED"), "/leaked" in sys.path]
        found += [os.path.exists(before)]
        result = [found, os.getpid(), os.umask(0)]
    """
    cwd, pid = (await ran(first)).result
    found, other_pid, umask = (await ran(second, input={"before": cwd})).result

    assert [item for item in found if item] == []
    assert pid != other_pid
    assert umask == 0o077


DAEMON = """
    import os, sys, time
    pipe = os.pipe()
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            os.setsid()
            os.write(pipe[1], f"{os.getpid()} ".encode())
            if os.fork() == 0:
                os.setsid()
                os.write(pipe[1], f"{os.getpid()} ".encode())
            time.sleep(600)
        os._exit(0)
    pids = b""
    while pids.count(b" ") < 2:
        pids += os.read(pipe[0], 100)
    result = [int(pid) for pid in pids.split()]
    print(*result, flush=True)
"""


async def test_a_process_that_left_session_and_parent_is_killed_all_the_same() -> None:
    outcome = await ran(DAEMON)

    assert outcome.status == "success", outcome.error
    assert not any(alive(pid) for pid in outcome.result)


async def test_a_daemon_of_code_that_takes_too_long_is_killed_too() -> None:
    outcome = await ran(textwrap.dedent(DAEMON) + "time.sleep(600)", timeout_s=3.0)

    pids = [int(text) for text in outcome.meta["stdout"].split()]
    assert error_of(outcome)["kind"] == "timeout"
    assert len(pids) == 2
    assert not any(alive(pid) for pid in pids)


async def test_code_that_kills_what_looks_after_it_is_lost_and_leaves_nothing() -> None:
    processes = Processes(first_uid=None)
    code = textwrap.dedent(DAEMON) + "import signal\nos.kill(os.getppid(), signal.SIGKILL)\ntime.sleep(600)"
    outcome = await ran(code, PythonTool(processes))

    try:
        assert "lost" in error_of(outcome)["message"]
        pids = [int(text) for text in outcome.meta["stdout"].split()]
        assert len(pids) == 2
        await eventually(lambda: _none_alive(pids))
        assert (await ran("result = 1", PythonTool(processes))).result == 1
    finally:
        await processes.close()


async def test_when_the_forge_dies_the_next_call_finds_another() -> None:
    processes = Processes()
    tool = PythonTool(processes)
    forge = "open(f'/proc/{os.getppid()}/stat').read().rpartition(')')[2].split()[1]"
    pid = int((await ran(f"import os\nresult = {forge}", tool)).result)
    os.kill(pid, signal.SIGKILL)
    await eventually(lambda: _none_alive([pid]))

    try:
        assert (await ran("result = 2", tool)).result == 2
    finally:
        await processes.close()


async def test_only_so_many_run_at_a_time() -> None:
    processes = Processes(at_a_time=2)
    code = "import time\nbegan = time.monotonic()\ntime.sleep(0.05)\nresult = [began, time.monotonic()]"
    spans = [outcome.result for outcome in await asyncio.gather(*[ran(code, PythonTool(processes)) for _ in range(6)])]
    await processes.close()

    for began, _ in spans:
        assert sum(start <= began < end for start, end in spans) <= 2


async def test_an_interpreter_that_is_not_there_is_named() -> None:
    outcome = await ran("result = 1", PythonTool(Processes("/nowhere/python")))

    assert error_of(outcome)["message"].startswith("the code cannot be run: /nowhere/python cannot be started: No such")


async def test_a_traceback_counts_the_lines_of_the_playbook() -> None:
    call = a_call({"code": "def main():\n    x = 1\n    raise KeyError('here')\n"}, code_line=20)
    raised = (await TOOL.run(call)).extras["py"]["traceback"]
    unread = await TOOL.run(a_call({"code": "x = 1\nx = (\n"}, code_line=20))

    assert "File \"<playbook>\", line 22, in main\n    raise KeyError('here')" in raised
    assert 'File "<playbook>", line 21' in unread.extras["py"]["traceback"]


@pytest.fixture
def scripts(tmp_path: Path) -> Path:
    root = tmp_path / "scripts"
    (root / "jobs").mkdir(parents=True)
    (root / "jobs" / "add.py").write_text("def main(a):\n    if a < 0:\n        raise ValueError(a)\n    return a + 1")
    (tmp_path / "outside.py").write_text("result = 'outside'")
    (root / "link.py").symlink_to(tmp_path / "outside.py")
    (root / "large.py").write_text("#" * (MAX_SCRIPT_BYTES + 1))
    (root / "latin.py").write_bytes(b"result = '\xe9'")
    return root


async def of_script(script: dict[str, str], root: Path | None, fetch: HttpTool | None = None, **more: Any) -> Outcome:
    tool = PythonTool(PROCESSES, scripts=Scripts(str(root) if root else None, fetch.run if fetch else None))
    return await tool.run(a_call({"script": script}, **more))


async def test_a_script_is_a_file_below_the_folder_of_the_operator(scripts: Path) -> None:
    by_file = await of_script({"file": "jobs/add.py"}, scripts, input={"a": 1})
    by_uri = await of_script({"uri": (scripts / "jobs" / "add.py").as_uri()}, scripts, input={"a": 2})
    by_name = await of_script({"uri": "jobs/add.py"}, scripts, input={"a": 3})
    failed = await of_script({"file": "jobs/add.py"}, scripts, input={"a": -1})

    assert (by_file.result, by_uri.result, by_name.result) == (2, 3, 4)
    assert 'File "jobs/add.py", line 3, in main' in failed.extras["py"]["traceback"]


@pytest.mark.parametrize(
    ("script", "complaint"),
    [
        ({"file": "../outside.py"}, "is not below REDRIVE_SCRIPTS_ROOT"),
        ({"file": "link.py"}, "is not below REDRIVE_SCRIPTS_ROOT"),
        ({"file": "/etc/passwd"}, "is not below REDRIVE_SCRIPTS_ROOT"),
        ({"uri": "../outside.py"}, "is not below REDRIVE_SCRIPTS_ROOT"),
        ({"uri": "file:///etc/passwd"}, "is not below REDRIVE_SCRIPTS_ROOT"),
        ({"uri": "file:///etc%2Fpasswd"}, "is not below REDRIVE_SCRIPTS_ROOT"),
        ({"file": "jobs/none.py"}, "there is no script 'jobs/none.py'"),
        ({"file": "jobs"}, "there is no script 'jobs'"),
        ({"file": "a\0b"}, "cannot be read"),
        ({"file": "large.py"}, "is larger than"),
        ({"file": "latin.py"}, "is not UTF-8"),
        ({"uri": "ftp://host/x.py"}, "script.uri begins with"),
        ({"uri": "file://host/x.py"}, "script.uri begins with"),
        ({"uri": "http://127.0.0.1:9/x.py"}, "this worker fetches no scripts"),
        ({}, "one of uri, file and inline is needed"),
    ],
)
async def test_a_script_that_cannot_be_had_says_why(scripts: Path, script: dict[str, str], complaint: str) -> None:
    assert complaint in error_of(await of_script(script, scripts))["message"]


async def test_without_a_folder_for_scripts_that_is_what_is_said() -> None:
    error = error_of(await of_script({"file": "add.py"}, None))

    assert error["message"] == "python: this worker has no scripts: REDRIVE_SCRIPTS_ROOT names no folder"


async def test_a_script_is_fetched_as_the_http_tool_calls_endpoints() -> None:
    text = {"Content-Type": "text/x-python"}
    answers = [Answer(200, b"result = a * 2", text), Answer(200, b"#" * (MAX_SCRIPT_BYTES + 1), text), Answer(404)]
    http, denied = HttpTool(), HttpTool(Exchange(guard_of(["127.0.0.0/8"], [])))
    async with HttpServer(answers) as server:
        uri = {"uri": f"{server.url}/jobs/double.py"}
        fetched = await of_script(uri, None, http, input={"a": 4})
        large = await of_script(uri, None, http)
        missing = await of_script(uri, None, http)
        refused = await of_script(uri, None, denied)
    await http.close()
    await denied.close()

    assert fetched.result == 8
    assert "larger than max_body" in error_of(large)["message"]
    assert (error_of(missing)["kind"], error_of(missing)["code"]) == ("client_error", 404)
    assert "denied" in error_of(refused)["message"]
    assert len(server.requests) == 3


as_root = pytest.mark.skipif(sys.platform != "linux" or os.geteuid() != 0, reason="only root can give code less rights")


def readable_interpreters() -> list[str]:
    """Return interpreters that any user can run, so that code can run as another user."""
    return [path for path in ("/usr/local/bin/python3", "/usr/bin/python3") if os.access(path, os.X_OK)][:1]


PEEK = """
    import os, signal
    found = {}
    for name in ("environ", "mem", "maps", "cwd", "root"):
        try:
            place = f"/proc/{worker}/{name}"
            found[name] = bool(os.readlink(place) if name in ("cwd", "root") else open(place, "rb").read(1))
        except OSError as problem:
            found[name] = type(problem).__name__
    status = dict(line.split(":", 1) for line in open("/proc/self/status").read().splitlines())
    found["capabilities"] = int(status["CapEff"], 16) | int(status["CapPrm"], 16)
    found["no_new_privileges"] = status["NoNewPrivs"].strip()
    result = found
"""


@as_root
@pytest.mark.parametrize("interpreter", [sys.executable, *readable_interpreters()])
async def test_code_of_a_worker_that_is_root_has_no_rights_over_it(interpreter: str) -> None:
    processes = Processes(interpreter)
    outcome = await ran(PEEK, PythonTool(processes), input={"worker": os.getpid()})
    await processes.close()

    assert outcome.status == "success", outcome.error
    assert {outcome.result[name] for name in ("environ", "mem", "maps", "cwd", "root")} == {"PermissionError"}
    assert (outcome.result["capabilities"], outcome.result["no_new_privileges"]) == (0, "1")


@as_root
@pytest.mark.skipif(not readable_interpreters(), reason="no interpreter here is for everybody")
async def test_calls_side_by_side_run_as_different_users_that_are_not_root() -> None:
    processes = Processes(readable_interpreters()[0])
    tool = PythonTool(processes, replace(Limits(), processes=20))
    uids = "import os, time\ntime.sleep(0.2)\nopen('mine', 'w').write('x')\nresult = [os.getuid(), os.getgroups()]"
    spawn = """
        import os, time
        pids = []
        try:
            for _ in range(100):
                pid = os.fork()
                if pid == 0:
                    time.sleep(600)
                    os._exit(0)
                pids.append(pid)
        except BlockingIOError:
            result = len(pids)
    """
    stdout = "import os\nprint('x', file=open('/dev/stdout', 'w'))\nresult = os.access('/proc/1/environ', os.R_OK)"
    first, second = await asyncio.gather(ran(uids, tool), ran(uids, tool))
    bomb = await ran(spawn, tool)
    printed = await ran(stdout, tool)
    await processes.close()

    assert first.result[1] == second.result[1] == []
    assert first.result[0] != second.result[0]
    assert min(first.result[0], second.result[0]) >= 65000
    assert bomb.result == 19
    assert (printed.meta["stdout"], printed.result) == ("x\n", False)


@as_root
async def test_an_operator_may_leave_code_the_rights_of_the_worker() -> None:
    processes = Processes(first_uid=None)
    outcome = await ran(PEEK, PythonTool(processes), input={"worker": os.getpid()})
    await processes.close()

    assert outcome.result["environ"] is True
