"""The `duckdb` sink on real database files, by several processes, and killed before and after the commit."""

from __future__ import annotations

import asyncio
import resource
import sys
import tracemalloc
from collections.abc import AsyncIterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pytest

from services.worker.sinks.duckdb import MARKER, DuckdbSink
from services.worker.sinks.file_places import Places
from services.worker.sinks.port import SinkError, Written
from services.worker.tools.duckdb import DuckdbTool
from shared.runtime.crashpoints import EXIT_CODE
from tests.support.sink_process import a_write, in_another_process, lending
from tests.unit.worker.given import a_call

MANY = 100_000
HOLDER = """
import duckdb, sys
database = duckdb.connect(sys.argv[1])
print("held", flush=True)
sys.stdin.read()
"""


@pytest.fixture
async def sink(tmp_path: Path) -> AsyncIterator[DuckdbSink]:
    sink = DuckdbSink(Places(tmp_path))
    yield sink
    await sink.close()


def made(folder: Path, *statements: str) -> None:
    with duckdb.connect(str(folder / "a.duckdb")) as database:
        for statement in statements:
            database.execute(statement)


def found(folder: Path, query: str) -> list[tuple[Any, ...]]:
    with duckdb.connect(str(folder / "a.duckdb"), read_only=True) as database:
        return database.execute(query).fetchall()


async def stored(sink: DuckdbSink, data: Any, identity: str = "job-1", table: str = "t", **config: Any) -> Written:
    return await sink.write(a_write({"database": "a.duckdb", "table": table, **config}, data, identity))


async def refused(sink: DuckdbSink, data: Any, **config: Any) -> SinkError:
    with pytest.raises(SinkError) as problem:
        await stored(sink, data, **config)
    return problem.value


async def test_rows_are_appended_with_the_types_of_the_table(sink: DuckdbSink, tmp_path: Path) -> None:
    made(
        tmp_path,
        "CREATE TABLE t (i INTEGER, h HUGEINT, n DECIMAL(20, 2), d DOUBLE, b BOOLEAN, t VARCHAR, j JSON, day DATE, "
        "at_time TIMESTAMP, zoned TIMESTAMPTZ, l INTEGER[], s STRUCT(a INTEGER, b VARCHAR), m MAP(VARCHAR, INTEGER), "
        "bytes BLOB, u UUID, made INTEGER DEFAULT 7)",
    )
    row = {
        "i": 1, "h": 2**100, "n": "123456789012345678.91", "d": 0.1, "b": True, "t": {"k": [1]}, "j": "text",
        "day": "10000-01-01", "at_time": "2024-02-29T12:00:00.5", "zoned": "2024-02-29T12:00:00+02:00",
        "l": [1, None, 3], "s": {"a": 1, "b": "x"}, "m": {"k": 5}, "bytes": "YQBi",
        "u": "00000000-0000-0000-0000-000000000001",
    }  # fmt: skip
    written = await stored(sink, [row, dict.fromkeys(row)])

    assert (written.rows, written.repeated, written.details) == (2, False, {"table": "t"})
    first, second = found(tmp_path, "SELECT * REPLACE (day::VARCHAR AS day, zoned::VARCHAR AS zoned) FROM t")
    assert first[:3] == (1, 2**100, Decimal("123456789012345678.91"))
    assert first[3:8] == (0.1, True, '{"k":[1]}', '"text"', "10000-01-01")
    assert first[9].startswith("2024-02-29 10:00:00")
    assert first[10:14] == ([1, None, 3], {"a": 1, "b": "x"}, {"k": 5}, b"a\0b")
    assert second == (*[None] * 15, 7)


async def test_names_of_columns_and_tables_are_found_whatever_their_case_and_schema(
    sink: DuckdbSink, tmp_path: Path
) -> None:
    made(tmp_path, 'CREATE SCHEMA other; CREATE TABLE other."Odd ""Name" ("Größe" INTEGER, "select" INTEGER)')

    await stored(sink, {"GRÖSSE".replace("SS", "ß"): None, "SELECT": 2}, table='other.Odd "Name')

    assert found(tmp_path, 'SELECT * FROM other."Odd ""Name"') == [(None, 2)]


