"""Data of a private Postgres that is made once and copied from then on."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from shared.runtime.embedded import PrivatePostgres
from shared.runtime.embedded_template import ABANDONED_S, UNUSED_S, DataTemplate
from tests.support.postgres import execute, fetch, finished, make_folder


@pytest.fixture
def folder() -> Iterator[Path]:
    place = make_folder()
    yield place
    shutil.rmtree(place, ignore_errors=True)


def rows(server: PrivatePostgres) -> int:
    return len(finished(fetch(server.url(), "SELECT FROM kept")))


def kept_template(folder: Path) -> DataTemplate:
    """Return a template with one table in it, made by a server that was stopped."""
    template = DataTemplate(folder / "cache", "v1")
    server = PrivatePostgres(folder / "first", durable=False, template=template)
    server.start()
    assert server.made == "new"
    finished(execute(server.url(), "CREATE TABLE kept ()"))
    server.stop()
    template.keep(server.data)
    return template


@pytest.mark.parametrize("durable", [False, True])
def test_new_data_is_a_copy_of_the_template_and_goes_its_own_way(folder: Path, durable: bool) -> None:
    template = kept_template(folder)
    servers = [PrivatePostgres(folder / name, durable=durable, template=template) for name in ("a", "b")]

    for server in servers:
        server.start()
    finished(execute(servers[0].url(), "INSERT INTO kept DEFAULT VALUES"))

    assert [server.made for server in servers] == ["copied", "copied"]
    assert [rows(server) for server in servers] == [1, 0]
    servers[0].stop()
    servers[0].start()
    assert (servers[0].made, rows(servers[0])) == ("found", 1)
    for server in servers:
        server.stop()


def test_a_template_is_kept_once_however_many_want_to(folder: Path) -> None:
    template = kept_template(folder)
    source = folder / "first" / "data"

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(template.keep, [source] * 4))
        made = list(pool.map(template.copy_to, [folder / f"copy-{n}" for n in range(4)]))

    assert made == [True] * 4
    assert {path.name for path in (folder / "cache").iterdir()} == {"data-v1.tar", "lock"}


def test_a_copy_that_fails_leaves_nothing_and_the_data_is_made_anew(folder: Path) -> None:
    template = DataTemplate(folder / "cache", "v1")

    assert not template.copy_to(folder / "none")
    assert not (folder / "none").exists()
    template.keep(folder / "there is nothing")
    assert not template.exists
    assert {path.name for path in (folder / "cache").iterdir()} == {"lock"}


def test_an_archive_that_is_cut_off_is_not_used(folder: Path) -> None:
    template = kept_template(folder)
    archive = folder / "cache" / "data-v1.tar"
    os.truncate(archive, archive.stat().st_size // 2)

    assert not template.copy_to(folder / "half")
    assert not (folder / "half").exists()
    assert not template.exists


def test_without_the_program_that_unpacks_data_is_made_anew(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    template = kept_template(folder)
    monkeypatch.setenv("PATH", "/nowhere")

    assert not template.copy_to(folder / "none")
    assert not (folder / "none").exists()
    assert template.exists


def test_what_nobody_uses_any_more_is_cleared(folder: Path) -> None:
    cache = folder / "cache"
    cache.mkdir()
    for name, age_s in (("data-old.tar", UNUSED_S + 60), ("data-new.tar", 60), (".draft-1", ABANDONED_S + 60)):
        (cache / name).touch()
        then = (cache / name).stat().st_mtime - age_s
        os.utime(cache / name, (then, then))

    kept_template(folder)

    assert {path.name for path in cache.iterdir()} == {"data-v1.tar", "data-new.tar", "lock"}
