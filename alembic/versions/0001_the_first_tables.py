"""The first tables."""

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql

from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

TABLES = (
    "api_key",
    "audit",
    "breaker",
    "broker_mark",
    "credential",
    "event",
    "execution",
    "iterator_state",
    "job",
    "playbook",
    "result",
    "retry_state",
    "schedule",
    "signal",
    "worker",
)

# A month's partition is made aside and attached, so that the table is not locked against reading and writing. A month
# that has rows in the default partition already stays there.
PARTITIONS = """
CREATE FUNCTION redrive.make_event_partitions(months_ahead integer) RETURNS integer
LANGUAGE plpgsql AS $$
DECLARE
    made integer := 0;
    first date;
    following date;
    part text;
BEGIN
    PERFORM pg_advisory_xact_lock(7305421876002);
    FOR month IN 0..months_ahead LOOP
        first := date_trunc('month', now() AT TIME ZONE 'UTC') + make_interval(months => month);
        following := first + interval '1 month';
        part := 'event_p' || to_char(first, 'YYYY_MM');
        CONTINUE WHEN to_regclass('redrive.' || part) IS NOT NULL;
        CONTINUE WHEN EXISTS (SELECT FROM redrive.event_default WHERE bucket >= first AND bucket < following);
        EXECUTE format('CREATE TABLE redrive.%I (LIKE redrive.event INCLUDING DEFAULTS)', part);
        EXECUTE format(
            'ALTER TABLE redrive.event ATTACH PARTITION redrive.%I FOR VALUES FROM (%L) TO (%L)',
            part, first, following
        );
        made := made + 1;
    END LOOP;
    RETURN made;
END
$$
"""


