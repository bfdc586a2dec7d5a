"""Markers: which attempts have written, kept beside what they wrote and committed with it."""

from __future__ import annotations

from services.worker.sinks.port import SinkError, Write
from services.worker.sinks.postgres_table import Table
from services.worker.tools.postgres_errors import failure_of
from services.worker.tools.postgres_pools import Connection, transaction

KEEP_DAYS = 30
PRUNED_AT_ONCE = 1_000
# Any number, as long as every worker has the same.
_LOCK = 7_238_115_209_118
_CREATE = """
CREATE TABLE IF NOT EXISTS {marker} (
    identity text PRIMARY KEY, execution_id text NOT NULL, node text NOT NULL, attempt integer NOT NULL,
    rows bigint NOT NULL, written_at timestamptz NOT NULL DEFAULT now());
CREATE INDEX IF NOT EXISTS redrive_sink_marker_written_at ON {marker} (written_at)
"""
_CLAIM = """
INSERT INTO {marker} (identity, execution_id, node, attempt, rows) VALUES ($1, $2, $3, $4, 0) ON CONFLICT DO NOTHING
"""
_PRUNE = """
DELETE FROM {marker} WHERE identity IN (
    SELECT identity FROM {marker} WHERE written_at < now() - make_interval(days => $1)
    ORDER BY written_at LIMIT $2 FOR UPDATE SKIP LOCKED)
"""


async def make_marker_table(connection: Connection, table: Table) -> None:
    """Make the table of markers beside a table; many may try at once. Raises SinkError where it may not be made."""
    try:
        async with transaction(connection, f"SELECT pg_advisory_xact_lock({_LOCK})"):
            await connection.execute(_CREATE.format(marker=table.marker))
    except Exception as problem:
        found = failure_of(problem)
        if found is None or found.retryable:
            raise
        message = f"the table {table.marker}, which keeps a repeated job from writing twice, cannot be made"
        raise SinkError(f"{message}: {found.message}", code=found.code, cause=found.kind) from None


async def claim(connection: Connection, table: Table, write: Write) -> bool:
    """Mark a write in this transaction; say whether it was not marked before. Waits for another who is at it."""
    values = (write.identity, write.execution_id, write.node, write.attempt)
    status: str = await connection.execute(_CLAIM.format(marker=table.marker), *values)
    return status.endswith(" 1")


async def note_rows(connection: Connection, table: Table, write: Write, rows: int) -> None:
    """Keep how many rows a write was."""
    await connection.execute(f"UPDATE {table.marker} SET rows = $2 WHERE identity = $1", write.identity, rows)


async def noted_rows(connection: Connection, table: Table, write: Write) -> int:
    """Return how many rows a write was."""
    found = await connection.fetchval(f"SELECT rows FROM {table.marker} WHERE identity = $1", write.identity)
    return int(found or 0)


async def prune(connection: Connection, table: Table) -> int:
    """Forget some of the markers that no delivery can come back to, and return how many."""
    status: str = await connection.execute(_PRUNE.format(marker=table.marker), KEEP_DAYS, PRUNED_AT_ONCE)
    return int(status.rpartition(" ")[2])
