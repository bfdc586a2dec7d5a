"""How executions, facts and commands get into Postgres: one statement for many."""

from __future__ import annotations

from collections.abc import Sequence

from shared.contracts.events import Event
from shared.store.encoding import checked_uuid
from shared.store.postgres import statements as sql
from shared.store.postgres.connected import Driver, columns
from shared.store.records import AppendResult, Created, NewExecution
from shared.store.rows import EventRow, execution_row, fact_row, requested_of


async def append(driver: Driver, facts: Sequence[Event]) -> AppendResult:
    """Store facts; those of executions that do not exist are left out and named."""
    rows = [fact_row(fact) for fact in facts]
    if not rows:
        return AppendResult(frozenset())
    new = await driver.fetch(sql.APPEND_FACTS, *columns(rows, len(EventRow._fields)))
    if len(new) == len(rows):
        return AppendResult(frozenset(str(row[0]) for row in new))
    unknown = await driver.fetch(sql.UNKNOWN, list({row.execution_id for row in rows}))
    return AppendResult(frozenset(str(row[0]) for row in new), frozenset(str(row[0]) for row in unknown))


async def create(driver: Driver, executions: Sequence[NewExecution]) -> list[Created]:
    """Store executions with their requests, inside the caller's transaction."""
    if not executions:
        return []
    rows = sorted((execution_row(item) for item in executions), key=lambda row: row[6] or "")
    added = {str(row[0]) for row in await driver.fetch(sql.CREATE_EXECUTIONS, *columns(rows, 7))}
    mine, out = set(added), []
    by_key: dict[str, str] = {}
    if len(added) < len(rows):
        keys, ids = [row[6] for row in rows if row[6] is not None], [row[0] for row in rows]
        found = await driver.fetch(sql.EXISTING, keys, ids)
        by_key = {row[1]: str(row[0]) for row in found if row[1] is not None}
    for item in executions:
        key = requested_of(item).idempotency_key
        identity = checked_uuid(item.execution_id, "execution_id")
        first = by_key.get(key, identity) if key is not None else identity
        out.append(Created(first, existed=first not in mine))
        mine.discard(first)
    await append(driver, [item.requested for item in executions if checked_uuid(item.execution_id, "id") in added])
    return out
