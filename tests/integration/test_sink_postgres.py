"""The `postgres` sink against a real server."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import tracemalloc
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from services.worker.keychain import Credential, CredentialError
from services.worker.runner import Runner
from services.worker.sinks.port import SinkError, Write, Written
from services.worker.sinks.postgres import PRUNE_EVERY, PostgresSink
from services.worker.sinks.postgres_marker import KEEP_DAYS, PRUNED_AT_ONCE
from services.worker.sinks.registry import Sinks
from services.worker.tools.noop import NoopTool
from services.worker.tools.port import Call
from services.worker.tools.registry import Registry
from services.worker.values import MemoryValues
from shared.contracts.outcomes import Outcome, success
from shared.runtime.clock import SystemClock
from tests.support.eventually import eventually
from tests.support.postgres import connect, execute, fetch
from tests.support.repository import ROOT
from tests.unit.worker.given import ToldTool, a_job

pytest_plugins = ("tests.support.stores",)

PAGES = "CREATE TABLE pages (id int PRIMARY KEY, title text, seen timestamptz, body jsonb, tags text[])"


@pytest.fixture
async def sink() -> AsyncIterator[PostgresSink]:
    sink = PostgresSink()
    yield sink
    await sink.close()


@pytest.fixture
async def url(empty_database: str) -> str:
    await execute(empty_database, PAGES)
    return empty_database


def a_write(url: str, data: Any, job: str = "job-1", **config: Any) -> Write:
    return Write(job, "e1", "fetch~1.get#1", {"dsn": url, "table": "pages", **config}, data)


async def refused(sink: PostgresSink, write: Write) -> SinkError:
    with pytest.raises(SinkError) as caught:
        await sink.write(write)
    return caught.value


async def rows(url: str, query: str = "SELECT * FROM pages ORDER BY id") -> list[dict[str, Any]]:
    return [dict(row) for row in await fetch(url, query)]


async def count(url: str, table: str = "pages") -> int:
    return int((await fetch(url, f"SELECT count(*) FROM {table}"))[0][0])


async def test_rows_are_appended_with_json_data_converted_to_the_types_of_the_columns(
    sink: PostgresSink, url: str
) -> None:
    data = [
        {"id": "1", "title": "it's", "seen": "2024-05-17T08:30:00+02:00", "body": {"a": [1]}, "tags": ["x", None]},
        {"id": 2, "title": 5, "body": "text"},
    ]
    written = await sink.write(a_write(url, data))

    found = await rows(
        url, "SELECT id, title, seen AT TIME ZONE 'UTC' AS seen, body::text, tags FROM pages ORDER BY id"
    )
    assert written == Written(2, details={"table": "pages", "mode": "append"})
    assert found[0]["title"] == "it's"
    assert found[0]["seen"].isoformat() == "2024-05-17T06:30:00"
    assert (found[0]["body"], found[0]["tags"]) == ('{"a": [1]}', ["x", None])
    assert found[1] == {"id": 2, "title": "5", "seen": None, "body": '"text"', "tags": None}


async def test_one_mapping_is_one_row_and_nothing_is_none(sink: PostgresSink, url: str) -> None:
    assert (await sink.write(a_write(url, {"id": 1}))).rows == 1
    assert (await sink.write(a_write(url, [], "job-2"))).rows == 0
    assert (await sink.write(a_write(url, None, "job-3"))).rows == 0

    assert await count(url) == 1


async def test_values_without_names_go_to_the_column_value(sink: PostgresSink, url: str) -> None:
    await execute(url, "CREATE TABLE plain (value int)")
    await sink.write(a_write(url, [3, 4], table="plain"))

    assert await rows(url, "SELECT value FROM plain ORDER BY value") == [{"value": 3}, {"value": 4}]


@pytest.mark.parametrize("mode", [{}, {"mode": "upsert", "key": ["id"]}, {"mode": "replace"}])
async def test_a_job_that_is_delivered_twice_writes_once(sink: PostgresSink, url: str, mode: dict[str, Any]) -> None:
    first = await sink.write(a_write(url, [{"id": 1}, {"id": 2}], **mode))
    await execute(url, "DELETE FROM pages WHERE id = 2")
    again = await sink.write(a_write(url, [{"id": 1}, {"id": 2}], **mode))

    assert (first.rows, first.repeated) == (2, False)
    assert (again.rows, again.repeated) == (2, True)
    assert await count(url) == 1


async def test_two_deliveries_at_the_same_time_write_once(url: str) -> None:
    sinks = [PostgresSink() for _ in range(4)]
    await execute(url, "CREATE TABLE log (n int)")
    write = a_write(url, [{"n": n} for n in range(50)], table="log")
    try:
        written = await asyncio.gather(*[sink.write(write) for sink in sinks])
    finally:
        for sink in sinks:
            await sink.close()

    assert sorted(each.repeated for each in written) == [False, True, True, True]
    assert {each.rows for each in written} == {50}
    assert await count(url, "log") == 50


async def test_a_delivery_waits_for_the_one_before_it_and_writes_if_that_fails(sink: PostgresSink, url: str) -> None:
    await sink.write(a_write(url, [], "job-0"))
    other = await connect(url)
    try:
        await other.execute("BEGIN")
        await other.execute("INSERT INTO redrive_sink_marker VALUES ('job-1', 'e1', 'n', 1, 1)")
        task = asyncio.create_task(sink.write(a_write(url, {"id": 1})))

        async def is_waiting() -> bool:
            return bool(await fetch(url, "SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock'"))

        await eventually(is_waiting)
        await other.execute("ROLLBACK")
        written = await task
    finally:
        await other.close()

    assert written.repeated is False
    assert await count(url) == 1


async def test_the_marker_says_what_was_written(sink: PostgresSink, url: str) -> None:
    await sink.write(a_write(url, [{"id": 1}, {"id": 2}]))

    (found,) = await rows(url, "SELECT identity, execution_id, node, attempt, rows FROM redrive_sink_marker")
    assert found == {"identity": "job-1", "execution_id": "e1", "node": "fetch~1.get#1", "attempt": 1, "rows": 2}


async def test_upsert_changes_what_is_there_and_the_last_of_equal_keys_wins(sink: PostgresSink, url: str) -> None:
    await sink.write(a_write(url, [{"id": 1, "title": "old", "tags": ["kept"]}, {"id": 9, "title": "other"}]))
    data = [{"id": 2, "title": "a"}, {"id": 1, "title": "new"}, {"id": 2, "title": "b"}]
    written = await sink.write(a_write(url, data, "job-2", mode="upsert", key="id"))

    assert written.rows == 2
    found = await rows(url, "SELECT id, title, tags FROM pages ORDER BY id")
    assert found == [
        {"id": 1, "title": "new", "tags": ["kept"]},
        {"id": 2, "title": "b", "tags": None},
        {"id": 9, "title": "other", "tags": None},
    ]


async def test_upsert_of_keys_alone_adds_what_is_missing(sink: PostgresSink, url: str) -> None:
    await sink.write(a_write(url, [{"id": 1, "title": "kept"}]))
    await sink.write(a_write(url, [{"id": 1}, {"id": 2}], "job-2", mode="upsert", key=["id"]))

    assert await rows(url, "SELECT id, title FROM pages ORDER BY id") == [
        {"id": 1, "title": "kept"},
        {"id": 2, "title": None},
    ]


async def test_replace_leaves_only_the_new_rows(sink: PostgresSink, url: str) -> None:
    await sink.write(a_write(url, [{"id": 1}, {"id": 2}]))
    await sink.write(a_write(url, [{"id": 3}], "job-2", mode="replace"))
    assert [row["id"] for row in await rows(url)] == [3]

    await sink.write(a_write(url, [], "job-3", mode="replace"))
    assert await count(url) == 0


async def test_two_that_replace_at_once_leave_the_rows_of_one(url: str) -> None:
    sinks = [PostgresSink() for _ in range(3)]
    await execute(url, "CREATE TABLE log (n int)")
    try:
        await asyncio.gather(
            *[
                sink.write(a_write(url, [{"n": number}] * 40, f"job-{number}", table="log", mode="replace"))
                for number, sink in enumerate(sinks)
            ]
        )
    finally:
        for sink in sinks:
            await sink.close()

    assert await count(url, "log") == 40
    assert len(await rows(url, "SELECT DISTINCT n FROM log")) == 1


async def test_replace_that_fails_leaves_what_was_there(sink: PostgresSink, url: str) -> None:
    await sink.write(a_write(url, [{"id": 1}]))
    problem = await refused(sink, a_write(url, [{"id": 2}, {"id": 2}], "job-2", mode="replace"))

    assert problem.code == "23505"
    assert [row["id"] for row in await rows(url)] == [1]


@pytest.mark.parametrize(
    ("data", "config", "code", "said"),
    [
        ([{"id": 1, "x": 1}], {}, "42703", "has no column 'x'; it has id, title, seen, body, tags"),
        ([{"id": 1}], {"table": "nowhere"}, "42P01", "there is no table nowhere"),
        ([{"id": 1}], {"table": "Pages2"}, "42P01", "a name with capitals is written in double quotes"),
        ([{"id": 1}], {"table": 'pages; DROP TABLE "pages"'}, "42P01", "there is no table pages; DROP"),
        ([{"id": 1}], {"table": "pages_pkey"}, "42809", "is no table"),
        ([{"id": 1}], {"table": "a\ud800"}, "22000", "cannot be sent"),
        ([{"id": 1, "a\0b": 1}], {}, "42703", "has no column"),
        ([{"id": "one"}], {}, "22000", "row 1, column 'id' of type integer: it is no whole number"),
        ([{"id": 1}, {"id": 2, "title": "a\0b"}], {}, "22000", "row 2, column 'title' of type text: it holds a NUL"),
        ([{"id": 1, "title": "\ud800"}], {}, "22000", "half of a surrogate pair"),
        ([{"id": 1, "body": {"n": float("nan")}}], {}, "22000", "column 'body' of type jsonb: it is no JSON"),
        ([{"id": 2**40}], {}, "22000", "out of range"),
        ([{"id": 1, "seen": "tomorrow"}], {}, "22000", "it is not in the form of a time"),
        ([{"id": 1}, {"id": 1}], {}, "23505", "row 2: duplicate key value"),
        ([{"title": "x"}], {}, "23502", "null value in column"),
        ([{}], {}, "22000", "the rows have no columns"),
        ([{"title": "x"}], {"mode": "upsert", "key": ["id"]}, "42703", "no row has the key 'id'"),
        (
            [{"id": 1}, {"title": "x"}],
            {"mode": "upsert", "key": ["id"]},
            "23502",
            "row 2 has no value for the key 'id'",
        ),
        ([{"title": "x"}], {"mode": "upsert", "key": ["title"]}, "42P10", "no unique constraint"),
        ([{"id": 1}], {"mode": "upsert"}, None, "mode upsert needs a key"),
        ([{"id": 1}], {"key": ["id"]}, None, "the other modes take none"),
        ([{"id": 1}], {"mode": "merge"}, None, "mode:"),
        ([{"id": 1}], {"auth": "pg"}, None, "either auth or dsn"),
    ],
)
async def test_what_cannot_be_stored_is_said_and_nothing_of_it_is_there(
    sink: PostgresSink, url: str, data: Any, config: dict[str, Any], code: str | None, said: str
) -> None:
    problem = await refused(sink, a_write(url, data, **config))

    assert (problem.code, problem.retryable) == (code, False)
    assert said in problem.message
    assert await count(url) == 0
    assert (await sink.write(a_write(url, [{"id": 1}]))).repeated is False


async def test_a_generated_column_takes_no_value_and_an_identity_does(sink: PostgresSink, url: str) -> None:
    await execute(
        url,
        "CREATE TABLE made (id int GENERATED ALWAYS AS IDENTITY, n int, twice int GENERATED ALWAYS AS (n * 2) STORED)",
    )
    problem = await refused(sink, a_write(url, {"n": 1, "twice": 2}, table="made"))
    await sink.write(a_write(url, [{"n": 1}], table="made"))
    await sink.write(a_write(url, [{"id": 50, "n": 2}], "job-2", table="made"))

    assert (problem.code, "is generated" in problem.message) == ("428C9", True)
    assert await rows(url, "SELECT * FROM made ORDER BY id") == [
        {"id": 1, "n": 1, "twice": 2},
        {"id": 50, "n": 2, "twice": 4},
    ]


async def test_types_that_cannot_be_copied_are_converted_by_the_server(sink: PostgresSink, url: str) -> None:
    await execute(url, "CREATE TYPE mood AS ENUM ('happy', 'sad'); CREATE TYPE pair AS (a int, b date)")
    await execute(
        url,
        "CREATE TABLE odd (id int, m mood, ms mood[], p pair, price money, words tsvector, spot point, mac macaddr)",
    )
    data = {
        "id": 1, "m": "sad", "ms": ["happy", None], "p": {"a": 1, "b": "2024-05-17"}, "price": 12.5,
        "words": "a b", "spot": "(1,2)", "mac": "08:00:2b:01:02:03",
    }  # fmt: skip
    await sink.write(a_write(url, data, table="odd"))

    (found,) = await rows(
        url, "SELECT id, m::text, ms::text, p::text, price::text, words::text, spot::text, mac::text FROM odd"
    )
    assert found == {
        "id": 1, "m": "sad", "ms": "{happy,NULL}", "p": "(1,2024-05-17)", "price": "$12.50", "words": "'a' 'b'",
        "spot": "(1,2)", "mac": "08:00:2b:01:02:03",
    }  # fmt: skip
    bad = await refused(sink, a_write(url, {"id": 1, "m": "furious"}, "job-2", table="odd"))
    assert bad.code == "22P02"


async def test_names_are_quoted_whatever_they_are(sink: PostgresSink, url: str) -> None:
    name = 'a "b"; DROP TABLE pages; --'
    await execute(url, 'CREATE SCHEMA "My Data"')
    await execute(url, 'CREATE TABLE "My Data"."Odd "" {Name}" ("a ""b""; DROP TABLE pages; --" int PRIMARY KEY)')
    table = '"My Data"."Odd "" {Name}"'
    await sink.write(a_write(url, {name: 1}, table=table))
    await sink.write(a_write(url, {name: 2}, "job-2", table=table, mode="upsert", key=[name]))

    assert await rows(url, f"SELECT * FROM {table}") == [{name: 1}, {name: 2}]
    assert await count(url, '"My Data".redrive_sink_marker') == 2
    assert await count(url) == 0


async def test_views_partitions_and_tables_with_row_security_take_rows(sink: PostgresSink, url: str) -> None:
    await execute(url, "CREATE VIEW seen_pages AS SELECT id, title FROM pages")
    await execute(url, "CREATE TABLE parts (id int, at date) PARTITION BY RANGE (at)")
    await execute(url, "CREATE TABLE parts_1 PARTITION OF parts FOR VALUES FROM ('2024-01-01') TO ('2025-01-01')")
    await execute(url, "CREATE TABLE guarded (id int)")
    await execute(url, "ALTER TABLE guarded ENABLE ROW LEVEL SECURITY")
    await sink.write(a_write(url, {"id": 1, "title": "x"}, "job-1", table="seen_pages"))
    await sink.write(a_write(url, {"id": 1, "at": "2024-05-17"}, "job-2", table="parts"))
    await sink.write(a_write(url, {"id": 1}, "job-3", table="guarded"))

    assert [await count(url, table) for table in ("pages", "parts", "guarded")] == [1, 1, 1]
    outside = await refused(sink, a_write(url, {"id": 1, "at": "2026-05-17"}, "job-4", table="parts"))
    assert outside.code == "23514"


@pytest.mark.parametrize("mode", [{}, {"mode": "upsert", "key": "id"}])
async def test_a_hundred_thousand_rows_go_through_in_little_memory(
    sink: PostgresSink, url: str, mode: dict[str, Any]
) -> None:
    data = [{"id": n, "title": f"page {n} " + "x" * 100, "body": {"n": n}, "tags": ["a"]} for n in range(100_000)]
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        written = await sink.write(a_write(url, data, **mode))
        peak = tracemalloc.get_traced_memory()[1] - before
    finally:
        tracemalloc.stop()

    assert written.rows == 100_000
    assert await count(url) == 100_000
    assert peak < 20 * 1024 * 1024


async def test_others_have_their_turn_while_many_rows_are_written(sink: PostgresSink, url: str) -> None:
    await execute(url, "CREATE TABLE log (n int)")
    turns = 0

    async def tick() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    task = asyncio.create_task(tick())
    await sink.write(a_write(url, [{"n": n} for n in range(20_000)], table="log"))
    task.cancel()

    assert turns >= 30


async def test_a_connection_that_dies_in_the_middle_leaves_nothing(sink: PostgresSink, url: str) -> None:
    await execute(url, "CREATE TABLE slow (id int)")
    await execute(
        url,
        "CREATE FUNCTION wait() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_sleep(60); RETURN NEW; END $$",
    )
    await execute(url, "CREATE TRIGGER t BEFORE INSERT ON slow FOR EACH ROW EXECUTE FUNCTION wait()")
    task = asyncio.create_task(sink.write(a_write(url, [{"id": 1}], table="slow")))
    await kill_the_writer(url)
    with pytest.raises(SinkError) as caught:
        await task

    assert (caught.value.cause, caught.value.retryable) == ("connection", True)
    assert await count(url, "slow") == 0
    assert await count(url, "redrive_sink_marker") == 0


async def kill_the_writer(url: str) -> None:
    async def look() -> list[Any]:
        return await fetch(
            url, "SELECT pid FROM pg_stat_activity WHERE wait_event = 'PgSleep' AND application_name = 'redrive job-1'"
        )

    (found,) = await eventually(look)
    await execute(url, "SELECT pg_terminate_backend($1)", found["pid"])


async def test_a_connection_that_dies_while_committing_is_looked_into_and_the_rows_are_there_once(
    sink: PostgresSink, url: str
) -> None:
    await execute(url, "CREATE TABLE slow (id int)")
    await execute(url, "CREATE SEQUENCE tries")
    await execute(
        url,
        "CREATE FUNCTION wait() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN "
        "IF nextval('tries') = 1 THEN PERFORM pg_sleep(60); END IF; RETURN NULL; END $$",
    )
    await execute(
        url,
        "CREATE CONSTRAINT TRIGGER t AFTER INSERT ON slow DEFERRABLE INITIALLY DEFERRED "
        "FOR EACH ROW EXECUTE FUNCTION wait()",
    )
    task = asyncio.create_task(sink.write(a_write(url, [{"id": 1}], table="slow")))
    await kill_the_writer(url)
    written = await task

    assert (written.rows, written.repeated) == (1, False)
    assert await count(url, "slow") == 1


async def test_a_write_that_is_cancelled_leaves_nothing(sink: PostgresSink, url: str) -> None:
    await execute(url, "CREATE TABLE log (n int)")
    await sink.write(a_write(url, [], "job-0", table="log"))
    other = await connect(url)
    try:
        await other.execute("BEGIN; LOCK TABLE log IN ACCESS EXCLUSIVE MODE")
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.3):
                await sink.write(a_write(url, [{"n": 1}], table="log"))
        await other.execute("COMMIT")
    finally:
        await other.close()

    assert await count(url, "log") == 0
    assert (await sink.write(a_write(url, [{"n": 1}], table="log"))).repeated is False


async def test_old_markers_are_forgotten_a_few_at_a_time(sink: PostgresSink, url: str) -> None:
    await sink.write(a_write(url, [], "job-0"))
    old = f"now() - interval '{KEEP_DAYS + 1} days'"
    await execute(
        url,
        "INSERT INTO redrive_sink_marker SELECT 'old-' || n, 'e', 'n', 1, 0, "
        f"{old} FROM generate_series(1, {PRUNED_AT_ONCE + 5}) n",
    )
    await sink.write(a_write(url, [], "job-1"))
    untouched = await count(url, "redrive_sink_marker")
    sink._writes = PRUNE_EVERY
    await sink.write(a_write(url, [], "job-2"))

    assert untouched == PRUNED_AT_ONCE + 5 + 2
    assert await count(url, "redrive_sink_marker") == 5 + 3


async def test_a_role_that_may_not_make_the_marker_table_is_told_so(sink: PostgresSink, url: str) -> None:
    await execute(url, "CREATE ROLE writer LOGIN")
    await execute(url, "GRANT SELECT, INSERT ON pages TO writer")
    as_writer = url.replace("redrive@", "writer@")
    try:
        problem = await refused(sink, a_write(as_writer, {"id": 1}))
        await sink.write(a_write(url, [], "job-0"))
        await execute(url, "GRANT SELECT, INSERT, UPDATE, DELETE ON redrive_sink_marker TO writer")
        written = await sink.write(a_write(as_writer, {"id": 1}))
    finally:
        await sink.close()
        await execute(url, "DROP OWNED BY writer")
        await execute(url, "DROP ROLE writer")

    assert (problem.code, problem.retryable) == ("42501", False)
    assert "redrive_sink_marker" in problem.message
    assert written.rows == 1


async def test_a_server_that_is_not_there_is_worth_another_try(sink: PostgresSink) -> None:
    problem = await refused(sink, a_write("postgresql://u:hunter2@127.0.0.1:1/x", {"id": 1}))

    assert (problem.cause, problem.retryable) == ("connection", True)
    assert "hunter2" not in problem.message


async def test_a_credential_is_used_and_a_missing_one_is_said(sink: PostgresSink, url: str) -> None:
    async def lend(auth: Any) -> Credential:
        return Credential(str(auth), "postgres", {"dsn": url})

    lent = Write("job-1", "e1", "n", {"auth": "pg", "table": "pages"}, {"id": 1}, lend=lend)
    assert (await sink.write(lent)).rows == 1
    with pytest.raises(CredentialError):
        await sink.write(Write("job-2", "e1", "n", {"auth": "pg", "table": "pages"}, {"id": 2}))


async def test_a_serialization_failure_is_worth_another_try(sink: PostgresSink, url: str) -> None:
    await sink.write(a_write(url, [{"id": 1, "title": "old"}], "job-0"))
    name = url.rpartition("/")[2].partition("?")[0]
    await execute(url, f"ALTER DATABASE \"{name}\" SET default_transaction_isolation = 'repeatable read'")
    fresh = PostgresSink()
    other = await connect(url)
    try:
        await other.execute("BEGIN; UPDATE pages SET title = 'theirs' WHERE id = 1")
        task = asyncio.create_task(
            fresh.write(a_write(url, [{"id": 1, "title": "ours"}], "job-1", mode="upsert", key="id"))
        )

        async def is_waiting() -> bool:
            return bool(await fetch(url, "SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock'"))

        await eventually(is_waiting)
        await other.execute("COMMIT")
        with pytest.raises(SinkError) as caught:
            await task
    finally:
        await other.close()
        await fresh.close()

    assert (caught.value.code, caught.value.retryable) == ("40001", True)


@pytest.mark.parametrize(("page", "expected"), [("tools/postgres", '"counted": 10'), ("sinks/postgres", "30")])
async def test_the_example_of_a_page_runs(url: str, tmp_path: Path, page: str, expected: str) -> None:
    text = (ROOT / "docs" / f"{page}.md").read_text(encoding="utf-8")
    playbook, dsn = tmp_path / "example.yaml", tmp_path / "dsn"
    playbook.write_text(text.partition("```yaml\n")[2].partition("```")[0], encoding="utf-8")
    dsn.write_text(url.replace("+asyncpg", ""), encoding="utf-8")
    command = [sys.executable, "-m", "services.cli", "run", str(playbook), "--credential", f"pg=@{dsn}"]

    found = await asyncio.to_thread(subprocess.run, command, cwd=ROOT, capture_output=True, text=True, timeout=100)

    assert found.returncode == 0, found.stderr
    assert expected in found.stdout


async def test_the_runner_stores_the_rows_of_a_result_and_says_so(url: str) -> None:
    async def does(call: Call) -> Outcome:
        return success({"rows": [{"id": 1}, {"id": 2}], "row_count": 2})

    sinks = Sinks([PostgresSink()])
    runner = Runner(
        Registry([NoopTool(), ToldTool(does)]), MemoryValues(), worker="w", clock=SystemClock(), sinks=sinks
    )
    sink = {"kind": "postgres", "config": {"dsn": url, "table": "pages"}}
    outcome = await runner.run(a_job("told", sink=sink))
    bad = await runner.run(a_job("told", attempt=2, sink={**sink, "config": {"dsn": url, "table": "no"}}))
    await sinks.close()

    assert outcome.status == "success"
    assert outcome.meta["sink"]["rows"] == 2
    assert await count(url) == 2
    assert bad.error is not None
    assert bad.error["message"] == "Sink failed: postgres: there is no table no"
    assert (bad.error["kind"], bad.error["code"]) == ("sink", "42P01")
