"""The commands about a server's resources, against a whole system: what they show, what they change, how they end."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

import aio_pika
import pytest

from services.cli.__main__ import main
from shared.broker.topology import OUTCOMES
from tests.support.system import KEY, System, free_port, pause, running_system

pytestmark = pytest.mark.timeout(300)

NOBODY = "00000000-0000-7000-8000-000000000000"
GREET = """\
apiVersion: redrive.io/v1
kind: Playbook
metadata: { name: greet, path: tests/greet }
workflow:
  - { step: greet, tool: { kind: python, code: "def main(): return {'hello': 'world'}" } }
"""
FLAKY = """\
apiVersion: redrive.io/v1
kind: Playbook
metadata: { name: flaky, path: tests/flaky }
workflow:
  - step: flaky
    tool: { kind: python, code: "def main(): raise ValueError('not today')" }
    retry: { max_attempts: 2, initial_delay: 10m, jitter: false }
"""
WAITING = """\
workflow:
  - { step: gate, tool: { kind: wait, signal: go } }
"""


@dataclass(frozen=True)
class Said:
    """How a command ended and what it said."""

    code: int
    out: str
    err: str

    @property
    def document(self) -> Any:
        return json.loads(self.out)


@pytest.fixture(scope="module")
def system(tmp_path_factory: pytest.TempPathFactory) -> Iterator[System]:
    with running_system(tmp_path_factory.mktemp("commands")) as found:
        found.start_all()
        yield found


@pytest.fixture
def redrive(system: System, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Any:
    """Give the command line, told by its environment where the server is."""
    monkeypatch.setenv("REDRIVE_SERVER", f"http://127.0.0.1:{system.port}")
    monkeypatch.setenv("REDRIVE_API_KEY", KEY)

    def run(*words: str) -> Said:
        capsys.readouterr()
        code = main(list(words))
        said = capsys.readouterr()
        return Said(code, said.out, said.err)

    return run


def eventually(system: System, look: Any) -> Any:
    for _ in range(1000):
        if found := look():
            return found
        pause()
    raise AssertionError(f"it never came to be\n{system.logs()}")


def delayed(system: System, redrive: Any) -> tuple[str, dict[str, Any]]:
    """Return an execution whose second attempt waits for ten minutes, and that job."""
    execution_id = system.submit(FLAKY)

    def look() -> list[dict[str, Any]]:
        items: list[dict[str, Any]] = redrive(
            "jobs", "list", "--state", "delayed", "--execution", execution_id, "-o", "json"
        ).document["items"]
        return items

    (job,) = eventually(system, look)
    return execution_id, job


def test_an_execution_is_looked_at_from_every_side(system: System, redrive: Any, tmp_path: Path) -> None:
    system.register(GREET)
    execution_id = system.submit(GREET)
    system.ended(execution_id)

    listed = redrive("executions", "list", "--status", "completed", "--limit", "500")
    shown = redrive("executions", "show", execution_id)
    events = redrive("executions", "events", execution_id, "--type", "action_completed", "-o", "json")
    explained = redrive("executions", "explain", execution_id)
    timeline = redrive("executions", "timeline", execution_id)
    replayed = redrive("executions", "replay", execution_id)

    assert (listed.code, execution_id in listed.out) == (0, True)
    assert shown.out.splitlines()[1].startswith("completed, 1 of 1 steps ended, 0 retries")
    assert '"hello": "world"' in shown.out
    assert [event["type"] for event in events.document["items"]] == ["task.processed"]
    assert "greet~1.greet" in explained.out
    assert "greet~1.greet#1  completed" in timeline.out
    assert " ran " in timeline.out
    assert (replayed.code, replayed.out.splitlines()[0].endswith(" events, 0 differences")) == (0, True), replayed.out


def test_work_that_waits_is_hurried_and_its_failure_is_the_exit_code(system: System, redrive: Any) -> None:
    execution_id, job = delayed(system, redrive)

    hurried = redrive("jobs", "run-now", job["job_id"], "--reason", "now")
    watched = redrive("executions", "watch", execution_id, "--timeout", "60", "-o", "json")

    assert (hurried.code, job["job_id"] in hurried.out) == (0, True), hurried.err
    assert (watched.code, watched.document["status"]) == (3, "failed"), watched.err
    assert len(system.events(execution_id, type="job.rescheduled")) == 1
    assert "as tests asked: now" in redrive("executions", "explain", execution_id).out
    assert redrive("jobs", "run-now", job["job_id"]).code == 6


def test_work_that_waits_is_put_off_and_cancelled(system: System, redrive: Any) -> None:
    execution_id, job = delayed(system, redrive)

    put_off = redrive("jobs", "reschedule", job["job_id"], "--in", "2h", "-o", "json")
    cancelled = redrive("jobs", "cancel", job["job_id"], "--reason", "no use")

    assert put_off.document["available_at"] > job["available_at"]
    assert (put_off.document["published_at"], cancelled.code) == (None, 0)
    ended = system.ended(execution_id)
    assert (ended["status"], ended["failure"]["error"]["kind"]) == ("failed", "cancelled")
    assert redrive("jobs", "reschedule", job["job_id"], "--in", "soon").code == 2


def test_a_long_wait_ends_by_itself_never_early(system: System) -> None:
    execution_id = system.submit("workflow:\n  - { step: nap, tool: { kind: wait, for: 11s } }\n")

    assert system.ended(execution_id)["status"] == "completed"

    (scheduled,) = system.events(execution_id, type="task.scheduled")
    (started,) = system.events(execution_id, type="task.started")
    assert scheduled["payload"]["available_at"] <= started["occurred_at"].replace("Z", "+00:00")
    assert system.events(execution_id, type="job.republished") == []


def test_an_execution_is_paused_resumed_cancelled_and_redriven(system: System, redrive: Any) -> None:
    execution_id = system.submit(WAITING)

    def stands(status: str) -> None:
        eventually(system, lambda: system.execution(execution_id)["status"] == status)

    stands("running")

    for action, expected in (("pause", "paused"), ("resume", "running"), ("cancel", "cancelled")):
        assert redrive("executions", action, execution_id, "--reason", "because").code == 0
        stands(expected)
    refused = redrive("executions", "cancel", execution_id)
    redriven = redrive("executions", "redrive", execution_id, "--step", "gate")

    assert (refused.code, redriven.code) == (6, 0)
    assert "cannot be asked to cancel" in refused.err
    stands("running")
    assert redrive("executions", "watch", execution_id, "--timeout", "0.3").code == 7


def test_an_edited_playbook_is_laid_over_a_run(system: System, redrive: Any, tmp_path: Path) -> None:
    execution_id = system.submit(GREET)
    system.ended(execution_id)
    edited = tmp_path / "edited.yaml"
    edited.write_text(GREET.rstrip()[:-1] + ", next: more }\n  - { step: more, tool: { kind: noop } }\n")

    found = redrive("executions", "simulate", execution_id, "--playbook", str(edited))

    assert found.code == 0, found.err
    assert "recorded: completed; simulated: completed" in found.out
    assert "more~1.more#1: success without a result" in found.out
    assert redrive("executions", "simulate", execution_id, "--playbook", str(tmp_path / "none.yaml")).code == 2


def test_the_catalogue_is_filled_and_read(system: System, redrive: Any, tmp_path: Path) -> None:
    file = tmp_path / "one.yaml"
    path = f"tests/{uuid4().hex[:8]}"
    file.write_text(GREET.replace("tests/greet", path))

    first, again = redrive("playbooks", "register", str(file)), redrive("playbooks", "register", str(file))

    assert (first.out.strip(), again.out.strip()) == (
        f"{path} version 1 (registered)",
        f"{path} version 1 (known already)",
    )
    assert path in redrive("playbooks", "list", "--limit", "1000").out
    assert redrive("playbooks", "show", path).out == file.read_text()
    assert len(redrive("playbooks", "versions", path, "-o", "json").document["items"]) == 1
    assert redrive("playbooks", "show", "tests/nothing").code == 5


def test_what_nobody_could_read_is_listed_sent_again_and_thrown_away(system: System, redrive: Any) -> None:
    async def publish() -> None:
        connection = await aio_pika.connect(system.rabbit.url)
        async with connection:
            channel = await connection.channel()
            exchange = await channel.get_exchange(OUTCOMES)
            await exchange.publish(aio_pika.Message(b"nonsense", message_id="m1"), "facts")

    asyncio.run(publish())

    def listed() -> list[dict[str, Any]]:
        items: list[dict[str, Any]] = redrive("dead", "list", "-o", "json").document["items"]
        return items

    (letter,) = eventually(system, listed)
    assert (letter["queue"], letter["size"]) == (OUTCOMES, 8)
    assert redrive("dead", "redrive", letter["dead_letter_id"]).code == 0
    (again,) = eventually(system, listed)
    assert again["dead_letter_id"] == letter["dead_letter_id"]
    assert redrive("dead", "discard", letter["dead_letter_id"]).out.strip().endswith("is discarded")
    assert redrive("dead", "list").out.strip() == "there are no dead letters"


def test_workers_and_queues_are_shown(system: System, redrive: Any) -> None:
    eventually(system, lambda: "worker-0" in redrive("workers", "--within", "60").out)

    queues = redrive("queues", "--all")

    assert queues.out.splitlines()[0].split()[:3] == ["POOL", "SERVED", "WORKERS"]
    assert any(line.startswith("default") for line in queues.out.splitlines())
    assert OUTCOMES in queues.out


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("executions", "show", NOBODY), 5),
        (("executions", "show", "not-an-id"), 5),
        (("jobs", "show", NOBODY), 5),
        (("dead", "discard", NOBODY), 5),
        (("executions", "list", "--key", "nobody-knows-this"), 4),
        (("executions", "list", "--server", "http://127.0.0.1:PORT"), 8),
        (("executions", "list", "--since", "yesterday"), 2),
        (("executions", "list", "--status", "odd"), 2),
        (("executions",), 2),
        (("executions", "simulate", NOBODY), 2),
    ],
)  # fmt: skip
def test_the_exit_code_says_what_went_wrong(redrive: Any, words: tuple[str, ...], code: int) -> None:
    said = redrive(*(word.replace("PORT", str(free_port())) for word in words))

    assert said.code == code
    assert said.out == ""
    assert said.err
