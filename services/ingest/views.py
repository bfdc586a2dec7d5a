"""What is answered: rows of the store as people and programs read them, and the shapes of these answers."""

from __future__ import annotations

import json
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

from starlette.responses import JSONResponse, Response

from shared.contracts.events import Event, event_to_json
from shared.language.diagnostics import Diagnostic
from shared.store.records import (
    CredentialRow,
    DeadLetterRow,
    ExecutionRow,
    IteratorRow,
    JobRow,
    Page,
    PlaybookVersion,
    RetryRow,
    WorkerRow,
)

Json = dict[str, Any]


def shown(body: Any, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    """Return an answer in JSON."""
    return JSONResponse(body, status, headers)


def page(page: Page[Any], items: Iterable[Json]) -> Json:
    """Return a part of a list, and the cursor for what follows."""
    return {"items": list(items), "cursor": page.cursor}


def time_text(when: datetime | None) -> str | None:
    """Return a time in UTC, as RFC 3339 has it."""
    return None if when is None else when.astimezone(UTC).isoformat().replace("+00:00", "Z")


def playbook(found: PlaybookVersion) -> Json:
    """Return a version of a playbook without its text."""
    return {
        "path": found.path,
        "version": found.version,
        "name": found.name,
        "digest": found.digest,
        "labels": found.labels,
        "created_at": time_text(found.created_at),
    }


def findings(found: Iterable[Diagnostic]) -> list[dict[str, object]]:
    """Return what was found in a playbook."""
    return [item.as_json() for item in found]


def execution(row: ExecutionRow) -> Json:
    """Return an execution as lists show it."""
    return {
        "execution_id": row.execution_id,
        "path": row.path,
        "playbook_version": row.playbook_version,
        "plan_digest": row.plan_digest,
        "status": row.status,
        "seq": row.version,
        "labels": row.labels,
        "parent_execution_id": row.parent_execution_id,
        "idempotency_key": row.idempotency_key,
        "failure": row.failure,
        "retries": row.retries,
        "progress": {"steps_started": row.steps_started, "steps_ended": row.steps_ended},
        "created_at": time_text(row.created_at),
        "started_at": time_text(row.started_at),
        "finished_at": time_text(row.finished_at),
        "updated_at": time_text(row.updated_at),
    }


def execution_in_full(row: ExecutionRow, loops: Iterable[IteratorRow], retries: Iterable[RetryRow]) -> Json:
    """Return an execution with its result, the progress of its loops, and its attempts."""
    return {
        **execution(row),
        "result": row.result,
        "loops": [loop(item) for item in loops],
        "retrying": [retry(item) for item in retries],
    }


def loop(row: IteratorRow) -> Json:
    """Return the progress of a loop."""
    return {
        "node": row.node,
        "iterator_name": row.iterator_name,
        "total_iterations": row.total_iterations,
        "completed_iterations": row.completed_iterations,
        "failed_iterations": row.failed_iterations,
        "status": row.status,
    }


def retry(row: RetryRow) -> Json:
    """Return how a sequence of attempts stands."""
    return {
        "node": row.retry_sequence_id,
        "step": row.step_name,
        "attempt": row.current_attempt,
        "max_attempts": row.max_attempts,
        "last_error": row.last_error,
        "status": row.status,
        "available_at": time_text(row.available_at),
    }


def event(found: Event) -> Json:
    """Return an event with both of its names and the parts of its address."""
    out = event_to_json(found)
    address = found.address
    meta = dict(found.meta)
    context = meta.pop("context", None)
    out["occurred_at"] = time_text(found.occurred_at)
    out["node"] = None if address is None else address.node
    out["step"] = None if address is None else address.step
    out["visit"] = None if address is None else address.visit
    out["iteration"] = None if address is None else address.iteration
    out["task"] = None if address is None else address.task
    out["attempt"] = None if address is None else address.attempt
    out["parent_event_id"] = found.parent_event_id
    out["retry_sequence_id"] = found.retry_sequence_id
    out["meta"] = meta
    out["context"] = context
    return out


def event_text(found: Event) -> str:
    """Return an event as one line of JSON."""
    return json.dumps(event(found), ensure_ascii=False, separators=(",", ":"))


def job(row: JobRow) -> Json:
    """Return a job as it stands, without what a worker is sent."""
    return {
        "job_id": row.job_id,
        "execution_id": row.execution_id,
        "node": row.node,
        "kind": row.kind,
        "pool": row.pool,
        "role": row.role,
        "status": row.status,
        "attempt": row.attempt,
        "max_attempts": row.max_attempts,
        "available_at": time_text(row.available_at),
        "retry_delay_seconds": row.retry_delay_seconds,
        "last_error": row.last_error,
        "worker_id": row.worker_id,
        "lease_until": time_text(row.lease_until),
        "published_at": time_text(row.published_at),
        "meta": row.meta,
        "created_at": time_text(row.created_at),
        "updated_at": time_text(row.updated_at),
    }


def worker(row: WorkerRow) -> Json:
    """Return a worker and when it was heard of."""
    beat = row.beat
    return {
        "worker_id": beat.worker_id,
        "pools": list(beat.pools),
        "concurrency": beat.concurrency,
        "running": beat.running,
        "host": beat.host,
        "release": beat.release,
        "started_at": time_text(row.started_at),
        "seen_at": time_text(row.seen_at),
    }


def dead_letter(row: DeadLetterRow) -> Json:
    """Return a dead letter without what it says."""
    letter = row.letter
    return {
        "dead_letter_id": letter.dead_letter_id,
        "message_id": letter.message_id,
        "kind": letter.kind,
        "reason": letter.reason,
        "exchange": letter.exchange,
        "routing_key": letter.routing_key,
        "queue": letter.queue,
        "size": len(letter.body),
        "died_at": time_text(row.died_at),
    }


def credential(row: CredentialRow) -> Json:
    """Return a credential without what it holds."""
    return {
        "name": row.name,
        "kind": row.kind,
        "key_id": row.key_id,
        "created_at": time_text(row.created_at),
        "updated_at": time_text(row.updated_at),
    }
