"""The tables of schema `redrive`, as alembic makes them and as ordinary statements name them."""

from __future__ import annotations

from typing import Any

from sqlalchemy import (
    JSON,
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    Date,
    DateTime,
    Double,
    Identity,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    PrimaryKeyConstraint,
    Table,
    Text,
    UniqueConstraint,
    Uuid,
    func,
    text,
)
from sqlalchemy.dialects.postgresql import ARRAY, JSONB

SCHEMA = "redrive"
metadata = MetaData(
    schema=SCHEMA,
    naming_convention={"pk": "%(table_name)s_pkey", "ck": "%(table_name)s_%(constraint_name)s"},
)

# Values of playbooks are kept as `json`, which returns the text it was given: `jsonb` would reorder the keys of
# objects and rewrite numbers, and a decision taken from a reloaded state could differ from one taken from memory.
# What is only searched or shown is `jsonb`.


def _uuid(name: str, **more: Any) -> Column[Any]:
    return Column(name, Uuid(as_uuid=False), **more)


def _text(name: str, **more: Any) -> Column[Any]:
    return Column(name, Text, **more)


def _time(name: str, **more: Any) -> Column[Any]:
    return Column(name, DateTime(timezone=True), **more)


def _stamp(name: str) -> Column[Any]:
    return _time(name, nullable=False, server_default=func.now())


def _count(name: str, default: int = 0) -> Column[Any]:
    return Column(name, Integer, nullable=False, server_default=text(str(default)))


def _object(name: str) -> Column[Any]:
    return Column(name, JSONB, nullable=False, server_default=text("'{}'::jsonb"))


playbook = Table(
    "playbook",
    metadata,
    _text("path", primary_key=True),
    Column("version", Integer, primary_key=True),
    _text("name"),
    _text("source", nullable=False),
    Column("plan", JSON, nullable=False),
    _text("digest", nullable=False),
    _object("labels"),
    _stamp("created_at"),
    Index("playbook_digest", "digest"),
)

execution = Table(
    "execution",
    metadata,
    _uuid("execution_id", primary_key=True),
    _text("path", nullable=False),
    Column("playbook_version", Integer),
    _text("plan_digest", nullable=False),
    _text("status", nullable=False),
    Column("version", BigInteger, nullable=False, server_default=text("0")),
    Column("snapshot", JSON),
    Column("snapshot_seq", BigInteger, nullable=False, server_default=text("0")),
    _object("labels"),
    _uuid("parent_execution_id"),
    _text("idempotency_key"),
    Column("bucket", Date, nullable=False),
    Column("failure", JSONB),
    Column("result", JSON),
    _count("retries"),
    _count("steps_started"),
    _count("steps_ended"),
    _stamp("created_at"),
    _time("started_at"),
    _time("finished_at"),
    _stamp("updated_at"),
    UniqueConstraint("idempotency_key", name="execution_idempotency_key"),
    Index("execution_newest", "created_at", "execution_id"),
    Index("execution_status", "status", "created_at"),
    Index("execution_path", "path", "created_at"),
    Index("execution_labels", "labels", postgresql_using="gin", postgresql_ops={"labels": "jsonb_path_ops"}),
    Index("execution_parent", "parent_execution_id", postgresql_where=text("parent_execution_id IS NOT NULL")),
    # Every decision updates the row and no indexed column: room in the page keeps that cheap.
    postgresql_with={"fillfactor": "70"},
)

event = Table(
    "event",
    metadata,
    Column("position", BigInteger, Identity(), nullable=False),
    _uuid("event_id", nullable=False),
    _uuid("execution_id", nullable=False),
    Column("bucket", Date, nullable=False),
    Column("seq", BigInteger),
    _time("ignored_at"),
    _text("type", nullable=False),
    _text("node"),
    _text("step"),
    Column("visit", Integer),
    Column("iteration", Integer),
    _text("task"),
    Column("page", Integer),
    Column("attempt", Integer),
    _uuid("parent_event_id"),
    _text("retry_sequence_id"),
    _time("occurred_at", nullable=False),
    _stamp("stored_at"),
    _text("source", nullable=False),
    Column("payload", JSON, nullable=False),
    Column("meta", JSONB),
    Column("context", JSONB),
    PrimaryKeyConstraint("event_id", "bucket", name="event_pkey"),
    UniqueConstraint("execution_id", "seq", "bucket", name="event_place"),
    Index("event_unapplied", "execution_id", "position", postgresql_where=text("seq IS NULL AND ignored_at IS NULL")),
    Index(
        "event_runs", "execution_id", "step", "iteration", "visit",
        postgresql_where=text("type IN ('step.started', 'loop.started', 'loop.iteration_completed')"),
    ),
    postgresql_partition_by="RANGE (bucket)",
)  # fmt: skip

STARTED = "status IN ('leased', 'completed', 'dead')"

