"""The `file` sink on real files, by several processes, and killed in the middle."""

from __future__ import annotations

import asyncio
import csv
import json
import os
import sqlite3
import tracemalloc
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import duckdb
import pytest

from services.worker.sinks.file import FileSink
from services.worker.sinks.file_journal import holding_journal, journal_of
from services.worker.sinks.file_places import Places
from services.worker.sinks.file_turns import Stop
from services.worker.sinks.port import SinkError, Written
from shared.runtime.crashpoints import EXIT_CODE
from tests.support.eventually import eventually
from tests.support.sink_process import a_write, in_another_process

MANY = 100_000
FORMATS = ("jsonl", "csv", "parquet")


@pytest.fixture
async def sink(tmp_path: Path) -> AsyncIterator[FileSink]:
    sink = FileSink(Places(tmp_path))
    yield sink
    await sink.close()


async def stored(sink: FileSink, path: str, data: Any, identity: str = "job-1", **config: Any) -> Written:
    return await sink.write(a_write({"path": path, **config}, data, identity))


async def refused(sink: FileSink, path: str, data: Any, identity: str = "job-1", **config: Any) -> SinkError:
    with pytest.raises(SinkError) as found:
        await stored(sink, path, data, identity, **config)
    return found.value


def json_rows(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def csv_rows(path: Path) -> list[dict[str, str]]:
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def parquet_rows(path: Path) -> list[dict[str, Any]]:
    pattern = str(path / "*.parquet") if path.is_dir() else str(path)
    with duckdb.connect() as database:
        found = database.execute("SELECT * FROM read_parquet(?, union_by_name = true)", [pattern])
        names = [column[0] for column in found.description or ()]
        return [dict(zip(names, row, strict=True)) for row in found.fetchall()]


def rows_in(path: Path) -> list[dict[str, Any]]:
    """Return what a file holds, numbers as numbers whatever the format."""
    if path.suffix == ".parquet":
        return parquet_rows(path)
    if path.suffix == ".jsonl":
        return json_rows(path)
    return [{name: int(text) if text.isdigit() else text for name, text in row.items()} for row in csv_rows(path)]


def ids_in(path: Path) -> list[int]:
    return sorted(row["id"] for row in rows_in(path))


def left_over(folder: Path) -> list[str]:
    return [each.name for each in folder.rglob("*") if each.name.endswith("redrive-new")]


# --- what is stored


@pytest.mark.parametrize("form", FORMATS)
async def test_rows_are_appended_in_the_format_of_the_name(sink: FileSink, tmp_path: Path, form: str) -> None:
    path = f"out/deep/rows.{form}"

    first = await stored(sink, path, [{"id": 1, "name": "a"}, {"id": 2, "name": "b"}], "job-1")
    second = await stored(sink, path, {"id": 3, "name": "c"}, "job-2")

    assert (first.rows, first.repeated, second.rows) == (2, False, 1)
    assert first.details == {"path": path, "format": form}
    found = sorted(rows_in(tmp_path / path), key=lambda row: int(row["id"]))
    assert found == [{"id": 1, "name": "a"}, {"id": 2, "name": "b"}, {"id": 3, "name": "c"}]


async def test_csv_has_one_header_and_json_lines_have_none(sink: FileSink, tmp_path: Path) -> None:
    for identity in ("job-1", "job-2"):
        await stored(sink, "a.csv", [{"x": 1, "y": "é"}], identity)
        await stored(sink, "a.jsonl", [{"x": 1, "y": "é"}], identity)

    assert (tmp_path / "a.csv").read_text(encoding="utf-8") == "x,y\n1,é\n1,é\n"
    assert (tmp_path / "a.jsonl").read_text(encoding="utf-8") == '{"x":1,"y":"é"}\n' * 2


async def test_each_append_of_parquet_is_a_part_named_by_its_attempt(sink: FileSink, tmp_path: Path) -> None:
    await stored(sink, "events", [{"id": 1}], "job-1", format="parquet")
    await stored(sink, "events", [{"id": 2}], "a/../b", format="parquet")

    visible = sorted(each.name for each in (tmp_path / "events").iterdir())
    assert visible[1] == "part-job-1.parquet"
    assert len(visible[0]) == len("part-.parquet") + 64
    assert sorted(row["id"] for row in parquet_rows(tmp_path / "events")) == [1, 2]


@pytest.mark.parametrize("form", FORMATS)
async def test_replace_leaves_only_the_new_rows(sink: FileSink, tmp_path: Path, form: str) -> None:
    await stored(sink, f"a.{form}", [{"id": 1}, {"id": 2}], "job-1", mode="replace")
    await stored(sink, f"a.{form}", [{"id": 3, "more": 4}], "job-2", mode="replace")

    assert rows_in(tmp_path / f"a.{form}") == [{"id": 3, "more": 4}]


@pytest.mark.parametrize("form", FORMATS)
async def test_replace_by_nothing_leaves_no_rows(sink: FileSink, tmp_path: Path, form: str) -> None:
    await stored(sink, f"a.{form}", [{"id": 1}], "job-1", mode="replace")
    written = await stored(sink, f"a.{form}", [], "job-2", mode="replace")

    assert written.rows == 0
    assert rows_in(tmp_path / f"a.{form}") == []


@pytest.mark.parametrize("form", FORMATS)
async def test_upsert_replaces_rows_with_the_same_key_and_adds_the_others(
    sink: FileSink, tmp_path: Path, form: str
) -> None:
    path = f"a.{form}"
    old = [{"id": 1, "part": 1, "n": 10}, {"id": 1, "part": 2, "n": 20}, {"id": 2, "part": 1, "n": 30}]
    await stored(sink, path, old, "job-1", mode="upsert", key=["id", "part"])
    new = [{"id": 3, "part": 1, "n": 0}, {"id": 1, "part": 2, "n": 21}, {"id": 3, "part": 1, "n": 40}]
    await stored(sink, path, new, "job-2", mode="upsert", key=["id", "part"])

    found = sorted((row["id"], row["part"], row["n"]) for row in rows_in(tmp_path / path))
    assert found == [(1, 1, 10), (1, 2, 21), (2, 1, 30), (3, 1, 40)]


async def test_upsert_keeps_lines_that_it_does_not_touch_as_they_are(sink: FileSink, tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"id": 1,  "odd" : 1.50}\n\n{"id": 2}', encoding="utf-8")
    (tmp_path / "a.csv").write_text('id,t\n1,"two\nlines"\n2,""\n3,', encoding="utf-8")

    await stored(sink, "a.jsonl", {"id": 3}, "job-1", mode="upsert", key="id")
    await stored(sink, "a.csv", {"id": 2, "t": "x"}, "job-1", mode="upsert", key="id")

    assert (tmp_path / "a.jsonl").read_text(encoding="utf-8") == '{"id": 1,  "odd" : 1.50}\n{"id": 2}\n{"id":3}\n'
    assert (tmp_path / "a.csv").read_text(encoding="utf-8") == 'id,t\n1,"two\nlines"\n2,x\n3,\n'


async def test_upsert_of_parquet_widens_a_column_rather_than_to_lose_a_value(sink: FileSink, tmp_path: Path) -> None:
    await stored(sink, "a.parquet", [{"id": 1, "v": 1}, {"id": 2, "v": None}], "job-1", mode="upsert", key="id")
    await stored(sink, "a.parquet", [{"id": 3, "v": 2.5, "w": "new"}], "job-2", mode="upsert", key="id")
    await stored(sink, "a.parquet", [{"id": 1, "v": "text"}], "job-3", mode="upsert", key="id")

    found = sorted(parquet_rows(tmp_path / "a.parquet"), key=lambda row: int(row["id"]))
    assert found == [
        {"id": 1, "v": "text", "w": None},
        {"id": 2, "v": None, "w": None},
        {"id": 3, "v": "2.5", "w": "new"},
    ]


async def test_a_file_without_a_last_newline_is_continued_on_a_line_of_its_own(sink: FileSink, tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"id":1}', encoding="utf-8")
    (tmp_path / "a.csv").write_text("\ufeffid,n\n1,2", encoding="utf-8")

    await stored(sink, "a.jsonl", {"id": 2})
    await stored(sink, "a.csv", {"n": 4, "id": 3})

    assert json_rows(tmp_path / "a.jsonl") == [{"id": 1}, {"id": 2}]
    assert (tmp_path / "a.csv").read_text(encoding="utf-8-sig") == "id,n\n1,2\n3,4\n"


async def test_a_replaced_file_keeps_its_permissions(sink: FileSink, tmp_path: Path) -> None:
    await stored(sink, "a.jsonl", {"id": 1}, "job-1")
    (tmp_path / "a.jsonl").chmod(0o640)
    await stored(sink, "a.jsonl", {"id": 2}, "job-2", mode="replace")

    assert (tmp_path / "a.jsonl").stat().st_mode & 0o777 == 0o640


# --- hostile values


async def test_values_that_a_format_has_no_word_for_are_kept_readable(sink: FileSink, tmp_path: Path) -> None:
    hostile = [
        {"t": "nul\0nul", "n": float("nan"), "i": 2**200, "d": "10000-01-01T00:00:00"},
        {"t": "half \ud800 char", "n": float("-inf"), "i": -1, "d": None},
        {"t": 'a,"b"\r\nc', "n": 1e300, "i": 2**63, "d": {"deep": [1, None, "ü"]}},
        {"t": "", "n": None, "i": True, "d": "=1+1"},
    ]
    for form in FORMATS:
        await stored(sink, f"a.{form}", hostile, mode="replace")

    lines = json_rows(tmp_path / "a.jsonl")
    assert [row["t"] for row in lines] == ["nul\0nul", "half \ufffd char", 'a,"b"\r\nc', ""]
    assert [row["n"] for row in lines] == ["NaN", "-Infinity", 1e300, None]
    assert [row["i"] for row in lines] == [2**200, -1, 2**63, True]
    assert [row["d"] for row in lines] == ["10000-01-01T00:00:00", None, {"deep": [1, None, "ü"]}, "=1+1"]
    cells = csv_rows(tmp_path / "a.csv")
    assert [row["t"] for row in cells] == ["nul\0nul", "half \ufffd char", 'a,"b"\r\nc', ""]
    assert [row["n"] for row in cells] == ["NaN", "-Infinity", "1e+300", ""]
    assert [row["i"] for row in cells] == [str(2**200), "-1", str(2**63), "true"]
    assert cells[2]["d"] == '{"deep":[1,null,"ü"]}'
    columns = parquet_rows(tmp_path / "a.parquet")
    assert [row["t"] for row in columns] == ["nul\0nul", "half \ufffd char", 'a,"b"\r\nc', ""]
    assert str(columns[0]["n"]) == "nan"
    assert [row["i"] for row in columns] == [str(2**200), "-1", str(2**63), "true"]


async def test_an_empty_text_differs_from_nothing_in_csv(sink: FileSink, tmp_path: Path) -> None:
    await stored(sink, "a.csv", [{"a": "", "b": 1}, {"a": None, "b": 2}])
    await stored(sink, "one.csv", [{"a": None}, {"a": "x"}])

    assert (tmp_path / "a.csv").read_text(encoding="utf-8") == 'a,b\n"",1\n,2\n'
    assert (tmp_path / "one.csv").read_text(encoding="utf-8") == 'a\n""\nx\n'


async def test_numbers_keep_every_digit_in_parquet(sink: FileSink, tmp_path: Path) -> None:
    rows = [
        {"whole": 1, "mixed": 2**53 + 1, "long": 2**63, "flag": True, "half": 1},
        {"whole": 2, "mixed": 0.5, "long": 1, "flag": False, "half": 0.5},
    ]
    await stored(sink, "a.parquet", rows, mode="replace")

    first, second = parquet_rows(tmp_path / "a.parquet")
    assert (first["whole"], first["mixed"], first["long"], first["flag"]) == (1, str(2**53 + 1), 2**63, True)
    assert (second["half"], second["mixed"]) == (0.5, "0.5")


@pytest.mark.parametrize(
    ("data", "lines"),
    [
        (None, []),
        ([], []),
        (5, [{"value": 5}]),
        (["a", {"b": 1}], [{"value": "a"}, {"b": 1}]),
        ({}, [{}]),
    ],
)
async def test_whatever_a_task_gives_is_rows(sink: FileSink, tmp_path: Path, data: Any, lines: list[Any]) -> None:
    written = await stored(sink, "a.jsonl", data)

    assert written.rows == len(lines)
    assert json_rows(tmp_path / "a.jsonl") == lines


# --- what is refused


async def test_a_column_that_a_csv_file_lacks_is_named(sink: FileSink, tmp_path: Path) -> None:
    await stored(sink, "a.csv", {"id": 1, "n": 2}, "job-1")

    appended = await refused(sink, "a.csv", [{"id": 2}, {"id": 3, "extra": 1}], "job-2")
    merged = await refused(sink, "a.csv", [{"id": 3, "extra": 1}], "job-3", mode="upsert", key="id")

    assert appended.message == "the file 'a.csv' has no column 'extra'; it has id, n"
    assert merged.message == appended.message
    assert (tmp_path / "a.csv").read_text(encoding="utf-8") == "id,n\n1,2\n"


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"path": "a"}, "the format of 'a' does not follow from its name; say jsonl, csv or parquet"),
        ({"path": "a.jsonl", "mode": "upsert"}, "mode upsert needs a key"),
        ({"path": "a.jsonl", "mode": "upsert", "key": "no"}, "the rows have no column 'no', which is a key"),
        ({"path": "a.jsonl", "mode": "merge"}, "mode: Input should be 'append', 'upsert' or 'replace'"),
        ({"path": "a.jsonl", "pth": 1}, "pth: Extra inputs are not permitted"),
        ({"path": ""}, "a path is empty"),
        ({"path": "a\0.jsonl"}, "a path is empty, or holds a NUL character"),
        ({"path": "\ud800.jsonl"}, "a path holds characters that no file name can have"),
        ({"path": "folder", "format": "jsonl"}, "'folder' is a folder"),
        ({"path": "folder", "format": "parquet", "mode": "replace"}, "'folder' is a folder"),
        ({"path": "file.jsonl", "format": "parquet"}, "'file.jsonl' is a file; parquet is appended to a folder"),
        ({"path": "file.jsonl/a.jsonl"}, "cannot write 'a.jsonl'"),
        ({"path": "x" * 300 + ".jsonl"}, ""),
        ({"path": "pipe.jsonl"}, "'pipe.jsonl' is no ordinary file"),
        ({"path": "file.jsonl", "mode": "upsert", "key": "id"}, "line 1 of 'file.jsonl' is no JSON"),
        ({"path": "file.jsonl", "format": "parquet", "mode": "upsert", "key": "id"}, "'file.jsonl': "),
    ],
)
async def test_what_cannot_be_stored_is_refused_with_a_reason(
    sink: FileSink, tmp_path: Path, config: dict[str, Any], message: str
) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "file.jsonl").write_text("{\n", encoding="utf-8")
    os.mkfifo(tmp_path / "pipe.jsonl")

    with pytest.raises(SinkError) as found:
        await sink.write(a_write(config, [{"id": 1}]))

    assert message in found.value.message
    assert not found.value.retryable
    assert (tmp_path / "file.jsonl").read_text(encoding="utf-8") == "{\n"


