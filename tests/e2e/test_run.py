"""`redrive run` as a shell sees it: no server, no settings, nothing left behind."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from shared.runtime.embedded import PrivatePostgres
from tests.support.command import Ended, Place, command_place
from tests.support.eventually import eventually
from tests.support.http_server import Answer, HttpServer, answer_json
from tests.support.repository import ROOT
from tests.support.system import free_port

pytestmark = pytest.mark.timeout(240)

EXAMPLES = ROOT / "examples"
NOBODY = 65534
RETRIES = """\
apiVersion: redrive.io/v1
metadata: { name: retries }
workload: { url: "", attempts: 3 }
workflow:
  - step: first
    tool: { kind: noop }
    next: fetch
  - step: fetch
    tool:
      kind: http
      url: "{{ workload.url }}"
      eval:
        - expr: "{{ outcome.status == 'error' }}"
          do: retry
          attempts: "{{ workload.attempts }}"
          delay: 0.05
        - else: { do: continue }
result: "{{ fetch.body.word }}"
"""
CHILD = """\
apiVersion: redrive.io/v1
metadata: { name: child, path: family/child }
workload: { n: 0 }
workflow:
  - step: double
    tool: { kind: python, code: "result = n * 2", input: { n: "{{ workload.n }}" } }
result: "{{ double }}"
"""
PARENT = """\
apiVersion: redrive.io/v1
metadata: { name: parent }
workload: { n: 1, deep: { er: 0 } }
workflow:
  - step: call
    tool: { kind: playbook, path: family/child, input: { n: "{{ workload.n + workload.deep.er }}" } }
result: "{{ call }}"
"""
SCRIPT = """\
apiVersion: redrive.io/v1
workflow:
  - step: a
    tool:
      kind: python
      script: { file: code.py }
      input: { n: 4 }