job = Table(
    "job",
    metadata,
    _uuid("job_id", primary_key=True),
    _uuid("execution_id", nullable=False),
    _text("node", nullable=False),
    _text("kind", nullable=False),
    _text("pool", nullable=False),
    _text("role", nullable=False),
    _text("status", nullable=False),
    Column("attempt", Integer),
    Column("max_attempts", Integer, nullable=False),
    _time("available_at"),
    Column("retry_delay_seconds", Double, nullable=False),
    _text("last_error"),
    _text("worker_id"),
    _time("lease_until"),
    _time("published_at"),
    _time("swept_at"),
    _time("unserved_at"),
    Column("message", JSON, nullable=False),
    _object("meta"),
    _stamp("created_at"),
    _stamp("updated_at"),
    CheckConstraint("status IN ('queued', 'leased', 'completed', 'dead', 'cancelled')", name="status"),
    Index("job_execution", "execution_id"),
    Index("job_queued", "available_at", "job_id", postgresql_where=text("status = 'queued'")),
    Index(
        "job_unpublished", "available_at", postgresql_where=text("status = 'queued' AND published_at IS NULL")
    ),
    Index("job_leased", "lease_until", postgresql_where=text("status = 'leased'")),
    Index("job_started", "pool", "available_at", postgresql_where=text(STARTED)),
)  # fmt: skip

dead_letter = Table(
    "dead_letter",
    metadata,
    _uuid("dead_letter_id", primary_key=True),
    _text("message_id", nullable=False),
    _text("kind", nullable=False),
    _text("reason", nullable=False),
    _text("exchange", nullable=False),
    _text("routing_key", nullable=False),
    _text("queue"),
    _text("content_type", nullable=False),
    _object("headers"),
    Column("body", LargeBinary, nullable=False),
    _stamp("died_at"),
    Index("dead_letter_newest", "died_at", "dead_letter_id"),
)

result = Table(
    "result",
    metadata,
    _text("ref", primary_key=True),
    Column("body", LargeBinary, nullable=False),
    Column("size", BigInteger, nullable=False),
    _text("sha256", nullable=False),
    _count("refcount", 1),
    _stamp("created_at"),
)

iterator_state = Table(
    "iterator_state",
    metadata,
    _uuid("execution_id", primary_key=True),
    _text("node", primary_key=True),
    _text("iterator_name"),
    _count("total_iterations"),
    _count("completed_iterations"),
    _count("failed_iterations"),
    _text("status", nullable=False),
    _stamp("started_at"),
    _stamp("updated_at"),
    _time("completed_at"),
)

retry_state = Table(
    "retry_state",
    metadata,
    _uuid("execution_id", primary_key=True),
    _text("retry_sequence_id", primary_key=True),
    _text("step_name", nullable=False),
    _count("current_attempt", 1),
    _count("max_attempts", 1),
    _text("last_error"),
    Column("last_result", JSONB),
    _text("status", nullable=False),
    _time("available_at"),
    _stamp("started_at"),
    _stamp("updated_at"),
)

credential = Table(
    "credential",
    metadata,
    _text("name", primary_key=True),
    _text("kind", nullable=False),
    Column("sealed", LargeBinary, nullable=False),
    _text("key_id", nullable=False),
    _stamp("created_at"),
    _stamp("updated_at"),
)

api_key = Table(
    "api_key",
    metadata,
    _uuid("key_id", primary_key=True),
    _text("name", nullable=False),
    Column("hash", LargeBinary, nullable=False),
    Column("scopes", ARRAY(Text), nullable=False),
    _stamp("created_at"),
    _time("last_used_at"),
    _time("revoked_at"),
    UniqueConstraint("hash", name="api_key_hash"),
)

breaker = Table(
    "breaker",
    metadata,
    _text("key", primary_key=True),
    _text("state", nullable=False),
    _count("failures"),
    _time("open_until"),
    _object("figures"),
    _stamp("updated_at"),
)

schedule = Table(
    "schedule",
    metadata,
    _text("name", primary_key=True),
    _text("path", nullable=False),
    Column("playbook_version", Integer),
    Column("spec", JSON, nullable=False),
    Column("workload", JSON),
    Column("enabled", Boolean, nullable=False, server_default=text("true")),
    _time("next_at"),
    _time("last_at"),
    _stamp("created_at"),
    _stamp("updated_at"),
    Index("schedule_next", "next_at", postgresql_where=text("enabled")),
)

signal = Table(
    "signal",
    metadata,
    _uuid("signal_id", primary_key=True),
    _uuid("execution_id", nullable=False),
    _text("name", nullable=False),
    Column("payload", JSON),
    _stamp("received_at"),
    Index("signal_execution", "execution_id"),
)

worker = Table(
    "worker",
    metadata,
    _text("worker_id", primary_key=True),
    Column("pools", ARRAY(Text), nullable=False),
    _count("concurrency"),
    _count("running"),
    _text("host"),
    _text("release"),
    _stamp("started_at"),
    _stamp("seen_at"),
)

audit = Table(
    "audit",
    metadata,
    Column("position", BigInteger, Identity(), primary_key=True),
    _text("actor", nullable=False),
    _text("action", nullable=False),
    _text("subject", nullable=False),
    _object("details"),
    _stamp("occurred_at"),
)

broker_mark = Table(
    "broker_mark",
    metadata,
    _text("name", primary_key=True),
    _text("incarnation", nullable=False),
    _stamp("seen_at"),
)