async def test_a_set_root_cannot_be_left(tmp_path: Path) -> None:
    root, outside = tmp_path / "root", tmp_path / "outside"
    root.mkdir()
    outside.mkdir()
    (root / "link").symlink_to(outside)
    (root / "file.jsonl").symlink_to(outside / "file.jsonl")
    fenced = FileSink(Places(root))

    for path in ("../a.jsonl", str(outside / "a.jsonl"), "link/a.jsonl", "file.jsonl", "sub/../../a.jsonl", "."):
        problem = await refused(fenced, path, {"id": 1}, format="jsonl")
        assert "leads out of the files root" in problem.message
    await stored(fenced, str(root / "sub" / ".." / "a.jsonl"), {"id": 1})
    await fenced.close()

    assert list(outside.iterdir()) == []
    assert json_rows(root / "a.jsonl") == [{"id": 1}]


async def test_without_a_root_paths_are_those_of_the_working_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    free = FileSink()

    await stored(free, "here.jsonl", {"id": 1})
    await stored(free, str(tmp_path / "there.jsonl"), {"id": 1})
    await free.close()

    assert json_rows(tmp_path / "here.jsonl") == json_rows(tmp_path / "there.jsonl") == [{"id": 1}]


# --- delivered twice


@pytest.mark.parametrize("mode", ["append", "upsert", "replace"])
@pytest.mark.parametrize("form", FORMATS)
async def test_a_write_that_comes_again_is_not_made_again(sink: FileSink, tmp_path: Path, form: str, mode: str) -> None:
    config = {"mode": mode, "key": "id"}
    path = f"a.{form}"
    await stored(sink, path, [{"id": 1, "n": 1}], "job-1", **config)
    await stored(sink, path, [{"id": 1, "n": 2}], "job-2", **config)
    before = sorted(row["n"] for row in rows_in(tmp_path / path))
    again = await stored(sink, path, [{"id": 1, "n": 1}], "job-1", **config)

    assert (again.rows, again.repeated) == (1, True)
    assert sorted(row["n"] for row in rows_in(tmp_path / path)) == before