result: "{{ a }}"
"""
LONG = """\
apiVersion: redrive.io/v1
workflow: [{ step: long, tool: { kind: wait, for: 1h } }]
"""


@pytest.fixture(scope="module")
def place() -> Iterator[Place]:
    with command_place() as found:
        yield found


def written(place: Place, name: str, text: str) -> str:
    path = place.folder / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)
    return str(path)


def test_the_tour_ends_well_with_its_progress_in_lines_and_its_result_alone_on_stdout(place: Place) -> None:
    ended = place.redrive("run", str(EXAMPLES / "tour.yaml"), "--demo")

    assert ended.code == 0, ended.err
    assert ended.document == {"items": ["pen", "ink", "cup", "map", "key"], "told": 7, "not_reached": 1}
    for line in (
        "fetch: attempt 1 failed: HTTP 503",
        "fetch: again in 1 s, attempt 2 of 4",
        "gather: call 2",
        "pause: waits 1 s",
        "notify: loops over 8 elements, up to 3 at once",
        "notify[2]: no attempt is left after 2",
        "notify: 7 of 8 succeeded, 1 failed",
        "execution completed",
        "What to try next:",
    ):
        assert line in ended.err
    assert "\x1b" not in ended.err
    assert place.leftovers() == []


async def test_json_says_everything_about_a_run(place: Place) -> None:
    file = written(place, "retries.yaml", RETRIES)
    async with HttpServer([Answer(503), Answer(503), answer_json({"word": "hello"})]) as api:
        ended = await _beside(place, "run", file, "--set", f"url={api.url}", "-o", "json", "-q")

    assert (ended.code, ended.err) == (0, "")
    document = ended.document
    assert document.pop("execution_id")
    assert document["steps"].pop("fetch")["body"] == {"word": "hello"}
    assert document == {
        "status": "completed",
        "result": "hello",
        "error": None,
        "steps": {"first": None},
        "stats": {"attempts": 4, "retries": 2, "steps": {"first": {"runs": 1}, "fetch": {"runs": 1}}},
    }


async def test_a_failed_run_ends_with_3_and_tells_of_the_steps_that_completed(place: Place) -> None:
    file = written(place, "retries.yaml", RETRIES)
    async with HttpServer(Answer(503)) as api:
        ended = await _beside(place, "run", file, "--set", f"url={api.url}", "--set", "attempts=2", "-o", "json")

    assert ended.code == 3
    document = ended.document
    assert (document["status"], document["result"]) == ("failed", None)
    assert document["error"]["message"]
    assert set(document["steps"]) == {"first"}
    assert document["stats"]["retries"] == 1
    assert "execution failed" in ended.err


def test_child_playbooks_workload_and_settings_come_together(place: Place) -> None:
    written(place, "books/child.yaml", CHILD)
    file = written(place, "parent.yaml", PARENT)
    workload = written(place, "workload.json", '{"n": 20, "unused": true}')

    ended = place.redrive(
        "run", file, "--playbooks", str(place.folder / "books"), "--workload", workload, "--set", "deep.er=1", "-q"
    )

    assert (ended.code, ended.err) == (0, "")
    assert ended.document == 42


def test_a_script_is_found_beside_the_playbook_and_what_it_raises_is_told(place: Place) -> None:
    written(place, "scripts/p.yaml", SCRIPT)
    written(place, "scripts/code.py", "# größer\ndef main(n):\n    return {'n': n * 2}\n")
    file = str(place.folder / "scripts" / "p.yaml")

    assert place.redrive("run", file, "-q", cwd=ROOT).document == {"n": 8}

    written(place, "scripts/code.py", "x = 1\n\nraise ValueError('on line three')\n")
    ended = place.redrive("run", file, "-o", "json")
    assert ended.code == 3
    assert "on line three" in ended.document["error"]["message"]


def test_a_playbook_comes_from_standard_input_as_well(place: Place) -> None:
    ended = place.redrive("run", "-", "-q", stdin=LONG.replace("1h", "0.1"))

    assert (ended.code, ended.out) == (0, "null\n")


def test_an_invalid_playbook_ends_with_2_and_carets_and_starts_nothing(place: Place) -> None:
    file = written(place, "bad.yaml", LONG.replace("wait", "wiat"))

    ended = place.redrive("run", file)

    assert ended.code == 2
    assert f"{file}:2:" in ended.err
    assert "^^^^" in ended.err
    assert "did you mean 'wait'" in ended.err
    assert ended.out == ""
    assert place.redrive("run", str(place.folder / "none.yaml")).code == 2


def test_when_the_time_is_up_it_ends_with_7(place: Place) -> None:
    ended = place.redrive("run", written(place, "long.yaml", LONG), "--timeout", "300ms", "-o", "json")

    assert ended.code == 7
    assert (ended.document["status"], ended.document["error"]["kind"]) == ("running", "timeout")
    assert place.leftovers() == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
async def test_an_interrupt_ends_it_with_130_and_leaves_nothing(place: Place, number: signal.Signals) -> None:
    log = place.folder / "interrupted.log"
    with place.beside("run", written(place, "long.yaml", LONG), log=log) as process:
        await eventually(lambda: _says(log, "long: waits 1 h"), within_s=60)

        process.send_signal(number)

        assert process.wait(30) == 130
    assert "interrupted" in log.read_text()
    assert place.leftovers() == []


async def test_what_a_killed_run_leaves_is_removed_by_the_next(place: Place) -> None:
    log = place.folder / "killed.log"
    with place.beside("run", written(place, "long.yaml", LONG), log=log):
        await eventually(lambda: _says(log, "long: waits 1 h"), within_s=60)
    (left,) = place.temporary.glob("redrive-run-*")
    os.utime(left, (0, 0))

    assert place.redrive("run", "-", "-q", stdin=LONG.replace("1h", "0.1")).code == 0

    assert not left.exists()
    await eventually(lambda: _gone(place, left.name), within_s=30)
    for socket in place.temporary.glob("redrive-*"):
        shutil.rmtree(socket)


def test_a_kept_folder_is_held_by_one_and_another_one_is_refused(place: Place) -> None:
    kept = place.folder / "kept"
    file = written(place, "short.yaml", LONG.replace("1h", "0.1"))

    for _ in range(2):
        assert place.redrive("run", file, "-q", "--data", str(kept)).code == 0
    (place.folder / "other").mkdir()
    written(place, "other/thing.txt", "someone's")
    ended = place.redrive("run", file, "--data", str(place.folder / "other"))

    assert (kept / "redrive.lock").exists()
    assert ended.code == 2
    assert "holds other things" in ended.err


def test_a_server_that_does_not_answer_ends_it_with_8(place: Place) -> None:
    ended = place.redrive("run", written(place, "l.yaml", LONG), "--server", f"http://127.0.0.1:{free_port()}")

    assert ended.code == 8
    assert "does not answer" in ended.err


def test_logs_go_to_a_file_and_never_to_the_terminal(place: Place) -> None:
    log = place.folder / "services.log"

    ended = place.redrive("run", "-", "-q", "--log", str(log), stdin=LONG.replace("1h", "0.1"))

    assert (ended.code, ended.err) == (0, "")
    assert '"event": "ingest_started"' in log.read_text()


def test_a_credential_reaches_its_task_and_nothing_else(place: Place) -> None:
    playbook = """\