async def test_upsert_changes_rows_with_the_same_key_and_adds_the_others(sink: DuckdbSink, tmp_path: Path) -> None:
    made(tmp_path, "CREATE TABLE t (a INTEGER, b VARCHAR, n INTEGER, kept INTEGER, PRIMARY KEY (a, b))",
         "INSERT INTO t VALUES (1, 'x', 1, 9), (2, 'x', 2, 9)")  # fmt: skip
    rows = [{"a": 2, "b": "x", "n": 20}, {"a": 3, "b": "x", "n": 30}, {"a": 3, "b": "x", "n": 31}]

    written = await stored(sink, rows, mode="upsert", key=["a", "b"])

    assert written.rows == 3
    assert found(tmp_path, "SELECT * FROM t ORDER BY a") == [(1, "x", 1, 9), (2, "x", 20, 9), (3, "x", 31, None)]


async def test_upsert_needs_no_index_and_takes_null_for_a_key(sink: DuckdbSink, tmp_path: Path) -> None:
    made(tmp_path, "CREATE TABLE t (a INTEGER, n INTEGER)", "INSERT INTO t VALUES (NULL, 1), (5, 5)")

    await stored(sink, [{"a": None, "n": 2}, {"a": 6, "n": 6}], "job-1", mode="upsert", key="a")
    await stored(sink, [{"a": 7}, {"a": 5}], "job-2", mode="upsert", key="a")

    assert found(tmp_path, "SELECT * FROM t ORDER BY a NULLS FIRST") == [(None, 2), (5, 5), (6, 6), (7, None)]


async def test_replace_leaves_only_the_new_rows(sink: DuckdbSink, tmp_path: Path) -> None:
    made(tmp_path, "CREATE TABLE t (a INTEGER PRIMARY KEY)", "INSERT INTO t VALUES (1), (2)")

    await stored(sink, [{"a": 2}, {"a": 3}], "job-1", mode="replace")
    assert found(tmp_path, "SELECT a FROM t ORDER BY a") == [(2,), (3,)]
    await stored(sink, [], "job-2", mode="replace")
    assert found(tmp_path, "SELECT a FROM t") == []


@pytest.mark.parametrize("mode", ["append", "upsert", "replace"])
async def test_a_write_that_comes_again_is_not_made_again(sink: DuckdbSink, tmp_path: Path, mode: str) -> None:
    made(tmp_path, "CREATE TABLE t (a INTEGER, n INTEGER)")
    await stored(sink, [{"a": 1, "n": 1}], "job-1", mode=mode, key="a")
    await stored(sink, [{"a": 1, "n": 2}], "job-2", mode=mode, key="a")
    before = found(tmp_path, "SELECT * FROM t ORDER BY n")
    again = await stored(sink, [{"a": 1, "n": 1}], "job-1", mode=mode, key="a")

    assert (again.rows, again.repeated) == (1, True)
    assert found(tmp_path, "SELECT * FROM t ORDER BY n") == before
    assert found(tmp_path, f"SELECT identity, row_count FROM {MARKER} ORDER BY 1") == [("job-1", 1), ("job-2", 1)]


async def test_two_deliveries_at_once_write_once(sink: DuckdbSink, tmp_path: Path) -> None:
    made(tmp_path, "CREATE TABLE t (a INTEGER)")

    both = await asyncio.gather(*[stored(sink, [{"a": 1}, {"a": 2}]) for _ in range(2)])

    assert sorted(written.repeated for written in both) == [False, True]
    assert found(tmp_path, "SELECT count(*) FROM t") == [(2,)]