@pytest.mark.parametrize("form", FORMATS)
async def test_two_deliveries_at_once_write_once(sink: FileSink, tmp_path: Path, form: str) -> None:
    both = await asyncio.gather(*[stored(sink, f"a.{form}", [{"id": 1}, {"id": 2}]) for _ in range(2)])

    assert sorted(written.repeated for written in both) == [False, True]
    assert ids_in(tmp_path / f"a.{form}") == [1, 2]


async def test_processes_that_append_at_once_lose_and_tear_nothing(tmp_path: Path) -> None:
    rows: list[list[dict[str, Any]]] = [
        [{"id": number * 1000 + place, "t": "x" * 200} for place in range(300)] for number in range(4)
    ]

    ended = await asyncio.gather(
        *[
            in_another_process("file", tmp_path, {"path": f"a.{form}"}, rows[number], f"job-{number}")
            for number in (0, 1, 2, 3, 3)
            for form in ("csv", "jsonl")
        ]
    )

    assert [code for code, _ in ended] == [0] * 10, ended
    expected = sorted(row["id"] for part in rows for row in part)
    assert ids_in(tmp_path / "a.csv") == expected
    assert ids_in(tmp_path / "a.jsonl") == expected


async def test_a_file_that_another_process_holds_too_long_is_to_be_tried_again(sink: FileSink, tmp_path: Path) -> None:
    with holding_journal(tmp_path / "a.jsonl", 1.0, Stop()), pytest.raises(SinkError) as found:
        await sink.write(a_write({"path": "a.jsonl"}, {"id": 1}, timeout_s=0.1))

    assert found.value.message == "'a.jsonl' is being written by another process for more than 0.1 s"
    assert (found.value.retryable, found.value.cause) == (True, "connection")
    assert not (tmp_path / "a.jsonl").exists()