apiVersion: redrive.io/v1
keychain: [{ name: db, kind: postgres_credential }]
workflow:
  - step: ask
    tool: { kind: postgres, auth: db, command: "SELECT 40 + 2 AS n", fetch: value }
result: "{{ ask }}"
"""
    server = PrivatePostgres(place.folder / "pg", durable=False)
    server.start()
    try:
        address = server.url().replace("postgresql+asyncpg://redrive@:5432", "postgresql://redrive:hidden-word@:5432")
        file = written(place, "credential.yaml", playbook)
        log = place.folder / "credential.log"
        ended = place.redrive("run", file, "--credential", f"db={address}", "-o", "json", "--log", str(log))
    finally:
        server.stop()

    assert ended.code == 0, ended.err
    assert "42" in str(ended.document["result"])
    assert "hidden-word" not in ended.out + ended.err + log.read_text()


@pytest.mark.skipif(os.geteuid() != 0 or not shutil.which("setpriv"), reason="only root can become someone else")
def test_an_ordinary_user_runs_playbooks_as_well(place: Place) -> None:
    python = next(filter(_runs_for_nobody, (sys.executable, f"/usr/bin/python3.{sys.version_info.minor}")), None)
    if python is None:
        pytest.skip("an ordinary user can run no Python here that has our libraries")
    home = place.folder / "home"
    home.mkdir(mode=0o777)
    home.chmod(0o777)
    libraries = os.pathsep.join([str(ROOT), *(path for path in sys.path if path.endswith("-packages"))])
    own = replace(place, more={"HOME": str(home), "PYTHONPATH": libraries, "REDRIVE_CACHE_DIR": str(home / "cache")})

    for _ in range(2):
        done = subprocess.run(
            [*_as_nobody(), python, "-m", "services.cli", "run", "-", "-q"],
            env=own.environment(), cwd=home, input=LONG.replace("1h", "0.1"), capture_output=True, text=True,
            timeout=100, check=False,
        )  # fmt: skip
        assert (done.returncode, done.stdout, done.stderr) == (0, "null\n", "")

    assert place.leftovers() == []
    assert {path.stat().st_uid for path in (home / "cache").iterdir()} == {NOBODY}


def _as_nobody() -> list[str]:
    return ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups"]


def _runs_for_nobody(python: str) -> bool:
    if not Path(python).exists():
        return False
    libraries = os.pathsep.join(path for path in sys.path if path.endswith("-packages"))
    command = [*_as_nobody(), python, "-c", "import pydantic, asyncpg, fastapi"]
    environ = {"PATH": os.environ["PATH"], "PYTHONPATH": libraries}
    return subprocess.run(command, capture_output=True, env=environ, cwd="/", check=False).returncode == 0


async def _beside(place: Place, *words: str) -> Ended:
    """Run a command to its end while a server of this process answers it."""
    return await asyncio.to_thread(place.redrive, *words)


async def _says(log: Path, text: str) -> bool:
    return text in await asyncio.to_thread(log.read_text)


async def _gone(place: Place, word: str) -> bool:
    return not any(word in line for line in place.leftovers())