async def test_processes_take_turns_at_a_file(tmp_path: Path) -> None:
    made(tmp_path, "CREATE TABLE t (a INTEGER)")
    config = {"database": "a.duckdb", "table": "t"}

    ended = await asyncio.gather(
        *[in_another_process("duckdb", tmp_path, config, [{"a": n}], f"job-{n}") for n in (1, 2, 3, 3)]
    )

    assert [code for code, _ in ended] == [0] * 4, ended
    assert found(tmp_path, "SELECT a FROM t ORDER BY a") == [(1,), (2,), (3,)]


@pytest.mark.parametrize(("place", "is_there"), [("before_commit", False), ("after_commit", True)])
async def test_a_killed_write_is_there_as_a_whole_or_not_at_all(
    sink: DuckdbSink, tmp_path: Path, place: str, is_there: bool
) -> None:
    made(tmp_path, "CREATE TABLE t (a INTEGER)")
    config = {"database": "a.duckdb", "table": "t"}
    rows = [{"a": number} for number in range(6_000)]

    code, said = await in_another_process("duckdb", tmp_path, config, rows, crash_at=f"duckdb_sink.{place}")
    again = await stored(sink, rows)

    assert code == EXIT_CODE, said
    assert again.repeated is is_there
    assert found(tmp_path, "SELECT count(*) FROM t") == [(6_000,)]


async def test_a_file_that_another_process_holds_is_to_be_tried_again(sink: DuckdbSink, tmp_path: Path) -> None:
    made(tmp_path, "CREATE TABLE t (a INTEGER)")
    holder = await asyncio.create_subprocess_exec(
        sys.executable, "-c", HOLDER, str(tmp_path / "a.duckdb"),
        stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE,
    )  # fmt: skip
    assert holder.stdout is not None
    assert await holder.stdout.readline() == b"held\n"

    with pytest.raises(SinkError) as problem:
        await sink.write(a_write({"database": "a.duckdb", "table": "t"}, {"a": 1}, timeout_s=0.2))
    waiting = asyncio.create_task(stored(sink, {"a": 2}))
    await holder.communicate(b"")
    await waiting

    assert problem.value.message == "the database file is in use by another process"
    assert (problem.value.retryable, problem.value.cause) == (True, "connection")
    assert found(tmp_path, "SELECT a FROM t") == [(2,)]


async def test_tool_and_sink_of_one_worker_take_turns_at_a_file(sink: DuckdbSink, tmp_path: Path) -> None:
    made(tmp_path, "CREATE TABLE t (a INTEGER)")
    tool = DuckdbTool(Places(tmp_path))
    config = {"database": "a.duckdb", "command": "INSERT INTO t VALUES (0)"}

    outcomes, _ = await asyncio.gather(
        asyncio.gather(*[tool.run(a_call(config)) for _ in range(2)]),
        asyncio.gather(*[stored(sink, {"a": n}, f"job-{n}") for n in (1, 2)]),
    )
    await tool.close()

    assert [outcome.error for outcome in outcomes] == [None, None]
    assert found(tmp_path, "SELECT a FROM t ORDER BY a") == [(0,), (0,), (1,), (2,)]


@pytest.mark.parametrize(
    ("config", "data", "message"),
    [
        ({"table": "nix"}, {"a": 1}, "there is no table 'nix'; a sink does not make one"),
        ({}, {"a": 1, "y": 2}, "the table t has no column 'y'; it has a, b"),
        ({}, {"a": 1, "A": 2}, "two columns of the rows differ only in upper and lower case"),
        ({"mode": "upsert"}, {"a": 1}, "mode upsert needs a key"),
        ({"mode": "upsert", "key": "y"}, {"a": 1}, "the table t has no column 'y'; it has a, b"),
        ({"mode": "upsert", "key": "b"}, {"a": 1}, "the rows have no column 'b', which is a key; they have a"),
        ({}, {"a": "word"}, "Could not convert string 'word' to INT32"),
        ({}, [{"a": 1}, {"a": 1}], "duplicate key"),
        ({}, {}, "the rows have no columns"),
        ({"database": "b.duckdb"}, {"a": 1}, "there is no database file 'b.duckdb'"),
        ({"database": ":memory:"}, {"a": 1}, "a duckdb sink needs a database file"),
        ({"database": None}, {"a": 1}, "a duckdb sink needs a database file"),
        ({"database": "../a.duckdb"}, {"a": 1}, "leads out of the files root"),
        ({"database": "text.duckdb"}, {"a": 1}, "not a valid DuckDB database file"),
        ({"tabel": "t"}, {"a": 1}, "tabel: Extra inputs are not permitted"),
    ],
)
async def test_what_cannot_be_stored_is_refused_with_a_reason(
    sink: DuckdbSink, tmp_path: Path, config: dict[str, Any], data: Any, message: str
) -> None:
    made(tmp_path, "CREATE TABLE t (a INTEGER UNIQUE, b VARCHAR)")
    (tmp_path / "text.duckdb").write_text("x" * 5000, encoding="utf-8")

    problem = await refused(sink, data, **config)

    assert message in problem.message
    assert not problem.retryable
    assert found(tmp_path, "SELECT count(*) FROM t") == [(0,)]


