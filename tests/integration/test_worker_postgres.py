"""The `postgres` tool against a real server."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from services.worker.keychain import Credential
from services.worker.tools.port import Call
from services.worker.tools.postgres import PostgresTool
from services.worker.tools.postgres_pools import Pools
from services.worker.tools.postgres_running import Reading
from shared.contracts.outcomes import Outcome
from shared.store.connecting import driver_url
from tests.support.eventually import eventually
from tests.support.postgres import connect, execute, fetch
from tests.unit.worker.given import a_call

pytest_plugins = ("tests.support.stores",)


@pytest.fixture
async def tool() -> AsyncIterator[PostgresTool]:
    tool = PostgresTool()
    yield tool
    await tool.close()


@pytest.fixture
def url(empty_database: str) -> str:
    return empty_database


async def called(tool: PostgresTool, url: str, command: Any = None, **more: Any) -> Outcome:
    call = {name: more.pop(name) for name in ("timeout_s", "lend") if name in more}
    config = {"command": command, **more} if command is not None else more
    return await tool.run(a_call({"dsn": url, **config}, **call))


async def ran(tool: PostgresTool, url: str, command: Any = None, **more: Any) -> Any:
    outcome = await called(tool, url, command, **more)
    assert outcome.status == "success", outcome.error
    return outcome.result


async def failed(tool: PostgresTool, url: str, command: Any = None, **more: Any) -> dict[str, Any]:
    outcome = await called(tool, url, command, **more)
    assert outcome.status == "error", outcome.result
    assert outcome.error is not None
    return outcome.error


async def value(tool: PostgresTool, url: str, expression: str, **more: Any) -> Any:
    return await ran(tool, url, f"SELECT {expression}", fetch="value", **more)


async def test_a_query_gives_its_rows_and_their_count(tool: PostgresTool, url: str) -> None:
    outcome = await called(tool, url, "SELECT n, n * n AS square FROM generate_series(1, 2) n")

    rows = [{"n": 1, "square": 1}, {"n": 2, "square": 4}]
    assert outcome.result == {"rows": rows, "row_count": 2, "command_0": {"rows": rows, "row_count": 2}}
    assert outcome.extras == {"pg": {"code": "00000", "row_count": 2, "command": "SELECT"}}


async def test_several_statements_each_have_their_place_in_the_result(tool: PostgresTool, url: str) -> None:
    text = """
        CREATE TABLE t (id int, says text); -- a comment; with a semicolon
        INSERT INTO t VALUES (1, 'a;b'), (2, $$c;d$$);
        SELECT says FROM t ORDER BY id;
        /* the /* last */ ; one */ UPDATE t SET says = 'x' WHERE id = 2;
    """
    result = await ran(tool, url, text)

    assert result["command_1"] == {"rows": [], "row_count": 2}
    assert result["command_2"] == {"rows": [{"says": "a;b"}, {"says": "c;d"}], "row_count": 2}
    assert result["command_3"] == {"rows": [], "row_count": 1}
    assert result["rows"] == [{"says": "a;b"}, {"says": "c;d"}]
    assert "command_4" not in result


async def test_commands_run_in_order_and_share_numbered_parameters(tool: PostgresTool, url: str) -> None:
    commands = [
        "CREATE TABLE t (id int, says text)",
        "INSERT INTO t VALUES ($2, $1)",
        "UPDATE t SET id = id + $3 WHERE says = $1",
        "SELECT * FROM t",
    ]
    result = await ran(tool, url, commands=commands, params=["hello", 4, 5])

    assert result["rows"] == [{"id": 9, "says": "hello"}]


@pytest.mark.parametrize(
    ("fetch", "expected"),
    [("one", {"n": 1, "m": 5}), ("value", 1), ("none", None)],
)
async def test_fetch_says_what_becomes_the_result(tool: PostgresTool, url: str, fetch: str, expected: Any) -> None:
    outcome = await called(tool, url, "SELECT n, 5 AS m FROM generate_series(1, 50) n", fetch=fetch)

    assert outcome.status == "success"
    assert outcome.result == expected


async def test_fetching_one_of_no_rows_gives_null(tool: PostgresTool, url: str) -> None:
    assert await ran(tool, url, "SELECT 1 WHERE false", fetch="one") is None
    assert await value(tool, url, "1 WHERE false") is None
    assert await ran(tool, url, "CREATE TABLE t ()", fetch="one") is None


async def test_fetching_nothing_runs_the_statement_to_its_end(tool: PostgresTool, url: str) -> None:
    await ran(tool, url, "CREATE SEQUENCE s")
    outcome = await called(tool, url, "SELECT nextval('s') FROM generate_series(1, 5000)", fetch="none")

    assert outcome.extras["pg"]["row_count"] == 5000
    assert await value(tool, url, "nextval('s')") == 5001


async def test_named_parameters_are_bound_outside_quotes_comments_casts_and_slices(
    tool: PostgresTool, url: str
) -> None:
    text = """
        SELECT :name AS a, %(name)s AS b, ':name' AS c, $q$ :name $q$ AS d, :n::int + :n AS e,
               (ARRAY[1,2,3])[2:3] AS f, '12:30'::time AS g /* :none */ -- :none
    """
    result = await ran(tool, url, text, params={"name": "O'Hara; DROP TABLE t", "n": 2, "unused": 1}, fetch="one")

    assert result == {
        "a": "O'Hara; DROP TABLE t", "b": "O'Hara; DROP TABLE t", "c": ":name", "d": " :name ", "e": 4,
        "f": [2, 3], "g": "12:30:00",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("config", "said"),
    [
        ({"command": "SELECT :a", "params": {"b": 1}}, "names the parameter 'a', which params does not have"),
        ({"command": "SELECT $2", "params": [1]}, "uses $2, but params has 1 values"),
        ({"command": "SELECT $1", "params": {"a": 1}}, "params is a mapping, so $1 stands for nothing"),
        ({"command": "SELECT 1", "params": [1]}, "params has 1 values, the statements use 0 of them"),
        ({"command": "SELECT 'a"}, "a quote that opens in line 1 is never closed"),
        ({"command": "SELECT 1;\n /* x"}, "a comment that opens in line 2 is never closed"),
        ({"command": "SELECT $a$ x"}, "a quote that opens with $a$ in line 1 is never closed"),
        ({"command": " ; -- nothing\n"}, "0 statements"),
        ({"command": "SELECT 1\0; DROP TABLE t"}, "a NUL character"),
        ({"commands": ["SELECT 1", "SELECT '\ud800'"]}, "half of a surrogate pair"),
        ({"command": "COPY t FROM STDIN"}, "COPY from STDIN"),
        ({"command": "SELECT 1", "commands": ["SELECT 1"]}, "either command or commands"),
        ({"command": "SELECT 1", "fetch": "all"}, "fetch:"),
        ({"command": "SELECT 1", "auth": "pg"}, "either auth or dsn"),
        ({"command": "SELECT 1", "params": "x"}, "params"),
        ({"command": "SELECT 1", "nonsense": 1}, "nonsense"),
    ],
)
async def test_a_configuration_that_makes_no_sense_is_refused_before_anything_runs(
    tool: PostgresTool, url: str, config: dict[str, Any], said: str
) -> None:
    error = await failed(tool, url, **config)

    assert error["kind"] == "expression"
    assert said in error["message"]
    assert tool._pools.count == 0


@pytest.mark.parametrize(
    ("kind", "given", "expected"),
    [
        ("int4", "42", 42),
        ("int8", -(2**63), -(2**63)),
        ("int2", 7.0, 7),
        ("bool", "yes", True),
        ("bool", 0, False),
        ("float8", "NaN", "NaN"),
        ("float8", "-Infinity", "-Infinity"),
        ("float8", 1, 1.0),
        ("numeric", "1.10", 1.1),
        ("numeric", 0.1, 0.1),
        ("numeric", 10**18, 10**18),
        ("numeric", 10**30, "1" + "0" * 30),
        ("numeric", "0.12345678901234567890123", "0.12345678901234567890123"),
        ("numeric", "NaN", "NaN"),
        ("numeric", "-1.5e3", -1500),
        ("text", 5, "5"),
        ("text", True, "true"),
        ("text", {"a": [1]}, '{"a":[1]}'),
        ("varchar(3)", "äöü", "äöü"),
        ('"char"', "x", "x"),
        ("bytea", "aGk=", "aGk="),
        ("bytea", "\\x6869", "aGk="),
        ("date", "2024-02-29", "2024-02-29"),
        ("date", "2024-02-29T23:59:00Z", "2024-02-29"),
        ("date", "infinity", "infinity"),
        ("date", "12024-01-31", "12024-01-31"),
        ("date", "0044-03-15 BC", "0044-03-15 BC"),
        ("timestamp", "2024-05-17T08:30:00.25", "2024-05-17T08:30:00.250000"),
        ("timestamp", "-infinity", "-infinity"),
        ("timestamptz", "2024-05-17T08:30:00+02:00", "2024-05-17T06:30:00+00:00"),
        ("timestamptz", "2024-05-17 08:30", "2024-05-17T08:30:00+00:00"),
        ("timestamptz", "20240-05-17T08:30:00Z", "20240-05-17T08:30:00+00:00"),
        ("time", "24:00:00", "24:00:00"),
        ("timetz", "08:30:00-05:30", "08:30:00-05:30"),
        ("interval", "1 year 2 mons -3 days 04:05:06.5", "P1Y2M-3DT4H5M6.5S"),
        ("interval", "P1DT2H", "P1DT2H"),
        ("interval", 90, "PT1M30S"),
        ("interval", "-00:00:01", "PT-1S"),
        ("uuid", "A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11", "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"),
        ("jsonb", {"a": [1, None, "x"]}, {"a": [1, None, "x"]}),
        ("jsonb", "{", "{"),
        ("json", [1.5, True], [1.5, True]),
        ("inet", "10.0.0.1/8", "10.0.0.1/8"),
        ("inet", "::1", "::1"),
        ("cidr", "10.0.0.0/8", "10.0.0.0/8"),
        ("macaddr", "08:00:2b:01:02:03", "08:00:2b:01:02:03"),
        ("bit(3)", "101", "101"),
        ("int4[]", [1, None, "3"], [1, None, 3]),
        ("text[]", [["a", "b"], ["c,", '"d']], [["a", "b"], ["c,", '"d']]),
        ("timestamptz[]", ["2024-01-01T00:00:00Z"], ["2024-01-01T00:00:00+00:00"]),
        ("jsonb[]", [{"a": 1}, None], [{"a": 1}, None]),
        ("int4range", "[1,5)", "[1,5)"),
        ("daterange", '["2024-01-01",)', "[2024-01-01,)"),
        ("tstzrange", "empty", "empty"),
        ("int4multirange", ["[1,3)", "[5,6)"], ["[1,3)", "[5,6)"]),
        ("tsvector", "'a' 'b'", "'a' 'b'"),
        ("mood", "happy", "happy"),
        ("mood[]", ["happy", "sad"], ["happy", "sad"]),
        ("positive", "3", 3),
    ],
)
async def test_a_parameter_becomes_what_its_place_takes_and_comes_back_as_json(
    tool: PostgresTool, url: str, kind: str, given: Any, expected: Any
) -> None:
    types = "CREATE TYPE mood AS ENUM ('happy', 'sad'); CREATE DOMAIN positive AS int CHECK (value > 0)"
    await ran(tool, url, types)

    found = await value(tool, url, f"$1::{kind}", params=[given])

    assert found == expected
    assert type(found) is type(expected)
    assert await value(tool, url, f"$1::{kind}", params=[None]) is None


@pytest.mark.parametrize(
    ("kind", "given", "said"),
    [
        ("int4", 2**31, "out of range"),
        ("int8", 10**30, "out of range"),
        ("int4", "four", "no whole number"),
        ("int4", True, "no whole number"),
        ("int4", 1.5, "no whole number"),
        ("float8", float("nan"), "no number that JSON has"),
        ("float8", 10**400, "out of range"),
        ("numeric", float("inf"), "no number that JSON has"),
        ("numeric", "1e200000", "more than 131072 digits"),
        ("numeric", "one", "no number"),
        ("bool", "perhaps", "neither true nor false"),
        ("text", "a\0b", "NUL character"),
        ("text", "a\ud800b", "surrogate"),
        ("jsonb", {"a": ["\0"]}, "NUL character"),
        ("jsonb", {"a": float("nan")}, "no JSON"),
        ("jsonb", {"\udfff": 1}, "surrogate"),
        ("text[]", ["ok", "a\0b"], "NUL character"),
        ("text[]", "{a}", "no list"),
        ("date", "2023-02-29", "form of a date"),
        ("date", 5, "form of a date"),
        ("timestamptz", "tomorrow", "form of a time"),
        ("interval", "5 moons", "form of an interval"),
        ("uuid", "x", "form of a UUID"),
        ("bytea", "ä", "neither base64"),
        ("int4range", "1-5", "no range"),
        ("pair", "(1,2)", "pass a text and cast it"),
        ("point", "(1,2)", "pass a text and cast it"),
    ],
)
async def test_a_parameter_that_does_not_fit_is_named_and_its_value_is_not(
    tool: PostgresTool, url: str, kind: str, given: Any, said: str
) -> None:
    await ran(tool, url, "CREATE TYPE pair AS (a int, b int)")

    error = await failed(tool, url, f"SELECT :wanted::{kind}", params={"wanted": given})

    assert error["kind"] == "sql"
    assert error["retryable"] is False
    assert "the parameter 'wanted'" in error["message"]
    assert said in error["message"]
    assert not isinstance(given, str) or given not in error["message"]
    assert await value(tool, url, "1") == 1


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("'infinity'::timestamptz", "infinity"),
        ("'294276-12-31 23:59:59.999999+00'::timestamptz", "294276-12-31T23:59:59.999999+00:00"),
        ("'4713-01-01 BC'::date", "4713-01-01 BC"),
        ("'5874897-12-31'::date", "5874897-12-31"),
        ("1.10::numeric(10,2)", 1.1),
        ("sum(x) FROM (VALUES (9007199254740993::int8)) v(x)", 9007199254740993),
        ("'[1e400, 1e2, 0.1, 12345678901234567890]'::jsonb", [10**400, 100, 0.1, 12345678901234567890]),
        ("'[1e400, 1e2]'::json", ["1e400", 100.0]),
        ("'null'::jsonb", None),
        ("row(1, 'a')", [1, "a"]),
        ("row(1, '2024-01-01')::dated", {"x": 1, "day": "2024-01-01"}),
        ("ARRAY[row(1, '2024-01-01')::dated]", [{"x": 1, "day": "2024-01-01"}]),
        ("point(1,2)", [1.0, 2.0]),
        ("circle '((1,2),3)'", [[1.0, 2.0], 3.0]),
        ("'12.30'::money", "$12.30"),
        ("pg_sleep(0)", None),
        ("numrange(1.5, NULL, '[]')", "[1.5,)"),
        ("'-infinity'::float4", "-Infinity"),
        ("relkind FROM pg_class WHERE relname = 'pg_class'", "r"),
        ("'pg_class'::regclass", "pg_class"),
        ("interval '0'", "PT0S"),
    ],
)
async def test_every_type_comes_back_as_json(tool: PostgresTool, url: str, expression: str, expected: Any) -> None:
    await ran(tool, url, "CREATE TYPE dated AS (x int, day date)")

    found = await value(tool, url, expression)

    assert found == expected


async def test_a_column_that_occurs_twice_is_noted(tool: PostgresTool, url: str) -> None:
    outcome = await called(tool, url, "SELECT 1 AS a, 2 AS a, 3 AS b")

    assert outcome.result["rows"] == [{"a": 2, "b": 3}]
    assert outcome.meta["notes"] == ["columns that occur twice, of which the last is kept: a"]


async def test_all_statements_of_a_task_are_one_transaction(tool: PostgresTool, url: str) -> None:
    await ran(tool, url, "CREATE TABLE t (id int PRIMARY KEY)")
    error = await failed(tool, url, "INSERT INTO t VALUES (1); INSERT INTO t VALUES (2); INSERT INTO t VALUES (1)")

    assert (error["kind"], error["code"], error["retryable"]) == ("sql", "23505", False)
    assert error["details"] == {"constraint": "t_pkey", "table": "t", "statement": 2}
    assert await value(tool, url, "count(*) FROM t") == 0


async def test_a_constraint_that_is_checked_at_the_end_fails_the_task(tool: PostgresTool, url: str) -> None:
    await ran(tool, url, "CREATE TABLE t (id int UNIQUE DEFERRABLE INITIALLY DEFERRED)")
    error = await failed(tool, url, "INSERT INTO t VALUES (1); INSERT INTO t VALUES (1)")

    assert error["code"] == "23505"
    assert await value(tool, url, "count(*) FROM t") == 0


async def test_a_text_may_begin_and_end_transactions_itself(tool: PostgresTool, url: str) -> None:
    text = """
        CREATE TABLE t (id int);
        BEGIN; INSERT INTO t VALUES (1); SELECT count(*) AS n FROM t; COMMIT;
        BEGIN; SAVEPOINT s; INSERT INTO t VALUES (2); ROLLBACK TO s; INSERT INTO t VALUES (3); END;
        START TRANSACTION; INSERT INTO t VALUES (4); ROLLBACK;
        VACUUM t;
        SELECT array_agg(id ORDER BY id) AS ids FROM t
    """
    result = await ran(tool, url, text)

    assert result["rows"] == [{"ids": [1, 3]}]
    assert result["command_3"]["rows"] == [{"n": 1}]


async def test_a_transaction_that_is_begun_and_not_ended_is_rolled_back_and_said(tool: PostgresTool, url: str) -> None:
    await ran(tool, url, "CREATE TABLE t (id int)")
    error = await failed(tool, url, "BEGIN; INSERT INTO t VALUES (1)")

    assert "do not end" in error["message"]
    assert await value(tool, url, "count(*) FROM t") == 0


@pytest.mark.parametrize(
    "statement",
    ["VACUUM t", "CREATE INDEX CONCURRENTLY ON t (id)", "CALL commits()", "REINDEX TABLE CONCURRENTLY t"],
)
async def test_a_statement_that_bears_no_transaction_runs_alone(tool: PostgresTool, url: str, statement: str) -> None:
    body = "BEGIN INSERT INTO t VALUES (7); COMMIT; END"
    await ran(tool, url, f"CREATE TABLE t (id int); CREATE PROCEDURE commits() LANGUAGE plpgsql AS $$ {body} $$")

    assert (await called(tool, url, statement)).status == "success"
    assert await value(tool, url, "count(*) FROM t") == (1 if "CALL" in statement else 0)
    among_others = await failed(tool, url, f"SELECT 1; {statement}")
    assert among_others["code"] in ("25001", "2D000")


async def test_the_body_of_a_routine_is_one_statement(tool: PostgresTool, url: str) -> None:
    text = """
        CREATE FUNCTION f(n int) RETURNS int LANGUAGE sql BEGIN ATOMIC
            SELECT 1; SELECT CASE WHEN n > 1 THEN 2 ELSE 3 END; END;
        CREATE TABLE t (id int); CREATE TABLE log (id int);
        CREATE RULE r AS ON DELETE TO t DO ALSO (INSERT INTO log VALUES (1); INSERT INTO log VALUES (2));
        SELECT f(2);
    """
    assert (await ran(tool, url, text))["rows"] == [{"f": 2}]


async def test_the_isolation_can_be_chosen_by_the_first_statement(tool: PostgresTool, url: str) -> None:
    text = "SET TRANSACTION ISOLATION LEVEL SERIALIZABLE; SELECT current_setting('transaction_isolation') AS level"

    assert (await ran(tool, url, text))["rows"] == [{"level": "serializable"}]


async def test_sql_can_read_which_job_runs_it(tool: PostgresTool, url: str) -> None:
    text = """SELECT current_setting('redrive.job_id') AS job, current_setting('redrive.execution_id') AS execution,
              application_name FROM pg_stat_activity WHERE pid = pg_backend_pid()"""

    found = await ran(tool, url, text, fetch="one")

    assert found == {"job": "job-1", "execution": "e1", "application_name": "redrive job-1"}


async def test_nothing_of_a_job_is_left_on_its_connection(tool: PostgresTool, url: str) -> None:
    pid = await value(tool, url, "pg_backend_pid()")
    text = """
        BEGIN; CREATE TEMP TABLE left_over (id int); SELECT pg_advisory_lock(7); SET timezone = 'Asia/Tokyo';
        SET ROLE pg_monitor; COMMIT
    """
    await ran(tool, url, text)
    found = await ran(
        tool, url,
        "SELECT pg_backend_pid() AS pid, current_setting('timezone') AS zone, to_regclass('left_over') AS left_over, "
        "(SELECT count(*) FROM pg_locks WHERE locktype = 'advisory') AS locks, "
        "current_user::text AS name", fetch="one",
    )  # fmt: skip

    assert found == {"pid": pid, "zone": "UTC", "left_over": None, "locks": 0, "name": "redrive"}


async def test_a_serialization_failure_is_worth_another_try(tool: PostgresTool, url: str) -> None:
    await execute(url, "CREATE TABLE t (id int, n int)")
    await execute(url, "INSERT INTO t VALUES (1, 0)")
    text = """
        SET TRANSACTION ISOLATION LEVEL REPEATABLE READ;
        SELECT n FROM t; SELECT pg_advisory_lock(1); UPDATE t SET n = n + 1
    """
    other = await connect(url)
    try:
        await other.execute("SELECT pg_advisory_lock(1)")
        task = asyncio.create_task(called(tool, url, text))
        await waiting_for_a_lock(url)
        await other.execute("UPDATE t SET n = 5")
        await other.execute("SELECT pg_advisory_unlock(1)")
        outcome = await task
    finally:
        await other.close()

    assert outcome.error is not None
    assert (outcome.error["kind"], outcome.error["code"], outcome.error["retryable"]) == ("sql", "40001", True)
    assert outcome.extras["pg"] == {"code": "40001", "row_count": 0, "command": "UPDATE"}


async def waiting_for_a_lock(url: str) -> None:
    async def look() -> bool:
        return bool(await fetch(url, "SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock'"))

    await eventually(look)


async def test_a_deadlock_is_worth_another_try(tool: PostgresTool, url: str) -> None:
    await execute(url, "CREATE TABLE t (id int PRIMARY KEY, n int)")
    await execute(url, "INSERT INTO t VALUES (1, 0), (2, 0)")
    other = await connect(url)
    try:
        await other.execute("BEGIN; SET LOCAL deadlock_timeout = '60s'; UPDATE t SET n = 1 WHERE id = 2")
        text = "SET LOCAL deadlock_timeout = '10ms'; UPDATE t SET n = 2 WHERE id = 1; SELECT pg_sleep(0.2);"
        task = asyncio.create_task(called(tool, url, f"{text} UPDATE t SET n = 2 WHERE id = 2"))

        async def has_first() -> bool:
            return bool(await fetch(url, "SELECT 1 FROM pg_stat_activity WHERE query LIKE 'SELECT pg_sleep%'"))

        await eventually(has_first)
        blocked = asyncio.create_task(other.execute("UPDATE t SET n = 1 WHERE id = 1"))
        outcome = await task
        await blocked
    finally:
        await other.close()

    assert outcome.error is not None
    assert (outcome.error["kind"], outcome.error["code"], outcome.error["retryable"]) == ("sql", "40P01", True)


async def activity(url: str) -> list[Any]:
    return await fetch(url, "SELECT pid FROM pg_stat_activity WHERE query LIKE '%pg_sleep(60)%' AND state = 'active' "
                            "AND pid <> pg_backend_pid()")  # fmt: skip


async def test_a_statement_that_takes_too_long_is_cancelled_on_the_server(tool: PostgresTool, url: str) -> None:
    task = asyncio.create_task(called(tool, url, "SELECT pg_sleep(60)", timeout_s=1.0))
    await eventually(lambda: activity(url))
    outcome = await task

    assert outcome.error is not None
    assert (outcome.error["kind"], outcome.error["retryable"]) == ("timeout", True)
    assert outcome.error["message"] == "timeout: the statements took longer than 1 s"

    async def is_over() -> bool:
        return not await activity(url)

    await eventually(is_over)
    assert await value(tool, url, "1") == 1


async def test_a_call_that_is_cancelled_leaves_nothing_running(tool: PostgresTool, url: str) -> None:
    task = asyncio.create_task(called(tool, url, "CREATE TABLE t (); SELECT pg_sleep(60)"))
    await eventually(lambda: activity(url))
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task

    assert await activity(url) == []
    assert await value(tool, url, "to_regclass('t')") is None


async def test_one_statement_may_have_a_limit_of_its_own(tool: PostgresTool, url: str) -> None:
    error = await failed(tool, url, "SELECT pg_sleep(60)", timeout={"read": "50ms"})

    assert (error["kind"], error["code"], error["retryable"]) == ("timeout", "57014", True)


async def test_rows_beyond_the_limit_are_an_error_and_not_held(url: str) -> None:
    tool = PostgresTool(Reading(max_rows=100, max_bytes=10_000))
    try:
        many = await failed(tool, url, "SELECT n FROM generate_series(1, 1000000) n")
        large = await failed(tool, url, "SELECT repeat('x', 1000) FROM generate_series(1, 50)")
        both = await failed(tool, url, "SELECT n FROM generate_series(1,60) n; SELECT n FROM generate_series(1,60) n")
        assert await value(tool, url, "1") == 1
    finally:
        await tool.close()

    assert (many["kind"], many["message"]) == ("limit", "the statements give more than 100 rows")
    assert (large["kind"], large["message"]) == ("limit", "the rows are larger than 10000 bytes")
    assert both["kind"] == "limit"


async def test_json_that_nests_too_deeply_is_an_error_and_the_connection_lives(tool: PostgresTool, url: str) -> None:
    deep = "(repeat('[', 5000) || repeat(']', 5000))::json"
    error = await failed(tool, url, f"SELECT {deep}")

    assert error["kind"] == "limit"
    assert await value(tool, url, "1") == 1


async def test_what_a_message_quotes_of_a_parameter_is_left_out(tool: PostgresTool, url: str) -> None:
    error = await failed(tool, url, "SELECT $1::text::int", params=["hunter2"])

    assert error["code"] == "22P02"
    assert error["message"] == 'invalid input syntax for type integer: "…"'


@pytest.mark.parametrize(
    ("dsn", "kind", "retryable"),
    [
        ("postgresql://u:hunter2@127.0.0.1:1/x", "connection", True),
        ("postgresql://u:hunter2@/x", "auth", False),
        ("mysql://u:hunter2@127.0.0.1/x", "auth", False),
        ("postgresql://u:hunter2@127.0.0.1:abc/x", "auth", False),
        ("postgresql://u:hunter2@127.0.0.1:1/x?sslmode=perhaps", "auth", False),
        ("hunter2", "auth", False),
    ],
)
async def test_an_address_that_leads_nowhere_is_said_without_its_secrets(
    tool: PostgresTool, dsn: str, kind: str, retryable: bool
) -> None:
    error = await failed(tool, dsn, "SELECT 1")

    assert (error["kind"], error["retryable"]) == (kind, retryable)
    assert "hunter2" not in str(error)


async def test_a_database_that_does_not_exist_and_a_role_that_may_not_enter(tool: PostgresTool, url: str) -> None:
    await execute(url, "CREATE ROLE outsider NOLOGIN")
    try:
        missing = await failed(tool, url.replace(str(driver_url(url).database), "nowhere"), "SELECT 1")
        shut_out = await failed(tool, url.replace("redrive@", "outsider@"), "SELECT 1")
    finally:
        await execute(url, "DROP ROLE outsider")

    assert (missing["kind"], missing["code"], missing["retryable"]) == ("sql", "3D000", False)
    assert (shut_out["kind"], shut_out["code"], shut_out["retryable"]) == ("auth", "28000", False)


def lending(kind: str, **fields: Any) -> Any:
    async def lend(auth: Any) -> Credential:
        return Credential(str(auth), kind, fields)

    return lend


async def with_credential(tool: PostgresTool, lend: Any) -> Outcome:
    return await tool.run(a_call({"auth": "pg", "command": "SELECT current_setting('search_path') AS x"}, lend=lend))


async def test_a_credential_says_where_the_database_is_in_one_or_in_parts(tool: PostgresTool, url: str) -> None:
    found = driver_url(url)
    parts = {
        "host": found.query["host"], "port": str(found.port), "database": found.database, "user": found.username,
        "password": "", "sslmode": "disable",
    }  # fmt: skip

    by_dsn = await with_credential(tool, lending("postgres", dsn=url))
    by_parts = await with_credential(tool, lending("postgres", **parts, options={"search_path": "a"}))
    by_text = await with_credential(tool, lending("postgres", **parts, options="-c search_path=b"))

    assert [each.result["rows"][0]["x"] for each in (by_dsn, by_parts, by_text)] == ['"$user", public', "a", "b"]


@pytest.mark.parametrize(
    ("lend", "said"),
    [
        (lending("bearer", token="s3cret"), "'pg' is of kind bearer, not postgres"),
        (lending("postgres", host="h"), "'pg': it has no user"),
        (lending("postgres", host="h", user="u", hots="s3cret"), "'pg' has a field 'hots'"),
        (lending("postgres", host="h", user="u", port="s3cret"), "'pg': port is no port"),
        (lending("postgres", host="h", user="u", sslmode="s3cret"), "'pg': sslmode is one of"),
        (lending("postgres", dsn="s3cret"), "'pg': the dsn begins with none of"),
    ],
)
async def test_a_credential_that_cannot_be_used_is_named_and_not_shown(
    tool: PostgresTool, lend: Any, said: str
) -> None:
    outcome = await with_credential(tool, lend)

    assert outcome.error is not None
    assert outcome.error["kind"] == "auth"
    assert said in outcome.error["message"]
    assert "s3cret" not in str(outcome.error)


async def test_the_password_of_the_workers_surroundings_is_never_sent(
    tool: PostgresTool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PGPASSWORD", "the-workers-own")
    heard: list[bytes] = []

    async def ask_for_a_password(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        startup = await reader.read(1000)
        if len(startup) == 8:
            writer.write(b"N")
            await reader.read(1000)
        writer.write(b"R\0\0\0\x08\0\0\0\x03")
        heard.append(await reader.read(1000))
        writer.close()

    server = await asyncio.start_server(ask_for_a_password, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    async with server:
        error = await failed(tool, f"postgresql://u@127.0.0.1:{port}/x", "SELECT 1")

    assert error["kind"] in ("connection", "auth")
    assert heard
    assert all(b"the-workers-own" not in each for each in heard)


async def test_pools_are_few_and_the_idle_ones_make_room(url: str) -> None:
    tool = PostgresTool(pools=Pools(max_pools=2))
    try:
        for name in ("a", "b", "c", "d"):
            assert await value(tool, f"{url}&application_name={name}", "1") == 1
        assert tool._pools.count == 2
    finally:
        await tool.close()


async def test_more_calls_than_connections_wait_for_one_another(url: str) -> None:
    tool = PostgresTool(pools=Pools(max_connections=2))
    try:
        found = await asyncio.gather(*[value(tool, url, "pg_backend_pid()") for _ in range(12)])
        slow = asyncio.gather(*[called(tool, url, "SELECT pg_sleep(60)") for _ in range(2)])
        await eventually(lambda: activity(url))
        late = await failed(tool, url, "SELECT 1", timeout={"connect": "100ms"})
        slow.cancel()
        with pytest.raises(asyncio.CancelledError):
            await slow
    finally:
        await tool.close()

    assert len(set(found)) <= 2
    assert (late["kind"], late["retryable"]) == ("connection", True)


async def test_a_connection_that_dies_in_the_middle_is_a_connection_failure_and_nothing_is_there(
    tool: PostgresTool, url: str
) -> None:
    await execute(url, "CREATE TABLE t (id int)")
    task = asyncio.create_task(called(tool, url, "INSERT INTO t VALUES (1); SELECT pg_sleep(60)"))
    (found,) = await eventually(lambda: activity(url))
    await execute(url, "SELECT pg_terminate_backend($1)", found["pid"])
    outcome = await task

    assert outcome.error is not None
    assert (outcome.error["kind"], outcome.error["retryable"]) == ("connection", True)
    assert await value(tool, url, "count(*) FROM t") == 0


async def test_a_type_that_changed_under_a_worker_is_read_as_it_is_now(tool: PostgresTool, url: str) -> None:
    await ran(tool, url, "CREATE TYPE pair AS (a int)")
    before = await value(tool, url, "row(1)::pair")
    await ran(tool, url, "ALTER TYPE pair ADD ATTRIBUTE b text")

    assert before == {"a": 1}
    assert await value(tool, url, "row(1, 'x')::pair") == {"a": 1, "b": "x"}


async def test_connections_that_the_server_closed_are_opened_anew(tool: PostgresTool, url: str) -> None:
    assert await value(tool, url, "1") == 1
    await execute(url, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'redrive'")

    assert await value(tool, url, "1") == 1


def test_a_call_shows_nothing_of_its_credentials() -> None:
    call: Call = a_call({"auth": "pg"}, lend=lending("postgres", dsn="s3cret"))

    assert "s3cret" not in repr(call)
