"""The `duckdb` tool in its real processes, in memory and on real files."""

from __future__ import annotations

import asyncio
import os
import sqlite3
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from services.worker.sinks.file_places import Places
from services.worker.tools.duckdb import DuckdbLimits, DuckdbTool
from shared.contracts.outcomes import Outcome
from tests.support.eventually import eventually
from tests.support.sink_process import lending
from tests.unit.worker.given import a_call

LONG = "SELECT count(*) FROM range(1000000) a, range(10000000) b WHERE (a.range * b.range) % 7 = 3"
HOLDER = "import duckdb, sys; held = duckdb.connect(sys.argv[1]); print('held', flush=True); sys.stdin.read()"


@pytest.fixture
async def free() -> AsyncIterator[DuckdbTool]:
    """Give a tool that has no root and may read what the user may."""
    free = DuckdbTool()
    yield free
    await free.close()


@pytest.fixture
async def tool(tmp_path: Path) -> AsyncIterator[DuckdbTool]:
    tool = DuckdbTool(Places(tmp_path))
    yield tool
    await tool.close()


async def ran(tool: DuckdbTool, command: str | None = None, **config: Any) -> Outcome:
    given = {"lend": config.pop("lend")} if "lend" in config else {}
    timeout_s = config.pop("timeout_s", 60.0)
    if command is not None:
        config["command"] = command
    return await tool.run(a_call(config, timeout_s=timeout_s, **given))


async def result(tool: DuckdbTool, command: str, **config: Any) -> Any:
    outcome = await ran(tool, command, **config)
    assert outcome.status == "success", outcome.error
    return outcome.result


async def error(tool: DuckdbTool, command: str | None = None, **config: Any) -> dict[str, Any]:
    outcome = await ran(tool, command, **config)
    assert outcome.error is not None, outcome.result
    return outcome.error


# --- results


async def test_the_rows_of_the_last_statement_that_returns_rows_are_the_result(tool: DuckdbTool) -> None:
    outcome = await ran(
        tool,
        "CREATE TABLE t (a INTEGER); INSERT INTO t VALUES (1), (2); SELECT a FROM t ORDER BY a; "
        "UPDATE t SET a = a + 1; SET threads = 1; CHECKPOINT; DROP TABLE t",
    )

    assert outcome.result == [{"a": 1}, {"a": 2}]
    assert outcome.extras["duckdb"] == {"row_count": 2, "changed": 4}


async def test_commands_may_be_one_text(tool: DuckdbTool) -> None:
    outcome = await ran(
        tool, commands="CREATE TABLE t AS SELECT range AS i FROM range(5);\nSELECT sum(i)::INT AS s FROM t;"
    )

    assert outcome.result == [{"s": 10}]


async def test_commands_run_in_order_and_returning_gives_rows(tool: DuckdbTool) -> None:
    outcome = await ran(
        tool, commands=["CREATE TABLE t (a INTEGER)", "INSERT INTO t VALUES (1), (2) RETURNING a * 2 AS double"]
    )

    assert outcome.result == [{"double": 2}, {"double": 4}]


async def test_statements_without_rows_give_an_empty_list(tool: DuckdbTool) -> None:
    assert await result(tool, "CREATE TABLE t AS SELECT 1; BEGIN; COMMIT") == []
    assert await result(tool, "SELECT 1 AS a WHERE false") == []