async def test_a_refused_write_may_be_made_later(sink: DuckdbSink, tmp_path: Path) -> None:
    made(tmp_path, "CREATE TABLE t (a INTEGER CHECK (a < 10))")

    problem = await refused(sink, [{"a": 1}, {"a": 20}])
    written = await stored(sink, [{"a": 1}])

    assert (problem.code, problem.cause) == ("ConstraintException", "sql")
    assert written.repeated is False
    assert found(tmp_path, "SELECT a FROM t") == [(1,)]


async def test_hostile_values_are_stored_or_refused_and_never_changed_in_silence(
    sink: DuckdbSink, tmp_path: Path
) -> None:
    made(tmp_path, "CREATE TABLE t (s VARCHAR, d DOUBLE, h HUGEINT)")

    await stored(
        sink, [{"s": "a\0b", "d": float("nan"), "h": -(2**127)}, {"s": "\ud800", "d": float("inf"), "h": None}]
    )
    problem = await refused(sink, {"h": 2**200}, identity="job-2")

    there = found(tmp_path, "SELECT s, d::VARCHAR, h FROM t")
    assert there == [("a\0b", "nan", -(2**127)), ("\ufffd", "inf", None)]
    assert problem.code == "ConversionException"


async def test_the_database_may_be_named_by_a_credential(sink: DuckdbSink, tmp_path: Path) -> None:
    made(tmp_path, "CREATE TABLE t (a INTEGER)")

    await sink.write(a_write({"auth": "warehouse", "table": "t"}, {"a": 1}, lend=lending(database="a.duckdb")))

    assert found(tmp_path, "SELECT a FROM t") == [(1,)]


async def test_the_marker_forgets_what_cannot_come_again(sink: DuckdbSink, tmp_path: Path) -> None:
    made(tmp_path, "CREATE TABLE t (a INTEGER)")
    await stored(sink, {"a": 1}, "old")
    made(tmp_path, f"UPDATE {MARKER} SET written_at = written_at - INTERVAL 31 DAYS")
    await stored(sink, {"a": 2}, "new")

    assert found(tmp_path, f"SELECT identity FROM {MARKER}") == [("new",)]


@pytest.mark.parametrize("mode", ["append", "upsert"])
async def test_many_rows_need_little_memory_besides_their_own(sink: DuckdbSink, tmp_path: Path, mode: str) -> None:
    made(tmp_path, "CREATE TABLE t (id INTEGER, name VARCHAR, half DOUBLE, tags VARCHAR[])")
    rows = [{"id": number, "name": f"name {number}", "half": number / 2, "tags": ["a"]} for number in range(MANY)]
    total = sum(number / 2 for number in range(MANY))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    tracemalloc.start()
    try:
        written = await stored(sink, rows, mode=mode, key="id")
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024

    assert written.rows == MANY
    assert found(tmp_path, "SELECT count(*), sum(half) FROM t") == [(MANY, total)]
    # The rows alone take more than 40 MB.
    assert peak < 12 * 1024**2
    assert grown < 400 * 1024**2
