"""The private Postgres: made once, kept over crashes, had by one process, and gone with it."""

from __future__ import annotations

import asyncio
import importlib.util
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from shared.errors import ConflictError, UnavailableError
from shared.runtime import embedded
from shared.runtime.embedded import PrivatePostgres
from tests.support.eventually import eventually
from tests.support.postgres import execute, fetch, finished, make_folder
from tests.support.repository import ROOT

AS_ROOT = os.geteuid() == 0


@pytest.fixture
def folder() -> Iterator[Path]:
    place = make_folder()
    yield place
    shutil.rmtree(place, ignore_errors=True)


@pytest.fixture
def server(folder: Path) -> Iterator[PrivatePostgres]:
    found = PrivatePostgres(folder / "pg", durable=False)
    found.start()
    yield found
    found.stop()


def rows(server: PrivatePostgres) -> int:
    return len(finished(fetch(server.url(), "SELECT FROM kept")))


def keep_a_row(server: PrivatePostgres) -> None:
    finished(execute(server.url(), "CREATE TABLE IF NOT EXISTS kept ()"))
    finished(execute(server.url(), "INSERT INTO kept DEFAULT VALUES"))


def test_data_outlives_a_clean_stop(server: PrivatePostgres) -> None:
    keep_a_row(server)
    url = server.url()

    server.stop()
    assert not server.is_running
    assert not server._sockets.exists()
    server.start()

    assert server.url() == url
    assert rows(server) == 1


def test_data_outlives_a_crash(server: PrivatePostgres) -> None:
    for expected in (1, 2, 3):
        keep_a_row(server)
        server.kill()
        server.start()
        assert rows(server) == expected


def test_a_durable_server_starts_and_stops_as_well(folder: Path) -> None:
    server = PrivatePostgres(folder / "pg")
    server.start()
    keep_a_row(server)
    server.stop()
    server.start()
    assert rows(server) == 1
    server.stop()
    server.stop()


def test_a_second_process_or_object_is_told_that_the_data_is_in_use(server: PrivatePostgres, folder: Path) -> None:
    second = PrivatePostgres(folder / "pg", durable=False)

    with pytest.raises(ConflictError, match=str(os.getpid())):
        second.start()
    with pytest.raises(ConflictError):
        server.start()

    assert server.is_running


def test_nothing_of_the_surroundings_reaches_the_server(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {
        "PGPORT": "1",
        "PGDATA": "/nowhere",
        "PGHOST": "nowhere",
        "LC_ALL": "xx_XX",
        "TZ": "Mars",
    }.items():
        monkeypatch.setenv(name, value)
    server = PrivatePostgres(folder / "pg", durable=False)

    server.start()
    try:
        (row,) = finished(fetch(server.url(), "SELECT current_setting('TimeZone') AS zone, current_user AS who"))
        assert (row["zone"], row["who"]) == ("UTC", "redrive")
    finally:
        server.stop()


def test_it_listens_on_no_network_and_others_cannot_reach_its_socket(server: PrivatePostgres) -> None:
    (row,) = finished(fetch(server.url(), "SELECT current_setting('listen_addresses') AS found"))

    assert row["found"] == ""
    assert server._sockets.stat().st_mode & 0o077 == 0


def test_folders_above_the_data_keep_their_permissions(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(embedded, "STATE", folder / "state")
    above = folder / "above"
    above.mkdir(mode=0o750)
    before = above.stat()

    server = PrivatePostgres(above / "pg", durable=False)
    server.start()
    server.stop()

    assert (above.stat().st_mode, above.stat().st_uid) == (before.st_mode, before.st_uid)


@pytest.mark.skipif(not AS_ROOT, reason="only root changes to another user")
def test_as_root_the_server_runs_as_someone_else(server: PrivatePostgres) -> None:
    (row,) = finished(fetch(server.url(), "SELECT current_setting('data_directory') AS data"))

    owner = Path(row["data"]).stat().st_uid
    assert owner != 0
    pid = int((Path(row["data"]) / "postmaster.pid").read_text().splitlines()[0])
    assert Path(f"/proc/{pid}").stat().st_uid == owner


@pytest.mark.skipif(not AS_ROOT, reason="only root changes to another user")
def test_as_root_data_under_a_closed_folder_is_kept_elsewhere_with_a_link(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(embedded, "STATE", folder / "state")
    closed = folder / "closed"
    closed.mkdir(mode=0o700)
    server = PrivatePostgres(closed / "pg", durable=False)
    server.start()
    keep_a_row(server)
    server.stop()

    assert closed.stat().st_mode & 0o777 == 0o700
    assert (closed / "pg" / "postgres").resolve().parent == folder / "state"
    server.start()
    assert rows(server) == 1
    server.stop()


@pytest.mark.skipif(not AS_ROOT, reason="only root changes to another user")
def test_as_root_programs_that_the_user_cannot_reach_are_copied(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    closed = folder / "closed"
    closed.mkdir(mode=0o700)
    spec = importlib.util.find_spec(embedded.WHEEL)
    assert spec is not None
    assert spec.submodule_search_locations
    package = Path(spec.submodule_search_locations[0])
    for name in (embedded.WHEEL, f"{embedded.WHEEL}.libs"):
        shutil.copytree(package.parent / name, closed / name, ignore=shutil.ignore_patterns("include", "*.a"))
    monkeypatch.syspath_prepend(closed)
    monkeypatch.setattr(embedded, "CACHE", folder / "cache")
    importlib.invalidate_caches()

    for _ in range(2):
        server = PrivatePostgres(folder / "pg", durable=False)
        server.start()
        assert server._bin.is_relative_to(folder / "cache")
        server.stop()
    assert len(list((folder / "cache").iterdir())) == 1


def test_without_the_wheel_it_says_what_to_do(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(embedded, "WHEEL", "no_such_wheel")

    with pytest.raises(UnavailableError, match="REDRIVE_DATABASE_URL"):
        PrivatePostgres(folder / "pg").start()


def test_a_server_that_cannot_start_says_why_and_lets_go(folder: Path) -> None:
    server = PrivatePostgres(folder / "pg", durable=False, settings={"shared_buffers": "nonsense"})
    with pytest.raises(UnavailableError, match="shared_buffers"):
        server.start()

    other = PrivatePostgres(folder / "pg", durable=False)
    other.start()
    other.stop()


HOLDER = """
import sys
from pathlib import Path
from shared.runtime.embedded import PrivatePostgres
server = PrivatePostgres(Path(sys.argv[1]), durable=False)
server.start()
print((server._data / "postmaster.pid").read_text().splitlines()[0], flush=True)
sys.stdin.read()
"""


def test_the_server_ends_with_a_process_that_is_killed_and_the_next_one_has_its_data(folder: Path) -> None:
    command = [sys.executable, "-c", HOLDER, str(folder / "pg")]
    with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        pid = int(holder.stdout.readline())
        holder.send_signal(signal.SIGKILL)

    finished(eventually(lambda: asyncio.to_thread(is_gone, pid), within_s=30))
    server = PrivatePostgres(folder / "pg", durable=False)
    server.start()
    assert finished(fetch(server.url(), "SELECT 1 AS one"))
    server.stop()


def is_gone(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    state = subprocess.run(["ps", "-o", "stat=", "-p", str(pid)], capture_output=True, text=True, check=False)
    return state.stdout.strip().startswith("Z")
