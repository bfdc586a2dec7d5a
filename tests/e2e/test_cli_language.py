"""The installed `redrive`: in a pipe, on a terminal, interrupted, and with what it loads."""

import json
import os
import pty
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

REDRIVE = str(Path(sys.executable).with_name("redrive"))
HEAVY = ("asyncio", "httpx", "pydantic", "rich")
GOOD = """\
apiVersion: redrive.io/v1
kind: Playbook
metadata: { name: hello }
workflow:
  - step: greet
    tool: { kind: noop }
"""
BAD = GOOD.replace("noop", "nop")


@pytest.fixture
def good(tmp_path: Path) -> str:
    path = tmp_path / "good.yaml"
    path.write_text(GOOD)
    return str(path)


@pytest.fixture
def bad(tmp_path: Path) -> str:
    path = tmp_path / "bad.yaml"
    path.write_text(BAD)
    return str(path)


def environment(**extra: str) -> dict[str, str]:
    kept = {key: value for key, value in os.environ.items() if key != "NO_COLOR"}
    return {**kept, "TERM": "xterm-256color", **extra}


def in_a_pipe(*words: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run([REDRIVE, *words], input=stdin, capture_output=True, text=True, env=environment())


def on_a_terminal(*words: str, environ: Mapping[str, str]) -> tuple[int, str]:
    """Run a command whose output is a pseudo-terminal and return how it ended and what was shown."""
    ours, theirs = pty.openpty()
    try:
        process = subprocess.Popen(
            [REDRIVE, *words], stdin=subprocess.DEVNULL, stdout=theirs, stderr=theirs, env=environ
        )
        os.close(theirs)
        shown = b""
        while chunk := read_or_end(ours):
            shown += chunk
        return process.wait(), shown.decode()
    finally:
        os.close(ours)


def read_or_end(terminal: int) -> bytes:
    """Return what was shown next; Linux tells the end of a terminal by an error."""
    try:
        return os.read(terminal, 65536)
    except OSError:
        return b""


def test_a_valid_playbook_in_a_pipe_is_plain_text(good: str) -> None:
    ended = in_a_pipe("validate", good)

    assert (ended.returncode, ended.stdout, ended.stderr) == (0, f"{good}: ok (playbook 'hello', 1 step)\n", "")


def test_findings_in_a_pipe_have_no_colours_and_end_with_two(bad: str) -> None:
    ended = in_a_pipe("validate", bad)

    assert ended.returncode == 2
    assert f"{bad}:6:19: error[unknown-kind]" in ended.stdout
    assert "\x1b" not in ended.stdout + ended.stderr


def test_findings_on_a_terminal_have_colours(bad: str) -> None:
    code, shown = on_a_terminal("validate", bad, environ=environment())

    assert code == 2
    assert "\x1b[31;1merror\x1b[0m[unknown-kind]" in shown


@pytest.mark.parametrize("against", [{"NO_COLOR": "1"}, {"TERM": "dumb"}])
def test_a_terminal_that_wants_no_colours_gets_none(bad: str, against: dict[str, str]) -> None:
    code, shown = on_a_terminal("validate", bad, environ=environment(**against))

    assert code == 2
    assert "error[unknown-kind]" in shown
    assert "\x1b" not in shown


def test_the_color_option_wins_over_the_terminal(bad: str) -> None:
    _, shown = on_a_terminal("lint", bad, "--color", "never", environ=environment())

    assert "\x1b" not in shown
    assert "\x1b[" in in_a_pipe("lint", bad, "--color", "always").stdout


def test_json_on_stdout_has_the_promised_keys(bad: str) -> None:
    ended = in_a_pipe("lint", "-o", "json", bad)

    (finding,) = json.loads(ended.stdout)
    assert list(finding) == ["file", "line", "column", "severity", "code", "message", "hint"]
    assert (ended.returncode, ended.stderr) == (2, "")


def test_a_playbook_can_come_through_a_pipe() -> None:
    ended = in_a_pipe("validate", "-", stdin=GOOD)

    assert (ended.returncode, ended.stdout) == (0, "<stdin>: ok (playbook 'hello', 1 step)\n")


def test_the_schema_and_the_graph_can_be_piped_on(good: str) -> None:
    assert json.loads(in_a_pipe("schema").stdout)["title"] == "Redrive playbook"
    assert in_a_pipe("graph", good, "--format", "svg").stdout.startswith("<svg ")


@pytest.mark.parametrize("words", [(), ("valdate",), ("validate",), ("validate", "--colour", "x")])
def test_wrong_usage_ends_with_two(words: tuple[str, ...]) -> None:
    ended = in_a_pipe(*words)

    assert (ended.returncode, ended.stdout) == (2, "")
    assert "usage: redrive" in ended.stderr


@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_a_reader_that_goes_away_ends_the_command_quietly(unbuffered: str) -> None:
    ours, theirs = os.pipe()
    os.close(ours)
    try:
        ended = subprocess.run(
            [REDRIVE, "schema"],
            stdout=theirs,
            stderr=subprocess.PIPE,
            env=environment(PYTHONUNBUFFERED=unbuffered),
        )
    finally:
        os.close(theirs)

    assert (ended.returncode, ended.stderr) == (141, b"")


def test_a_full_disk_is_told_without_a_traceback() -> None:
    if not Path("/dev/full").exists():
        pytest.skip("needs a device that is always full")
    with open("/dev/full", "w") as full:
        ended = subprocess.run([REDRIVE, "schema"], stdout=full, stderr=subprocess.PIPE, text=True, env=environment())

    assert (ended.returncode, ended.stderr) == (1, "redrive: No space left on device\n")


def test_an_interrupt_while_reading_ends_quietly_with_130(tmp_path: Path) -> None:
    slow = tmp_path / "slow.yaml"
    os.mkfifo(slow)
    process = subprocess.Popen(
        [REDRIVE, "validate", str(slow)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment(),
        # A job in the background ignores interrupts, and what it starts inherits that.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )

    # Opening waits until the command has opened its end; from then on it reads.
    with slow.open("w"):
        process.send_signal(signal.SIGINT)
        out, err = process.communicate()

    assert (process.returncode, out, err) == (130, b"", b"")


def test_validating_loads_nothing_heavy(good: str) -> None:
    probe = (
        "import sys\n"
        "from services.cli.__main__ import main\n"
        f"code = main(['validate', {good!r}])\n"
        f"print(code, [name for name in {HEAVY!r} if name in sys.modules])\n"
    )
    ended = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, check=True)

    assert ended.stdout.splitlines()[-1] == "0 []"
