"""The hot statements: many rows each, every value bound, prepared once for each connection."""

from __future__ import annotations

import re

from shared.store.rows import EVENT_COLUMNS, EventRow

_EVENT_TYPES = {
    "event_id": "uuid", "execution_id": "uuid", "seq": "bigint", "type": "text", "node": "text", "step": "text",
    "visit": "integer", "iteration": "integer", "task": "text", "page": "integer", "attempt": "integer",
    "parent_event_id": "uuid", "retry_sequence_id": "text", "occurred_at": "timestamptz", "source": "text",
    "payload": "json", "meta": "jsonb", "context": "jsonb",
}  # fmt: skip


def _arrays(types: list[str], start: int = 1) -> str:
    return ", ".join(f"${number}::{kind}[]" for number, kind in enumerate(types, start))


_NAMES = ", ".join(EventRow._fields)
_ARRAYS = _arrays([_EVENT_TYPES[name] for name in EventRow._fields])
_VALUES = ", ".join(
    "coalesce(u.occurred_at, now())" if name == "occurred_at" else f"u.{name}" for name in EventRow._fields
)

# Positions follow the order of arrival. The rows are written in the order of their ids, whatever that was: two
# processes that store the same facts in another order wait for one another in one direction only.
APPEND_FACTS = f"""
WITH u AS MATERIALIZED (
    SELECT nextval('redrive.event_position_seq') AS position, given.* FROM unnest({_ARRAYS}) AS given ({_NAMES})
)
INSERT INTO redrive.event (position, bucket, {_NAMES})
SELECT u.position, x.bucket, {_VALUES}
FROM u JOIN redrive.execution AS x ON x.execution_id = u.execution_id
ORDER BY u.event_id
ON CONFLICT DO NOTHING
RETURNING event_id
"""

UNKNOWN = """
SELECT u.execution_id FROM unnest($1::uuid[]) AS u (execution_id)
WHERE NOT EXISTS (SELECT FROM redrive.execution AS x WHERE x.execution_id = u.execution_id)
"""

CREATE_EXECUTIONS = """
INSERT INTO redrive.execution (
    execution_id, path, playbook_version, plan_digest, labels, parent_execution_id, idempotency_key, status, bucket
)
SELECT u.*, 'new', date_trunc('month', now() AT TIME ZONE 'UTC')::date
FROM unnest($1::uuid[], $2::text[], $3::integer[], $4::text[], $5::jsonb[], $6::uuid[], $7::text[]) AS u
ON CONFLICT DO NOTHING
RETURNING execution_id
"""

EXISTING = """
SELECT execution_id, idempotency_key FROM redrive.execution
WHERE idempotency_key = ANY($1::text[]) OR execution_id = ANY($2::uuid[])
"""

LOCK = """
SELECT execution_id, path, playbook_version, plan_digest, status, version, snapshot_seq, bucket
FROM redrive.execution WHERE execution_id = ANY($1::uuid[])
ORDER BY execution_id
FOR UPDATE
"""

_READ = ", ".join(EVENT_COLUMNS)
_CLOCK = ", ".join("statement_timestamp()" if name == "occurred_at" else "NULL" for name in EVENT_COLUMNS)

# In one round trip: the time, now that the locks are held, and the facts.
UNAPPLIED = f"""
SELECT position, {_READ} FROM redrive.event
WHERE execution_id = ANY($1::uuid[]) AND bucket = ANY($2::date[]) AND seq IS NULL AND ignored_at IS NULL
UNION ALL
SELECT -1, {_CLOCK}
ORDER BY position
"""

SNAPSHOTS = """
SELECT execution_id, snapshot FROM redrive.execution WHERE execution_id = ANY($1::uuid[]) AND snapshot IS NOT NULL
"""

