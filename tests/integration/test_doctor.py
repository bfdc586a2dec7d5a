"""`redrive doctor` against real servers: what it finds, how it says to mend it, and how it ends."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import aio_pika
import pytest

from services.cli import doctor
from services.cli.__main__ import main
from shared.broker.topology import DEAD, jobs_queue
from shared.runtime.sealing import new_key
from shared.store.postgres.store import PostgresStore
from tests.support import rabbit
from tests.support.postgres import execute, finished
from tests.support.storing import apply_all, created, new_job, queued
from tests.support.system import free_port

pytest_plugins = ("tests.support.stores",)
pytestmark = pytest.mark.timeout(200)

Doctor = Callable[..., tuple[int, dict[str, list[dict[str, Any]]]]]


@pytest.fixture(scope="module")
def node() -> rabbit.Room:
    return rabbit.Room()


@pytest.fixture
def examine(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Doctor:
    """Give the command: how it ended, and its findings by check."""
    for name in ("REDRIVE_DATABASE_URL", "REDRIVE_AMQP_URL", "REDRIVE_DATA_DIR", "REDRIVE_CREDENTIAL_KEYS"):
        monkeypatch.delenv(name, raising=False)

    def run(*words: str) -> tuple[int, dict[str, list[dict[str, Any]]]]:
        capsys.readouterr()
        code = main(["doctor", *words, "-o", "json"])
        findings = json.loads(capsys.readouterr().out)["findings"]
        out: dict[str, list[dict[str, Any]]] = {}
        for finding in findings:
            out.setdefault(finding["check"], []).append(finding)
        return code, out

    return run


async def _ignored(_: Any) -> None:
    """Do nothing with a message."""


def on_the_node(node: rabbit.Room, work: Callable[[Any], Any]) -> None:
    async def done() -> None:
        connection = await aio_pika.connect(node.url)
        async with connection:
            await work(await connection.channel())

    asyncio.run(done())


def test_what_is_missing_is_declared_and_what_was_changed_is_named(
    examine: Doctor, node: rabbit.Room, database: str
) -> None:
    words = ("--database", database, "--amqp", node.url)

    code, before = examine(*words)
    assert code == 1
    assert before["topology"][0]["status"] == "problem"
    assert "doctor --fix" in before["topology"][0]["mend"]
    assert examine(*words)[1]["topology"] == before["topology"], "looking changes nothing"

    code, fixed = examine(*words, "--fix")
    assert (code, fixed["topology"][0]["status"]) == (0, "ok")
    assert [
        finding["status"] for check in ("database", "migrations", "clock", "broker") for finding in fixed[check]
    ] == ["ok"] * 4
    assert fixed["pools"][0]["status"] == "warning"

    async def spoil(channel: Any) -> None:
        await channel.queue_delete(DEAD)
        await channel.declare_queue(DEAD, durable=True)

    on_the_node(node, spoil)
    code, spoilt = examine(*words, "--fix")
    assert code == 1
    assert DEAD in spoilt["topology"][0]["found"]
    assert "version v1" in spoilt["topology"][0]["found"]

    async def remove(channel: Any) -> None:
        await channel.queue_delete(DEAD)

    on_the_node(node, remove)
    code, mended = examine(*words, "--fix")
    assert (code, mended["topology"][0]["status"]) == (0, "ok")


def test_a_pool_with_work_and_no_consumer_is_a_problem_and_one_with_a_consumer_is_not(
    examine: Doctor, node: rabbit.Room, database: str
) -> None:
    async def fill() -> None:
        store = PostgresStore.connect(database)
        execution = await created(store)
        await apply_all(store, execution)
        due = datetime.now(UTC) - timedelta(hours=1)
        await queued(store, execution, new_job(execution, "a", pool="gpu", available_at=due), published=True)
        await store.close()

    finished(fill())
    examine("--amqp", node.url, "--fix")

    code, found = examine("--database", database, "--amqp", node.url)

    assert code == 1
    gpu = next(finding for finding in found["pools"] if finding["found"].startswith("gpu:"))
    assert (gpu["status"], gpu["mend"]) == ("problem", "start a worker with REDRIVE_POOLS=gpu")
    assert "1 jobs wait" in gpu["found"]

    async def consumed(channel: Any) -> None:
        queue = await channel.get_queue(jobs_queue("default"))
        await queue.consume(_ignored)
        _, served = await asyncio.to_thread(examine, "--amqp", node.url)
        assert [finding["status"] for finding in served["pools"]] == ["ok"]

    on_the_node(node, consumed)


def test_a_broker_that_blocks_publishers_is_a_problem_until_the_alarm_is_over(
    examine: Doctor, node: rabbit.Room
) -> None:
    examine("--amqp", node.url, "--fix")
    rabbit.shared_node().control("set_vm_memory_high_watermark", "0.000001")
    try:
        blocked = examine("--amqp", node.url)
    finally:
        rabbit.shared_node().control("set_vm_memory_high_watermark", "absolute", "512MB")

    assert blocked[0] == 1
    assert "blocks publishers" in blocked[1]["broker"][0]["found"]
    assert examine("--amqp", node.url)[1]["broker"][0]["status"] == "ok"


@pytest.mark.parametrize(("revision", "said"), [(None, "empty"), ("9999", "does not know"), ("0001", "at 0001")])
def test_a_database_that_is_not_at_the_newest_revision_is_a_problem(
    examine: Doctor, empty_database: str, database: str, revision: str | None, said: str
) -> None:
    url = empty_database if revision is None else database
    if revision is not None:
        finished(execute(url, f"UPDATE redrive.alembic_version SET version_num = '{revision}'"))

    code, found = examine("--database", url)

    assert (code, found["migrations"][0]["status"]) == (1, "problem")
    assert said in found["migrations"][0]["found"]


def test_servers_that_do_not_answer_are_named_with_what_to_do(examine: Doctor) -> None:
    port = free_port()

    code, found = examine(
        "--database", f"postgresql://ada:s3cret@127.0.0.1:{port}/x", "--amqp", f"amqp://ada:s3cret@127.0.0.1:{port}/"
    )

    assert code == 1
    for check, setting in (("database", "REDRIVE_DATABASE_URL"), ("broker", "REDRIVE_AMQP_URL")):
        (finding,) = found[check]
        assert finding["status"] == "problem"
        assert setting in finding["mend"]
        assert "s3cret" not in json.dumps(finding)


def test_without_servers_only_the_folder_and_the_keys_are_looked_at(
    examine: Doctor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = new_key()
    monkeypatch.setenv("REDRIVE_CREDENTIAL_KEYS", key)

    code, found = examine("--data", str(tmp_path))

    assert code == 0
    assert {check: findings[0]["status"] for check, findings in found.items()} == {
        "database": "skipped",
        "broker": "skipped",
        "disk": "ok",
        "credentials": "ok",
    }
    assert key not in json.dumps(found)
    assert examine("--data", str(tmp_path / "none"))[0] == 1


def test_people_read_what_was_found_and_how_to_mend_it(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("REDRIVE_CREDENTIAL_KEYS", "not a key")
    monkeypatch.delenv("REDRIVE_DATABASE_URL", raising=False)
    monkeypatch.delenv("REDRIVE_AMQP_URL", raising=False)

    assert main(["doctor", "--data", str(tmp_path)]) == 1

    lines = capsys.readouterr().out.splitlines()
    assert any(line.startswith("FAIL  credentials  key 1 is not") for line in lines)
    assert any("→ mend REDRIVE_CREDENTIAL_KEYS" in line for line in lines)


def test_an_environment_that_cannot_be_read_is_a_usage_error(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REDRIVE_POOLS", "a b")

    assert main(["doctor"]) == 2
    assert "cannot name a pool" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("skew_s", "status"), [(0.0, "ok"), (-0.9, "ok"), (1.2, "ok"), (2.0, "warning"), (-90, "warning")]
)
def test_a_clock_is_judged_with_the_uncertainty_of_the_question(skew_s: float, status: str) -> None:
    before = datetime(2026, 1, 1, tzinfo=UTC)
    after = before + timedelta(seconds=0.5)
    theirs = before + timedelta(seconds=0.25 + skew_s)

    assert doctor.clock(theirs, before, after).status == status


@pytest.mark.parametrize(("free", "status"), [(10e9, "ok"), (1e9, "warning"), (1e8, "problem")])
def test_a_disk_that_runs_full_is_noticed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, free: float, status: str
) -> None:
    monkeypatch.setattr("shutil.disk_usage", lambda _: type("Usage", (), {"free": int(free)})())

    assert doctor.disk(tmp_path).status == status