@pytest.mark.parametrize(
    ("sql", "value"),
    [
        ("1", 1),
        ("NULL", None),
        ("true", True),
        ("0.5::DOUBLE", 0.5),
        ("'nan'::DOUBLE", "NaN"),
        ("'-inf'::FLOAT", "-Infinity"),
        ("1.10::DECIMAL(10, 2)", 1.1),
        ("123456789012345678.91::DECIMAL(20, 2)", "123456789012345678.91"),
        ("12::DECIMAL(38, 0)", 12),
        ("170141183460469231731687303715884105727::HUGEINT", 2**127 - 1),
        ("DATE '2024-02-29'", "2024-02-29"),
        ("DATE '10000-01-01'", "10000-01-01"),
        ("TIMESTAMP '2024-02-29 12:00:00.5'", "2024-02-29T12:00:00.500000"),
        ("TIMESTAMP '10000-01-01 12:00:00'", "10000-01-01T12:00:00"),
        ("TIMESTAMPTZ '2024-02-29 12:00:00+02'", "2024-02-29T10:00:00+00:00"),
        ("[TIMESTAMPTZ '2024-02-29 12:00:00+02']", ["2024-02-29T10:00:00+00:00"]),
        ("TIME '12:30:00'", "12:30:00"),
        ("INTERVAL '2 days 3.5 seconds'", "P2DT3.5S"),
        ("INTERVAL '0 days'", "PT0S"),
        ("'a\\x00b'::BLOB", "YQBi"),
        ("[1, NULL, 3]", [1, None, 3]),
        ("{'a': 1, 'b': [DATE '2024-01-01']}", {"a": 1, "b": ["2024-01-01"]}),
        ("MAP {'k': 1.5::DECIMAL(3, 1)}", {"k": 1.5}),
        ("MAP {1: 'a'}", {"1": "a"}),
        ("[1, 2]::INTEGER[2]", [1, 2]),
        ("""'{"a": [1, null]}'::JSON""", {"a": [1, None]}),
        ("'00000000-0000-0000-0000-000000000001'::UUID", "00000000-0000-0000-0000-000000000001"),
        ("'a'::ENUM('a', 'b')", "a"),
        ("'nul' || chr(0)", "nul\0"),
        ("'ü 𝄞'", "ü 𝄞"),
    ],
)
async def test_values_are_json_and_exact(tool: DuckdbTool, sql: str, value: Any) -> None:
    assert await result(tool, f"SELECT {sql} AS v") == [{"v": value}]


async def test_columns_of_the_same_name_are_told_apart(tool: DuckdbTool) -> None:
    assert await result(tool, "SELECT 1 AS a, 2 AS a, 3 AS a_1, 4 AS a") == [{"a": 1, "a_1": 2, "a_1_1": 3, "a_2": 4}]


# --- parameters


async def test_parameters_are_a_list_or_a_mapping(tool: DuckdbTool) -> None:
    assert await result(tool, "SELECT ? + ? AS s", params=[1, 2]) == [{"s": 3}]
    assert await result(tool, "SELECT $2 AS s, $1 AS t", params=["a", "b'; DROP"]) == [{"s": "b'; DROP", "t": "a"}]
    several = "CREATE TABLE t AS SELECT $list AS l; SELECT l, $name AS n FROM t"
    assert await result(tool, several, params={"list": [1, 2], "name": None, "unused": 1}) == [{"l": [1, 2], "n": None}]


@pytest.mark.parametrize(
    ("sql", "params", "message"),
    [
        ("SELECT $a", {"b": 1}, "statement 1 needs the parameter $a, which params does not give"),
        ("SELECT 1; SELECT ?, ?", [1], "statement 2 needs the parameter $2, which params does not give"),
        ("SELECT ?", [1, 2], "params gives 2 values, but the statements use 1"),
        ("SELECT ?", [2**200], "too large for 128-bit"),
        ("SELECT ?", ["\ud800"], "surrogate"),
    ],
)
async def test_parameters_that_do_not_fit_are_named(tool: DuckdbTool, sql: str, params: Any, message: str) -> None:
    problem = await error(tool, sql, params=params)

    assert problem["kind"] == "sql"
    assert message in problem["message"]


# --- files


async def test_files_are_read_and_written_where_relative_paths_lead(tool: DuckdbTool, tmp_path: Path) -> None:
    (tmp_path / "in.csv").write_text("a,b\n1,x\n2,y\n", encoding="utf-8")
    (tmp_path / "in.jsonl").write_text('{"a": 1, "c": [1]}\n', encoding="utf-8")

    rows = await result(
        tool,
        "COPY (SELECT * FROM 'in.csv') TO 'out.parquet' (FORMAT parquet); COPY (SELECT 1 AS x) TO 'out.json'; "
        "SELECT a, b, c FROM read_parquet('out.parquet') JOIN read_json('in.jsonl') USING (a)",
    )

    assert rows == [{"a": 1, "b": "x", "c": [1]}]
    assert (tmp_path / "out.json").read_text(encoding="utf-8") == '{"x":1}\n'


