"""How the hot statements find their rows: by key, on tables of any size, whatever the planner believes of them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from types import ModuleType

import pytest

from shared.store.postgres import results, statements, sweeping
from shared.store.postgres.store import PostgresStore

pytest_plugins = ("tests.support.stores",)

BY_KEY = {
    "LOCK": "execution_pkey",
    "WRITE": "pkey",
    "IGNORE_FACTS": "pkey",
    "UNAPPLIED": "execution_id_position_idx",
    "EVENTS_AFTER": "execution_id_seq_bucket_key",
    "_MARKS": "execution_id_step_iteration_visit_idx",
    "_RESULTS": "execution_id_step_iteration_visit_idx",
    "_MARK_PUBLISHED": "job_pkey",
    "_EXTEND_LEASES": "job_pkey",
}


def statements_of(*modules: ModuleType) -> Iterator[tuple[str, str]]:
    """Give every statement; in `statements` a name that begins with an underscore is a part of WRITE."""
    for module in modules:
        for name, value in vars(module).items():
            is_part = module is statements and name.startswith("_")
            if not is_part and isinstance(value, str) and re.match(r"\s*(WITH|SELECT|INSERT|UPDATE)\b", value):
                yield name, value


STATEMENTS = dict(statements_of(statements, results, sweeping))


async def plan_of(url: str, statement: str) -> str:
    """Return the plan that a connection of the store uses for any values."""
    values = max([int(number) for number in re.findall(r"\$(\d+)", statement)], default=0)
    call = f"asked({', '.join(['NULL'] * values)})" if values else "asked"
    store = PostgresStore.connect(url)
    try:
        async with store._driver() as driver:
            await driver.execute(f"PREPARE asked AS {statement}")
            rows = await driver.fetch(f"EXPLAIN (COSTS OFF) EXECUTE {call}")
    finally:
        await store.close()
    return "\n".join(row[0] for row in rows)


@pytest.mark.parametrize("name", STATEMENTS)
async def test_no_hot_statement_reads_a_whole_table(database: str, name: str) -> None:
    plan = await plan_of(database, STATEMENTS[name])

    assert "Seq Scan" not in plan, plan


@pytest.mark.parametrize(("name", "index"), BY_KEY.items())
async def test_a_statement_about_known_rows_goes_by_their_key(database: str, name: str, index: str) -> None:
    plan = await plan_of(database, STATEMENTS[name])

    used = set(re.findall(r"(?:Scan using|Bitmap Index Scan on) (\w+)", plan))
    assert used
    assert {item for item in used if not item.endswith(index)} <= {"execution_pkey"}, plan
