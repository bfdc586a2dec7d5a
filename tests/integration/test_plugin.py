"""The example of a plug-in, built and installed as a package: the language knows it, and a worker runs it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from services.worker.runner import Runner
from services.worker.tools.registry import Registry, plugged_in
from services.worker.values import MemoryValues
from shared.language.kinds import BUILT_IN
from shared.runtime.clock import ManualClock
from shared.runtime.plugins import installed_kinds
from tests.support.repository import ROOT
from tests.support.system import System, running_system
from tests.unit.worker.given import a_job

pytestmark = pytest.mark.timeout(240)

PLUGIN = ROOT / "examples" / "plugin"
PLAYBOOK = (PLUGIN / "greet.yaml").read_text(encoding="utf-8")
BROKEN = {
    "raises": "raise RuntimeError('it cannot be imported')",
    "exits": "raise SystemExit(3)",
    "other": "KIND = 'no kind at all'",
    "taken": "from shared.language.kinds import HTTP as KIND",
}


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Give a folder into which the example was installed, without a network."""
    target = tmp_path_factory.mktemp("installed")
    options = ["--no-deps", "--no-build-isolation", "--no-index", "--disable-pip-version-check", "--quiet"]
    command = [sys.executable, "-m", "pip", "install", *options, "--target", str(target), str(PLUGIN)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return target


@pytest.fixture
def importable(installed: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Let this process find the package, and forget it afterwards."""
    monkeypatch.syspath_prepend(str(installed))
    yield
    for name in [name for name in sys.modules if name.partition(".")[0] == "redrive_greet"]:
        del sys.modules[name]


def redrive(place: Path | None, *words: str, given: str = "") -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), *([str(place)] if place else [])])}
    command = [sys.executable, "-m", "services.cli", *words]
    return subprocess.run(command, input=given, env=environment, capture_output=True, text=True, timeout=60)


def test_a_playbook_may_name_the_kind_of_an_installed_plug_in(installed: Path) -> None:
    known, unknown = redrive(installed, "validate", "-", given=PLAYBOOK), redrive(None, "validate", "-", given=PLAYBOOK)

    assert known.returncode == 0, known.stdout
    assert unknown.returncode != 0
    assert "unknown kind 'greet'" in unknown.stdout


@pytest.mark.parametrize(
    ("written", "instead", "complaint"),
    [
        ("times: 2", "timess: 2", "did you mean 'times'"),
        ("language: de", "language: it", "unknown language 'it'"),
        ("times: 2", "times: 0", "expected a whole number of at least 1"),
        ('who: "{{ workload.who }}"', "", "who"),
    ],
)
def test_what_the_kind_does_not_know_is_an_error_before_anything_runs(
    installed: Path, written: str, instead: str, complaint: str
) -> None:
    assert written in PLAYBOOK
    done = redrive(installed, "validate", "-", given=PLAYBOOK.replace(written, instead, 1))

    assert done.returncode != 0
    assert complaint in done.stdout


def test_the_schema_for_editors_has_the_kind_and_its_fields(installed: Path) -> None:
    schema = json.loads(redrive(installed, "schema").stdout)

    assert "greet" in json.dumps(schema)
    assert "Whom to greet." in json.dumps(schema)
    assert "greet" not in redrive(None, "schema").stdout


def test_without_plug_ins_nothing_is_loaded_to_look_for_them() -> None:
    code = (
        "import sys\n"
        "from shared.runtime.plugins import installed_kinds\n"
        "from shared.language.kinds import BUILT_IN\n"
        "assert installed_kinds(print) is BUILT_IN\n"
        "print('importlib.metadata' in sys.modules)\n"
    )
    done = subprocess.run([sys.executable, "-S", "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=60)

    assert done.stdout == "False\n", done.stderr


@pytest.mark.parametrize("name", BROKEN)
def test_a_plug_in_that_breaks_is_named_and_left_out(
    name: str, installed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / f"broken_{name}.py").write_text(BROKEN[name])
    info = tmp_path / f"broken_{name}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: broken_{name}\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[redrive.kinds]\n{name} = broken_{name}:KIND\n")
    both = Path(os.pathsep.join([str(tmp_path), str(installed)]))
    done = redrive(both, "validate", "-", given=PLAYBOOK)

    assert done.returncode == 0, done.stdout
    assert f"the plug-in '{name} = broken_{name}:KIND' is left out" in done.stderr
    monkeypatch.syspath_prepend(str(tmp_path))
    complaints: list[str] = []
    assert installed_kinds(lambda point, reason: complaints.append(point)).tools.keys() == BUILT_IN.tools.keys()
    assert complaints == [f"{name} = broken_{name}:KIND"]


@pytest.mark.usefixtures("importable")
async def test_a_worker_runs_the_tool_of_an_installed_plug_in() -> None:
    runner = Runner(Registry(plugged_in()), MemoryValues(), worker="w1", clock=ManualClock())
    greeted = await runner.run(a_job("greet", {"who": "Ann", "language": "fr", "times": 2}))
    nobody = await runner.run(a_job("greet", {"who": "nobody"}))
    mistaken = await runner.run(a_job("greet", {"who": "Ann", "timess": 2}))

    assert greeted.result == {"greetings": ["Bonjour, Ann!", "Bonjour, Ann!"]}
    assert greeted.extras["greet"] == {"who": "Ann"}
    assert nobody.error is not None
    assert nobody.error["kind"] == "client_error"
    assert mistaken.error is not None
    assert "timess" in mistaken.error["message"]


@pytest.mark.usefixtures("importable")
def test_the_kind_and_the_configuration_of_the_example_have_the_same_fields() -> None:
    (tool,) = plugged_in()
    model: Any = vars(type(tool))["config_model"]
    complaints: list[str] = []
    kinds = installed_kinds(lambda point, reason: complaints.append(reason))

    assert complaints == []
    assert {*model.model_fields} == {*kinds.tools["greet"].fields, "timeout"}


def test_the_guide_shows_the_example_as_it_is() -> None:
    guide = (ROOT / "docs" / "guide" / "plugins.md").read_text(encoding="utf-8")

    assert f"```yaml\n{PLAYBOOK}```" in guide
    for file, begin, end in (("kind.py", "GREET = Kind(", "\n)\n"), ("tool.py", "        try:", "who})\n")):
        text = (PLUGIN / "redrive_greet" / file).read_text(encoding="utf-8")
        start = text.index(begin)
        assert text[start : text.rindex(end) + len(end)] in guide


@pytest.fixture(scope="module")
def system(tmp_path_factory: pytest.TempPathFactory, installed: Path) -> Iterator[System]:
    """Give a system whose ingest and worker have the plug-in."""
    path = os.pathsep.join([str(ROOT), str(installed)])
    with running_system(tmp_path_factory.mktemp("system")) as found:
        found.start("ingest", PYTHONPATH=path)
        found.start("orchestrator")
        found.start("worker", PYTHONPATH=path)
        found.await_ready()
        yield found


def test_the_whole_system_runs_a_playbook_with_the_plug_in(system: System) -> None:
    ended = system.ended(system.submit(PLAYBOOK, {"who": "Bob"}))
    schema = system.client.get("/api/v1/schema/playbook.json").text
    refused = system.client.post("/api/v1/executions", json={"playbook": PLAYBOOK.replace("times:", "timess:")})

    assert ended["status"] == "completed", ended
    assert ended["result"] == ["Hallo, Bob!", "Hallo, Bob!"]
    assert "Whom to greet." in schema
    assert refused.status_code == 422
    assert "timess" in refused.text


TOOLS = """\
apiVersion: redrive.io/v1
kind: Playbook
metadata: {name: tools}
workload: {rows: 3}
workbook:
  - name: make_rows
    tool:
      kind: python
      code: |
        def main(rows, size):
            if rows < 0:
                raise ValueError("too few")
            return {"rows": ["x" * size] * rows}
workflow:
  - step: make
    tool: {kind: workbook, task: make_rows, input: {rows: "{{ workload.rows }}", size: 50000}}
    next: load
  - step: load
    tool: {kind: artifact, action: get, input: {result_ref: "{{ make._ref }}"}}
    next: count
  - step: count
    tool: {kind: shell, cmd: 'printf %s "$N"', env: {N: "{{ load.rows | length }}"}}
result: "{{ count.stdout }}"
"""


def test_the_whole_system_runs_workbook_python_artifact_and_shell(system: System) -> None:
    ended = system.ended(system.submit(TOOLS))

    assert ended["status"] == "completed", ended
    assert ended["result"] == "3"


def test_a_traceback_points_at_the_line_of_the_playbook(system: System) -> None:
    execution = system.submit(TOOLS, {"rows": -1})
    ended = system.ended(execution)
    said = json.dumps(system.events(execution))

    assert ended["status"] == "failed"
    line = TOOLS.splitlines().index('                raise ValueError("too few")') + 1
    assert f'File \\\\\\"<playbook>\\\\\\", line {line}, in main' in json.dumps(said)


RESULTS = {
    "artifact": 50000,
    "noop": "many",
    "playbook": [1, 4, 9],
    "python": 12,
    "shell": "2 names",
    "wait": "nobody",
    "workbook": 40,
}


@pytest.mark.parametrize("page", RESULTS)
def test_the_example_of_a_tools_page_runs_as_it_stands(system: System, page: str) -> None:
    text = (ROOT / "docs" / "tools" / f"{page}.md").read_text(encoding="utf-8")
    *children, playbook = [part.partition("```")[0] for part in text.split("```yaml\n")[1:]]
    for child in children:
        system.register(child)
    ended = system.ended(system.submit(playbook))

    assert (ended["status"], ended["result"]) == ("completed", RESULTS[page]), ended