EVENTS_AFTER = f"""
SELECT {", ".join(f"e.{name}" for name in EVENT_COLUMNS)}
FROM unnest($1::uuid[], $2::date[], $3::bigint[]) AS u (execution_id, bucket, seq)
JOIN redrive.event AS e ON e.execution_id = u.execution_id AND e.bucket = u.bucket AND e.seq > u.seq
ORDER BY e.execution_id, e.seq
"""

# What nearly every batch writes, each part over arrays of its own, with the batch's time as $1.
_ADD_EVENTS = f"""
INSERT INTO redrive.event (bucket, {_NAMES})
SELECT u.bucket, {_VALUES.replace("now()", "$1::timestamptz")}
FROM unnest({_arrays([*_EVENT_TYPES.values(), "date"], 2)}) AS u ({_NAMES}, bucket)
"""

# That these facts are not applied yet was seen under the lock. To ask for it here would tempt the planner to go through
# the index of all unapplied facts.
_APPLY_FACTS = """
UPDATE redrive.event AS e
SET seq = u.seq, parent_event_id = u.parent, retry_sequence_id = u.sequence
FROM unnest($2::uuid[], $3::date[], $4::bigint[], $5::uuid[], $6::text[]) AS u (event_id, bucket, seq, parent, sequence)
WHERE e.event_id = u.event_id AND e.bucket = u.bucket
RETURNING e.event_id
"""

_ADD_JOBS = """
INSERT INTO redrive.job (
    job_id, execution_id, node, kind, pool, role, status, attempt, max_attempts, available_at, retry_delay_seconds,
    message, meta, created_at, updated_at
)
SELECT u.*, $1::timestamptz, $1::timestamptz
FROM unnest(
    $2::uuid[], $3::uuid[], $4::text[], $5::text[], $6::text[], $7::text[], $8::text[], $9::integer[], $10::integer[],
    $11::timestamptz[], $12::float8[], $13::json[], $14::jsonb[]
) AS u
"""

_CHANGE_JOBS = """
UPDATE redrive.job AS j
SET status = u.status,
    worker_id = coalesce(u.worker_id, j.worker_id),
    lease_until = u.lease_until,
    last_error = coalesce(u.last_error, j.last_error),
    updated_at = $1::timestamptz
FROM unnest($2::uuid[], $3::text[], $4::text[], $5::timestamptz[], $6::text[])
    AS u (job_id, status, worker_id, lease_until, last_error)
WHERE j.job_id = u.job_id AND j.status IN ('queued', 'leased')
"""

_CHANGE_EXECUTIONS = """
UPDATE redrive.execution AS x
SET status = u.status,
    version = u.version,
    snapshot = CASE WHEN u.snapshot IS NULL THEN x.snapshot ELSE u.snapshot END,
    snapshot_seq = CASE WHEN u.snapshot IS NULL THEN x.snapshot_seq ELSE u.version END,
    plan_digest = coalesce(u.plan_digest, x.plan_digest),
    started_at = coalesce(x.started_at, CASE WHEN u.is_started THEN $1::timestamptz END),
    finished_at = CASE WHEN u.is_over THEN coalesce(x.finished_at, $1::timestamptz) END,
    failure = CASE WHEN u.is_turned THEN u.failure ELSE x.failure END,
    result = CASE WHEN u.is_turned THEN u.result ELSE x.result END,
    retries = x.retries + u.retries,
    steps_started = x.steps_started + u.steps_started,
    steps_ended = x.steps_ended + u.steps_ended,
    updated_at = $1::timestamptz
FROM unnest(
    $2::uuid[], $3::text[], $4::bigint[], $5::json[], $6::text[], $7::boolean[], $8::boolean[], $9::boolean[],
    $10::jsonb[], $11::json[], $12::integer[], $13::integer[], $14::integer[]
) AS u (
    execution_id, status, version, snapshot, plan_digest, is_started, is_over, is_turned, failure, result, retries,
    steps_started, steps_ended
)
WHERE x.execution_id = u.execution_id
"""