async def test_a_database_file_keeps_what_is_stored(tool: DuckdbTool) -> None:
    await result(tool, "CREATE TABLE t AS SELECT 7 AS a", database="a.duckdb")

    assert await result(tool, "SELECT a FROM t", database="a.duckdb") == [{"a": 7}]
    assert await result(tool, "SELECT a FROM t", auth="warehouse", lend=lending(path="a.duckdb")) == [{"a": 7}]


async def test_databases_are_attached(tool: DuckdbTool) -> None:
    await result(tool, "CREATE TABLE t AS SELECT 7 AS a", database="a.duckdb")
    attach = [{"path": "a.duckdb", "as": "other one", "read_only": True}, {"database": "b.duckdb", "alias": "b"}]

    await result(tool, 'CREATE TABLE b.t AS SELECT a + 1 AS a FROM "other one".t', attach=attach)
    problem = await error(tool, 'DELETE FROM "other one".t', attach=attach)

    assert await result(tool, "FROM t", database="b.duckdb") == [{"a": 8}]
    assert "read-only" in problem["message"]


async def test_an_sqlite_file_is_attached_even_without_the_extension(tool: DuckdbTool, tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "a.sqlite") as database:
        database.execute("CREATE TABLE t (i INTEGER, r REAL, t TEXT, b BLOB, mixed)")
        database.execute("INSERT INTO t VALUES (1, 0.5, 'ü', x'00ff', 1), (NULL, 2, NULL, NULL, 'x')")
        database.executemany("INSERT INTO t (i) VALUES (?)", [[number] for number in range(2, 7_000)])
        database.execute("CREATE VIEW v AS SELECT sum(i) AS s FROM t")
    database.close()
    attach = [{"path": "a.sqlite", "as": "lite"}]

    rows = await result(tool, "SELECT * FROM lite.t WHERE r IS NOT NULL", attach=attach)
    total = await result(tool, "SELECT s FROM lite.v", attach=[{**attach[0], "type": "sqlite"}])
    problem = await error(tool, "DELETE FROM lite.t", attach=attach)

    assert rows == [
        {"i": 1, "r": 0.5, "t": "ü", "b": "AP8=", "mixed": "1"},
        {"i": None, "r": 2.0, "t": None, "b": None, "mixed": "x"},
    ]
    assert total == [{"s": sum(range(7_000))}]
    assert "read-only" in problem["message"]


async def test_a_server_needs_its_extension_and_its_address_is_never_shown(tool: DuckdbTool) -> None:
    lend = lending(kind="postgres", host="db.example", user="u", password="hunter2hunter2")
    outcome = await ran(tool, "SELECT 1", attach=[{"auth": "pg", "as": "pg"}], lend=lend)

    assert outcome.error is not None
    assert outcome.error["message"] == "the extension 'postgres' of DuckDB is not at hand on this worker"
    assert outcome.extras["duckdb"]["code"] == "MissingExtensionException"
    assert "hunter2" not in str(outcome)


async def test_sql_cannot_leave_a_root_that_is_set(tmp_path: Path) -> None:
    root = tmp_path / "root"
    root.mkdir()
    (tmp_path / "secret.csv").write_text("a\n1\n", encoding="utf-8")
    fenced = DuckdbTool(Places(root))

    for sql in (
        "FROM '../secret.csv'", f"FROM '{tmp_path}/secret.csv'", "SELECT * FROM read_text('/proc/self/environ')",
        f"COPY (SELECT 1) TO '{tmp_path}/new.csv'", f"ATTACH '{tmp_path}/new.duckdb'", "INSTALL httpfs",
    ):  # fmt: skip
        problem = await error(fenced, f"SET TimeZone = 'UTC'; {sql}")
        assert problem["code"] == "PermissionException", problem
    undone = await error(fenced, "SET enable_external_access = true")
    outside = await error(fenced, "SELECT 1", database="../a.duckdb")
    attached = await error(fenced, "SELECT 1", attach=[{"path": "/tmp/a.duckdb", "as": "a"}])
    inside = await result(fenced, "COPY (SELECT 1 AS a) TO 'in.csv'; FROM 'in.csv'", database="in.duckdb")
    await fenced.close()

    assert undone["code"] == "InvalidInputException"
    assert "leads out of the files root" in outside["message"]
    assert "leads out of the files root" in attached["message"]
    assert inside == [{"a": 1}]