# --- killed in the middle


@pytest.mark.parametrize("form", ["jsonl", "csv"])
@pytest.mark.parametrize("place", ["file_sink.after_piece", "file_sink.after_piece:2", "file_sink.after_append"])
async def test_a_torn_append_is_undone_and_made_once(sink: FileSink, tmp_path: Path, form: str, place: str) -> None:
    path, before = f"a.{form}", [{"id": 1, "t": "a"}]
    rows = [{"id": number, "t": "b" * 50} for number in range(2, 12_000)]
    await stored(sink, path, before, "job-0")
    whole = (tmp_path / path).stat().st_size

    code, said = await in_another_process("file", tmp_path, {"path": path}, rows, "job-1", crash_at=place)
    torn = (tmp_path / path).stat().st_size
    other = await stored(sink, path, [{"id": 20_000, "t": "c"}], "job-2")
    again = await stored(sink, path, rows, "job-1")

    assert code == EXIT_CODE, said
    assert torn > whole
    assert (other.repeated, again.repeated, again.rows) == (False, False, len(rows))
    assert ids_in(tmp_path / path) == [1, *range(2, 12_000), 20_000]


@pytest.mark.parametrize(("form", "mode"), [("jsonl", "replace"), ("csv", "upsert"), ("parquet", "append"),
                                            ("parquet", "upsert"), ("parquet", "replace")])  # fmt: skip