def _together(parts: dict[str, str], answer: str) -> str:
    """Return one statement of several, so that all of them take one round trip; their arrays are counted through."""
    before = 0
    out = []
    for name, part in parts.items():
        numbers = {int(number) for number in re.findall(r"\$(\d+)", part)} - {1}
        for number in sorted(numbers, reverse=True):
            part = re.sub(rf"\${number}\b", f"${number + before}", part)
        out.append(f"{name} AS ({part})")
        before += len(numbers)
    return "WITH " + ",\n".join(out) + f"\n{answer}"


WRITE = _together(
    {
        "added": _ADD_EVENTS,
        "applied": _APPLY_FACTS,
        "jobs": _ADD_JOBS,
        "changed": _CHANGE_JOBS,
        "executions": _CHANGE_EXECUTIONS,
    },
    "SELECT count(*) FROM applied",
)

IGNORE_FACTS = """
UPDATE redrive.event AS e SET ignored_at = statement_timestamp()
FROM unnest($1::uuid[], $2::date[]) AS u (event_id, bucket)
WHERE e.event_id = u.event_id AND e.bucket = u.bucket
"""

ADD_RESULTS = """
INSERT INTO redrive.result AS r (ref, sha256, size, body)
SELECT u.* FROM unnest($1::text[], $2::text[], $3::bigint[], $4::bytea[]) AS u
ON CONFLICT (ref) DO UPDATE SET refcount = r.refcount + 1
"""

CHANGE_LOOPS = """
INSERT INTO redrive.iterator_state AS s (
    execution_id, node, iterator_name, total_iterations, completed_iterations, failed_iterations, status, completed_at,
    started_at, updated_at
)
SELECT u.execution_id, u.node, u.iterator_name, coalesce(u.total, 0), u.completed, u.failed, u.status,
    CASE WHEN u.is_over THEN $9::timestamptz END, $9::timestamptz, $9::timestamptz
FROM unnest(
    $1::uuid[], $2::text[], $3::text[], $4::integer[], $5::integer[], $6::integer[], $7::text[], $8::boolean[]
) AS u (execution_id, node, iterator_name, total, completed, failed, status, is_over)
ON CONFLICT (execution_id, node) DO UPDATE SET
    iterator_name = coalesce(excluded.iterator_name, s.iterator_name),
    total_iterations = greatest(s.total_iterations, excluded.total_iterations),
    completed_iterations = s.completed_iterations + excluded.completed_iterations,
    failed_iterations = s.failed_iterations + excluded.failed_iterations,
    status = excluded.status,
    completed_at = excluded.completed_at,
    updated_at = excluded.updated_at
"""

CHANGE_RETRIES = """
INSERT INTO redrive.retry_state AS s (
    execution_id, retry_sequence_id, step_name, status, current_attempt, max_attempts, last_error, last_result,
    available_at, started_at, updated_at
)
SELECT u.execution_id, u.retry_sequence_id, u.step_name, u.status, u.current_attempt, coalesce(u.max_attempts, 1),
    u.last_error, u.last_result, u.available_at, $10::timestamptz, $10::timestamptz
FROM unnest(
    $1::uuid[], $2::text[], $3::text[], $4::text[], $5::integer[], $6::integer[], $7::text[], $8::jsonb[],
    $9::timestamptz[]
) AS u (
    execution_id, retry_sequence_id, step_name, status, current_attempt, max_attempts, last_error, last_result,
    available_at
)
ON CONFLICT (execution_id, retry_sequence_id) DO UPDATE SET
    status = excluded.status,
    current_attempt = excluded.current_attempt,
    max_attempts = greatest(s.max_attempts, excluded.max_attempts),
    last_error = coalesce(excluded.last_error, s.last_error),
    last_result = coalesce(excluded.last_result, s.last_result),
    available_at = excluded.available_at,
    updated_at = excluded.updated_at
"""
