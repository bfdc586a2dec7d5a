"""The folder of an embedded system: held by one, temporary ones removed."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from services.cli.data_folder import held_folder, remove_abandoned
from shared.errors import ConflictError, RejectedError


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    return tmp_path


def test_a_folder_is_held_by_one_who_is_named_to_others(tmp_path: Path) -> None:
    with held_folder(tmp_path / "data", command="dev", port=8080) as folder:
        folder.note(command="dev", port=8123)
        with pytest.raises(ConflictError, match=rf"'redrive dev', process {os.getpid()}, since 2.*, at port 8123"):
            held_folder(tmp_path / "data", command="run").__enter__()

    with held_folder(tmp_path / "data", command="run") as again:
        assert not again.is_temporary
    assert (tmp_path / "data").is_dir()


def test_a_temporary_folder_goes_with_its_holder_and_with_data_kept_elsewhere(tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    with held_folder(None, command="run") as folder:
        folder.postgres.mkdir()
        (folder.postgres / "postgres").symlink_to(elsewhere)
        assert folder.is_temporary

    assert not folder.path.exists()
    assert not elsewhere.exists()


def test_only_what_is_old_and_held_by_nobody_is_cleared(tmp_path: Path) -> None:
    old, fresh = tmp_path / "redrive-run-old", tmp_path / "redrive-run-fresh"
    for path in (old, fresh):
        path.mkdir()
    with held_folder(None, command="run") as held:
        for path in (old, held.path):
            os.utime(path, (0, 0))

        remove_abandoned()

        assert held.path.exists()
    assert (old.exists(), fresh.exists()) == (False, True)


def test_a_folder_of_others_and_a_place_that_is_none_are_refused(tmp_path: Path) -> None:
    (tmp_path / "theirs").mkdir()
    (tmp_path / "theirs" / "file").touch()

    for path, said in ((tmp_path / "theirs", "other things"), (tmp_path / "theirs" / "file" / "x", "cannot be used")):
        with pytest.raises(RejectedError, match=said):
            held_folder(path, command="run").__enter__()