@pytest.mark.parametrize(
    ("place", "is_there"),
    [("file_sink.before_swap", False), ("file_sink.announced_swap", False), ("file_sink.after_swap", True)],
)
async def test_a_killed_replacement_is_there_as_a_whole_or_not_at_all(
    sink: FileSink, tmp_path: Path, form: str, mode: str, place: str, is_there: bool
) -> None:
    path, config = f"a.{form}", {"mode": mode, "key": "id"}
    await stored(sink, path, [{"id": 1}], "job-0", **config)

    code, said = await in_another_process(
        "file", tmp_path, {"path": path, **config}, [{"id": 2}], "job-1", crash_at=place
    )
    after = ids_in(tmp_path / path)
    again = await stored(sink, path, [{"id": 2}], "job-1", **config)

    assert code == EXIT_CODE, said
    both = [2] if mode == "replace" else [1, 2]
    assert after == (both if is_there else [1])
    assert again.repeated is is_there
    assert ids_in(tmp_path / path) == both
    assert left_over(tmp_path) == []


async def test_a_cancelled_write_leaves_the_file_as_it_was(sink: FileSink, tmp_path: Path) -> None:
    rows = [{"id": number, "t": "x" * 300} for number in range(MANY)]
    await stored(sink, "a.jsonl", {"id": -1}, "job-0")
    before = (tmp_path / "a.jsonl").stat().st_size
    task = asyncio.create_task(stored(sink, "a.jsonl", rows, "job-1"))

    async def has_begun() -> bool:
        return (tmp_path / "a.jsonl").stat().st_size > before

    await eventually(has_begun)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task

    assert (tmp_path / "a.jsonl").stat().st_size == before
    assert (await stored(sink, "a.jsonl", {"id": 0}, "job-1")).repeated is False