def upgrade() -> None:
    """Make every table, and room in `event` for the months to come."""
    op.create_table(
        "api_key",
        sa.Column("key_id", sa.Uuid(as_uuid=False), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("hash", sa.LargeBinary(), nullable=False),
        sa.Column("scopes", postgresql.ARRAY(sa.Text()), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.Column("last_used_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("revoked_at", sa.DateTime(timezone=True), nullable=True),
        sa.PrimaryKeyConstraint("key_id", name=op.f("api_key_pkey")),
        sa.UniqueConstraint("hash", name="api_key_hash"),
        schema="redrive",
    )
    op.create_table(
        "audit",
        sa.Column("position", sa.BigInteger(), sa.Identity(always=False), nullable=False),
        sa.Column("actor", sa.Text(), nullable=False),
        sa.Column("action", sa.Text(), nullable=False),
        sa.Column("subject", sa.Text(), nullable=False),
        sa.Column(
            "details", postgresql.JSONB(astext_type=sa.Text()), server_default=sa.text("'{}'::jsonb"), nullable=False
        ),
        sa.Column("occurred_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.PrimaryKeyConstraint("position", name=op.f("audit_pkey")),
        schema="redrive",
    )
    op.create_table(
        "breaker",
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("failures", sa.Integer(), server_default=sa.text("0"), nullable=False),
        sa.Column("open_until", sa.DateTime(timezone=True), nullable=True),
        sa.Column(
            "figures", postgresql.JSONB(astext_type=sa.Text()), server_default=sa.text("'{}'::jsonb"), nullable=False
        ),
        sa.Column("updated_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.PrimaryKeyConstraint("key", name=op.f("breaker_pkey")),
        schema="redrive",
    )
    op.create_table(
        "broker_mark",
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("incarnation", sa.Text(), nullable=False),
        sa.Column("seen_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.PrimaryKeyConstraint("name", name=op.f("broker_mark_pkey")),
        schema="redrive",
    )
    op.create_table(
        "credential",
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("sealed", sa.LargeBinary(), nullable=False),
        sa.Column("key_id", sa.Text(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.Column("updated_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.PrimaryKeyConstraint("name", name=op.f("credential_pkey")),
        schema="redrive",
    )
    op.create_table(
        "event",
        sa.Column("position", sa.BigInteger(), sa.Identity(always=False), nullable=False),
        sa.Column("event_id", sa.Uuid(as_uuid=False), nullable=False),
        sa.Column("execution_id", sa.Uuid(as_uuid=False), nullable=False),
        sa.Column("bucket", sa.Date(), nullable=False),
        sa.Column("seq", sa.BigInteger(), nullable=True),
        sa.Column("ignored_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("type", sa.Text(), nullable=False),
        sa.Column("node", sa.Text(), nullable=True),
        sa.Column("step", sa.Text(), nullable=True),
        sa.Column("visit", sa.Integer(), nullable=True),
        sa.Column("iteration", sa.Integer(), nullable=True),
        sa.Column("task", sa.Text(), nullable=True),
        sa.Column("page", sa.Integer(), nullable=True),
        sa.Column("attempt", sa.Integer(), nullable=True),
        sa.Column("parent_event_id", sa.Uuid(as_uuid=False), nullable=True),
        sa.Column("retry_sequence_id", sa.Text(), nullable=True),
        sa.Column("occurred_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("stored_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.Column("source", sa.Text(), nullable=False),
        sa.Column("payload", sa.JSON(), nullable=False),
        sa.Column("meta", postgresql.JSONB(astext_type=sa.Text()), nullable=True),
        sa.Column("context", postgresql.JSONB(astext_type=sa.Text()), nullable=True),
        sa.PrimaryKeyConstraint("event_id", "bucket", name="event_pkey"),
        sa.UniqueConstraint("execution_id", "seq", "bucket", name="event_place"),
        schema="redrive",
        postgresql_partition_by="RANGE (bucket)",
    )
    op.create_index(
        "event_runs",
        "event",
        ["execution_id", "step", "iteration", "visit"],
        unique=False,
        schema="redrive",
        postgresql_where=sa.text("type IN ('step.started', 'loop.started', 'loop.iteration_completed')"),
    )
    op.create_index(
        "event_unapplied",
        "event",
        ["execution_id", "position"],
        unique=False,
        schema="redrive",
        postgresql_where=sa.text("seq IS NULL AND ignored_at IS NULL"),
    )
    op.create_table(
        "execution",
        sa.Column("execution_id", sa.Uuid(as_uuid=False), nullable=False),
        sa.Column("path", sa.Text(), nullable=False),
        sa.Column("playbook_version", sa.Integer(), nullable=True),
        sa.Column("plan_digest", sa.Text(), nullable=False),
        sa.Column("status", sa.Text(), nullable=False),
        sa.Column("version", sa.BigInteger(), server_default=sa.text("0"), nullable=False),
        sa.Column("snapshot", sa.JSON(), nullable=True),
        sa.Column("snapshot_seq", sa.BigInteger(), server_default=sa.text("0"), nullable=False),
        sa.Column(
            "labels", postgresql.JSONB(astext_type=sa.Text()), server_default=sa.text("'{}'::jsonb"), nullable=False
        ),
        sa.Column("parent_execution_id", sa.Uuid(as_uuid=False), nullable=True),
        sa.Column("idempotency_key", sa.Text(), nullable=True),
        sa.Column("bucket", sa.Date(), nullable=False),
        sa.Column("failure", postgresql.JSONB(astext_type=sa.Text()), nullable=True),
        sa.Column("result", sa.JSON(), nullable=True),
        sa.Column("retries", sa.Integer(), server_default=sa.text("0"), nullable=False),
        sa.Column("steps_started", sa.Integer(), server_default=sa.text("0"), nullable=False),
        sa.Column("steps_ended", sa.Integer(), server_default=sa.text("0"), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.Column("started_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("finished_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("updated_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.PrimaryKeyConstraint("execution_id", name=op.f("execution_pkey")),
        sa.UniqueConstraint("idempotency_key", name="execution_idempotency_key"),
        schema="redrive",
        postgresql_with={"fillfactor": "70"},
    )
    op.create_index(
        "execution_labels",
        "execution",
        ["labels"],
        unique=False,
        schema="redrive",
        postgresql_using="gin",
        postgresql_ops={"labels": "jsonb_path_ops"},
    )
    op.create_index("execution_newest", "execution", ["created_at", "execution_id"], unique=False, schema="redrive")
    op.create_index(
        "execution_parent",
        "execution",
        ["parent_execution_id"],
        unique=False,
        schema="redrive",
        postgresql_where=sa.text("parent_execution_id IS NOT NULL"),
    )
    op.create_index("execution_path", "execution", ["path", "created_at"], unique=False, schema="redrive")
    op.create_index("execution_status", "execution", ["status", "created_at"], unique=False, schema="redrive")
    op.create_table(
        "iterator_state",
        sa.Column("execution_id", sa.Uuid(as_uuid=False), nullable=False),
        sa.Column("node", sa.Text(), nullable=False),
        sa.Column("iterator_name", sa.Text(), nullable=True),
        sa.Column("total_iterations", sa.Integer(), server_default=sa.text("0"), nullable=False),
        sa.Column("completed_iterations", sa.Integer(), server_default=sa.text("0"), nullable=False),
        sa.Column("failed_iterations", sa.Integer(), server_default=sa.text("0"), nullable=False),
        sa.Column("status", sa.Text(), nullable=False),
        sa.Column("started_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.Column("updated_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.Column("completed_at", sa.DateTime(timezone=True), nullable=True),
        sa.PrimaryKeyConstraint("execution_id", "node", name=op.f("iterator_state_pkey")),
        schema="redrive",
    )
    op.create_table(
        "job",
        sa.Column("job_id", sa.Uuid(as_uuid=False), nullable=False),
        sa.Column("execution_id", sa.Uuid(as_uuid=False), nullable=False),
        sa.Column("node", sa.Text(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("pool", sa.Text(), nullable=False),
        sa.Column("role", sa.Text(), nullable=False),
        sa.Column("status", sa.Text(), nullable=False),
        sa.Column("attempt", sa.Integer(), nullable=True),
        sa.Column("max_attempts", sa.Integer(), nullable=False),
        sa.Column("available_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("retry_delay_seconds", sa.Double(), nullable=False),
        sa.Column("last_error", sa.Text(), nullable=True),
        sa.Column("worker_id", sa.Text(), nullable=True),
        sa.Column("lease_until", sa.DateTime(timezone=True), nullable=True),
        sa.Column("published_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("swept_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("message", sa.JSON(), nullable=False),
        sa.Column(
            "meta", postgresql.JSONB(astext_type=sa.Text()), server_default=sa.text("'{}'::jsonb"), nullable=False
        ),
        sa.Column("created_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.Column("updated_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.CheckConstraint("status IN ('queued', 'leased', 'completed', 'dead', 'cancelled')", name=op.f("job_status")),
        sa.PrimaryKeyConstraint("job_id", name=op.f("job_pkey")),
        schema="redrive",
    )
    op.create_index("job_execution", "job", ["execution_id"], unique=False, schema="redrive")
    op.create_index(
        "job_leased",
        "job",
        ["lease_until"],
        unique=False,
        schema="redrive",
        postgresql_where=sa.text("status = 'leased'"),
    )
    op.create_index(
        "job_queued",
        "job",
        ["available_at", "job_id"],
        unique=False,
        schema="redrive",
        postgresql_where=sa.text("status = 'queued'"),
    )
    op.create_index(
        "job_started",
        "job",
        ["pool", "available_at"],
        unique=False,
        schema="redrive",
        postgresql_where=sa.text("status IN ('leased', 'completed', 'dead')"),
    )
    op.create_index(
        "job_unpublished",
        "job",
        ["available_at"],
        unique=False,
        schema="redrive",
        postgresql_where=sa.text("status = 'queued' AND published_at IS NULL"),
    )
    op.create_table(
        "playbook",
        sa.Column("path", sa.Text(), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("name", sa.Text(), nullable=True),
        sa.Column("source", sa.Text(), nullable=False),
        sa.Column("plan", sa.JSON(), nullable=False),
        sa.Column("digest", sa.Text(), nullable=False),
        sa.Column(
            "labels", postgresql.JSONB(astext_type=sa.Text()), server_default=sa.text("'{}'::jsonb"), nullable=False
        ),
        sa.Column("created_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.PrimaryKeyConstraint("path", "version", name=op.f("playbook_pkey")),
        schema="redrive",
    )
    op.create_index("playbook_digest", "playbook", ["digest"], unique=False, schema="redrive")
    op.create_table(
        "result",
        sa.Column("ref", sa.Text(), nullable=False),
        sa.Column("body", sa.LargeBinary(), nullable=False),
        sa.Column("size", sa.BigInteger(), nullable=False),
        sa.Column("sha256", sa.Text(), nullable=False),
        sa.Column("refcount", sa.Integer(), server_default=sa.text("1"), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.PrimaryKeyConstraint("ref", name=op.f("result_pkey")),
        schema="redrive",
    )
    op.create_table(
        "retry_state",
        sa.Column("execution_id", sa.Uuid(as_uuid=False), nullable=False),
        sa.Column("retry_sequence_id", sa.Text(), nullable=False),
        sa.Column("step_name", sa.Text(), nullable=False),
        sa.Column("current_attempt", sa.Integer(), server_default=sa.text("1"), nullable=False),
        sa.Column("max_attempts", sa.Integer(), server_default=sa.text("1"), nullable=False),
        sa.Column("last_error", sa.Text(), nullable=True),
        sa.Column("last_result", postgresql.JSONB(astext_type=sa.Text()), nullable=True),
        sa.Column("status", sa.Text(), nullable=False),
        sa.Column("available_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("started_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.Column("updated_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.PrimaryKeyConstraint("execution_id", "retry_sequence_id", name=op.f("retry_state_pkey")),
        schema="redrive",
    )
    op.create_table(
        "schedule",
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("path", sa.Text(), nullable=False),
        sa.Column("playbook_version", sa.Integer(), nullable=True),
        sa.Column("spec", sa.JSON(), nullable=False),
        sa.Column("workload", sa.JSON(), nullable=True),
        sa.Column("enabled", sa.Boolean(), server_default=sa.text("true"), nullable=False),
        sa.Column("next_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("last_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("created_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.Column("updated_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.PrimaryKeyConstraint("name", name=op.f("schedule_pkey")),
        schema="redrive",
    )
    op.create_index(
        "schedule_next", "schedule", ["next_at"], unique=False, schema="redrive", postgresql_where=sa.text("enabled")
    )
    op.create_table(
        "signal",
        sa.Column("signal_id", sa.Uuid(as_uuid=False), nullable=False),
        sa.Column("execution_id", sa.Uuid(as_uuid=False), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("payload", sa.JSON(), nullable=True),
        sa.Column("received_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.PrimaryKeyConstraint("signal_id", name=op.f("signal_pkey")),
        schema="redrive",
    )
    op.create_index("signal_execution", "signal", ["execution_id"], unique=False, schema="redrive")
    op.create_table(
        "worker",
        sa.Column("worker_id", sa.Text(), nullable=False),
        sa.Column("pools", postgresql.ARRAY(sa.Text()), nullable=False),
        sa.Column("concurrency", sa.Integer(), server_default=sa.text("0"), nullable=False),
        sa.Column("running", sa.Integer(), server_default=sa.text("0"), nullable=False),
        sa.Column("host", sa.Text(), nullable=True),
        sa.Column("release", sa.Text(), nullable=True),
        sa.Column("started_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.Column("seen_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.PrimaryKeyConstraint("worker_id", name=op.f("worker_pkey")),
        schema="redrive",
    )
    op.execute("CREATE TABLE redrive.event_default PARTITION OF redrive.event DEFAULT")
    op.execute(PARTITIONS)
    op.execute("SELECT redrive.make_event_partitions(3)")


def downgrade() -> None:
    """Leave nothing."""
    op.execute("DROP FUNCTION redrive.make_event_partitions(integer)")
    for table in TABLES:
        op.drop_table(table, schema="redrive")