# --- errors


@pytest.mark.parametrize(
    ("sql", "code", "statement"),
    [
        ("SELECT 1; SELECT * FROM nix", "CatalogException", 2),
        ("SELEC 1", "ParserException", None),
        ("SELECT 'x'::INTEGER", "ConversionException", 1),
        ("CREATE TABLE t (a INTEGER UNIQUE); INSERT INTO t VALUES (1), (1)", "ConstraintException", 2),
        ("SELECT * FROM 'no_such.csv'", "IOException", 1),
        ("BEGIN; CREATE TABLE t (a INTEGER)", "TransactionException", None),
    ],
)
async def test_an_error_has_the_name_of_duckdbs_exception(
    tool: DuckdbTool, sql: str, code: str, statement: int | None
) -> None:
    outcome = await ran(tool, sql)

    assert outcome.error is not None
    assert (outcome.error["kind"], outcome.error["code"], outcome.error["retryable"]) == ("sql", code, False)
    said = {"code": code} if statement is None else {"code": code, "statement": statement}
    assert outcome.extras["duckdb"] == said


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({}, "one of command and commands is needed"),
        ({"command": "SELECT 1", "commands": ["SELECT 1"]}, "one of command and commands is needed"),
        ({"command": " -- nothing"}, "there is no statement"),
        ({"command": "SELECT 1", "databse": "x"}, "databse: Extra inputs are not permitted"),
        ({"command": "SELECT 1", "params": "x"}, "params"),
        ({"command": "SELECT 1", "database": "a", "auth": "b"}, "either database or auth"),
        ({"command": "SELECT 1", "attach": [{"as": "x"}]}, "'x' needs either path or auth"),
        ({"command": "SELECT 1", "attach": [{"path": "x"}]}, "attach.0.as: Field required"),
        ({"command": "SELECT 1", "attach": [{"path": "x", "as": "x", "type": "a; b"}]}, "attach.0.type"),
        ({"command": "SELECT 1", "database": "a\0"}, "NUL"),
    ],
)
async def test_a_configuration_that_makes_no_sense_is_refused(
    tool: DuckdbTool, config: dict[str, Any], message: str
) -> None:
    assert message in (await error(tool, **config))["message"]


async def test_a_result_that_is_too_large_is_refused(tmp_path: Path) -> None:
    small = DuckdbTool(Places(tmp_path), DuckdbLimits(rows=10, result=1000))

    rows = await error(small, "SELECT * FROM range(11)")
    size = await error(small, "SELECT repeat('x', 1001) AS a")
    enough = await result(small, "SELECT * FROM range(10)")
    await small.close()

    assert (rows["kind"], rows["message"]) == (
        "limit", "the result is more than 10 rows; store it with COPY, or ask for less",
    )  # fmt: skip
    assert (size["kind"], "1000 bytes" in size["message"]) == ("limit", True)
    assert len(enough) == 10


async def test_memory_is_limited_even_against_the_sql() -> None:
    small = DuckdbTool(limits=DuckdbLimits(memory=64 * 1024**2, result=1024**2))

    told = await error(
        small, "SET temp_directory = ''; CREATE TABLE t AS SELECT range, random() AS r FROM range(20000000)"
    )
    forced = await error(small, "SET memory_limit = '50GB'; SELECT list(range) AS l FROM range(200000000)")
    await small.close()

    assert (told["kind"], told["code"]) == ("limit", "OutOfMemoryException")
    assert forced["kind"] == "limit"