# --- much


@pytest.mark.parametrize(
    ("form", "mode"), [("jsonl", "append"), ("csv", "append"), ("parquet", "append"), ("parquet", "upsert")]
)
async def test_many_rows_need_little_memory_besides_their_own(
    sink: FileSink, tmp_path: Path, form: str, mode: str
) -> None:
    rows = [{"id": number, "name": f"name {number}", "half": number / 2, "tags": ["a", "b"]} for number in range(MANY)]
    tracemalloc.start()
    try:
        written = await stored(sink, f"a.{form}", rows, mode=mode, key="id")
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert written.rows == MANY
    assert len(rows_in(tmp_path / f"a.{form}")) == MANY
    # The rows alone take more than 40 MB; upsert holds their keys.
    assert peak < (40 if mode == "upsert" else 12) * 1024**2


async def test_the_journal_forgets_what_cannot_come_again(sink: FileSink, tmp_path: Path) -> None:
    await stored(sink, "a.jsonl", {"id": 1}, "old")
    with sqlite3.connect(journal_of(tmp_path / "a.jsonl")) as journal:
        journal.execute("UPDATE done SET at = at - 31 * 24 * 3600")
    journal.close()
    await stored(sink, "a.jsonl", {"id": 2}, "new")

    with sqlite3.connect(journal_of(tmp_path / "a.jsonl")) as journal:
        known = journal.execute("SELECT identity FROM done").fetchall()
    journal.close()
    assert known == [("new",)]
