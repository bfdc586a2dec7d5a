"""`redrive credentials` against a real server and a real database."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
import uvicorn

from services.cli.__main__ import main
from services.cli.rotation import rotate
from services.ingest.app import create_app
from services.ingest.auth import parse_keys
from services.ingest.settings import Settings
from shared.broker.memory import MemoryBroker
from shared.runtime.clock import SystemClock
from shared.runtime.sealing import Keyring, new_key, parse_ring
from shared.store.memory.store import MemoryStore
from shared.store.postgres.store import PostgresStore
from shared.store.records import SealedCredential
from tests.support.eventually import eventually
from tests.support.postgres import finished

pytest_plugins = ("tests.support.stores",)

SECRET = "s3cret-of-the-tests"
API_KEY = "0123456789abcdef"


def ring(*keys: str) -> Keyring:
    found = parse_ring(",".join(keys)).ring
    assert found is not None
    return found


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    keys = tuple(parse_keys(f"me:admin:{API_KEY}").keys)
    clock = SystemClock()
    app = create_app(MemoryStore(clock.now), MemoryBroker(), Settings(keys=keys, keyring=ring(new_key())), clock)
    found = uvicorn.Server(uvicorn.Config(app, port=0, log_config=None, lifespan="off"))
    thread = threading.Thread(target=found.run, daemon=True)
    thread.start()

    async def started() -> bool:
        return found.started

    finished(eventually(started))
    monkeypatch.setenv("REDRIVE_API_KEY", API_KEY)
    yield f"http://127.0.0.1:{found.servers[0].sockets[0].getsockname()[1]}"
    found.should_exit = True
    thread.join(10)


def test_a_credential_is_set_listed_and_deleted_and_never_shown(
    server: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "token").write_text(SECRET)
    words = ["--kind", "bearer", "--field", f"token=@{tmp_path / 'token'}", "--server", server, "-o", "json"]

    assert main(["credentials", "set", "api", *words]) == 0
    assert json.loads(capsys.readouterr().out)["kind"] == "bearer"
    assert main(["credentials", "list", "--server", server]) == 0
    printed = capsys.readouterr()
    assert [line.split()[:2] for line in printed.out.splitlines()] == [["NAME", "KIND"], ["api", "bearer"]]
    assert SECRET not in printed.out + printed.err
    assert main(["credentials", "delete", "api", "--server", server]) == 0
    assert main(["credentials", "delete", "api", "--server", server]) == 5
    capsys.readouterr()
    assert main(["credentials", "list", "--server", server, "-o", "json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"items": []}


def test_what_is_refused_ends_with_its_code(server: str, capsys: pytest.CaptureFixture[str]) -> None:
    wrong = ["credentials", "set", "api", "--kind", "vault", "--field", "a=bcde", "--server", server]

    assert main(wrong) == 2
    assert "there is no such kind" in capsys.readouterr().err
    assert main(["credentials", "list", "--server", server, "--key", "another-key-entirely"]) == 4


def test_rotation_seals_everything_with_the_first_key(
    database: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    old, new = new_key(), new_key()
    names = [f"c{number:03}" for number in range(230)]

    async def fill() -> None:
        store = PostgresStore.connect(database)
        for name in names:
            sealed = ring(old).seal(name, "bearer", {"token": f"{SECRET}-{name}"})
            await store.put_credential(SealedCredential(name, "bearer", sealed, ring(old).active_id), "me")
        await store.close()

    async def opened() -> set[str]:
        store = PostgresStore.connect(database)
        found = [each for name in names if (each := await store.credential(name)) is not None]
        await store.close()
        return {ring(new).open(row.name, row.kind, row.key_id, each.sealed)["token"] for row, each in found}

    finished(fill())
    monkeypatch.setenv("REDRIVE_CREDENTIAL_KEYS", f"{new},{old}")

    assert main(["credentials", "rotate", "--database", database, "-o", "json"]) == 0
    assert len(json.loads(capsys.readouterr().out)["resealed"]) == 230
    assert finished(opened()) == {f"{SECRET}-{name}" for name in names}
    assert main(["credentials", "rotate", "--database", database]) == 0
    assert capsys.readouterr().out.startswith("0 sealed anew")


async def test_what_no_key_opens_is_left_and_named() -> None:
    store, lost, new = MemoryStore(SystemClock().now), ring(new_key()), ring(new_key())
    for name in ("a", "b"):
        await store.put_credential(
            SealedCredential(name, "bearer", lost.seal(name, "bearer", {}), lost.active_id), "me"
        )

    done = await rotate(store, new, "me")

    assert done.resealed == []
    assert list(done.unopened) == ["a", "b"]
    assert await store.sealed_otherwise(new.active_id, 10) != []