async def test_the_sql_sees_nothing_of_the_workers_environment(
    free: DuckdbTool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REDRIVE_WORKER_TOKEN", "hunter2hunter2")

    found = await result(free, "SELECT content FROM read_text('/proc/self/environ')")

    assert "PATH=" in found[0]["content"]
    assert "hunter2" not in found[0]["content"]


async def test_no_extension_is_fetched_by_itself(free: DuckdbTool) -> None:
    loaded = await error(free, "LOAD httpfs")
    needed = await error(free, "SELECT * FROM read_csv('http://127.0.0.1:9/a.csv')")

    assert (loaded["kind"], loaded["code"]) == ("sql", "IOException")
    assert needed["code"] == "MissingExtensionException"


# --- time and turns


async def test_sql_that_takes_too_long_is_ended(tool: DuckdbTool, tmp_path: Path) -> None:
    problem = await error(tool, f"CREATE TABLE t (a INTEGER); {LONG}", database="a.duckdb", timeout_s=2.0)

    assert (problem["kind"], problem["retryable"]) == ("timeout", True)
    assert problem["message"] == "timeout: the SQL ran longer than 2 s"
    assert await result(tool, "SELECT 1 AS a", database="a.duckdb") == [{"a": 1}]


async def test_cancelled_sql_leaves_no_process_and_no_lock(tool: DuckdbTool, tmp_path: Path) -> None:
    task = asyncio.create_task(ran(tool, f"CREATE TABLE t (a INTEGER); {LONG}", database="a.duckdb", timeout_s=None))

    async def is_under_way() -> bool:
        return (tmp_path / "a.duckdb").exists()

    await eventually(is_under_way, 30.0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task

    assert processes_with(str(tmp_path)) == []
    assert await result(tool, "SELECT 1 AS a", database="a.duckdb") == [{"a": 1}]


def processes_with(folder: str) -> list[int]:
    """Return the processes of the tool that work in a folder."""
    out = []
    for each in Path("/proc").iterdir():
        try:
            if each.name.isdigit() and os.readlink(each / "cwd") == folder:
                out.append(int(each.name))
        except OSError:
            continue
    return out


async def test_the_event_loop_goes_on_meanwhile(tool: DuckdbTool) -> None:
    turns = 0

    async def count() -> None:
        nonlocal turns
        while True:
            await asyncio.sleep(0)
            turns += 1

    counting = asyncio.create_task(count())
    await ran(tool, LONG, timeout_s=0.5)
    counting.cancel()

    assert turns > 100


async def test_tasks_of_one_worker_take_turns_at_a_file(tool: DuckdbTool) -> None:
    await result(tool, "CREATE TABLE t (a INTEGER)", database="a.duckdb")
    insert = "INSERT INTO t VALUES ($n)"
    attached = [{"path": "a.duckdb", "as": "a"}]

    outcomes = await asyncio.gather(
        *[ran(tool, insert, database="a.duckdb", params={"n": number}) for number in range(3)],
        ran(tool, "INSERT INTO a.t VALUES (3)", attach=attached),
    )

    assert [outcome.error for outcome in outcomes] == [None] * 4
    assert await result(tool, "SELECT count(*) AS n FROM t", database="a.duckdb") == [{"n": 4}]


async def test_a_file_that_another_process_holds_is_to_be_tried_again(
    tool: DuckdbTool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("services.worker.tools.duckdb.WAIT_S", 0.1)
    holder = await asyncio.create_subprocess_exec(
        sys.executable, "-c", HOLDER, str(tmp_path / "a.duckdb"),
        stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE,
    )  # fmt: skip
    assert holder.stdout is not None
    assert await holder.stdout.readline() == b"held\n"

    opened = await error(tool, "SELECT 1", database="a.duckdb")
    attached = await error(tool, "SELECT 1", attach=[{"path": "a.duckdb", "as": "a"}])
    in_sql = await error(tool, "ATTACH 'a.duckdb'")
    await holder.communicate(b"")

    for problem in (opened, attached, in_sql):
        assert (problem["kind"], problem["retryable"]) == ("connection", True)
        assert problem["message"] == "the database file 'a.duckdb' is in use by another process"
