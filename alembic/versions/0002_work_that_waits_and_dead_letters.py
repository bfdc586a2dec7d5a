"""Jobs of which it was said that nobody serves their pool; dead letters that nobody could read."""

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql

from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add a column to `job`, which rewrites nothing, and the table of dead letters."""
    op.add_column("job", sa.Column("unserved_at", sa.DateTime(timezone=True), nullable=True), schema="redrive")
    op.create_table(
        "dead_letter",
        sa.Column("dead_letter_id", sa.Uuid(as_uuid=False), nullable=False),
        sa.Column("message_id", sa.Text(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("exchange", sa.Text(), nullable=False),
        sa.Column("routing_key", sa.Text(), nullable=False),
        sa.Column("queue", sa.Text(), nullable=True),
        sa.Column("content_type", sa.Text(), nullable=False),
        sa.Column(
            "headers", postgresql.JSONB(astext_type=sa.Text()), server_default=sa.text("'{}'::jsonb"), nullable=False
        ),
        sa.Column("body", sa.LargeBinary(), nullable=False),
        sa.Column("died_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.PrimaryKeyConstraint("dead_letter_id", name=op.f("dead_letter_pkey")),
        schema="redrive",
    )
    op.create_index("dead_letter_newest", "dead_letter", ["died_at", "dead_letter_id"], unique=False, schema="redrive")


def downgrade() -> None:
    """Take both away again."""
    op.drop_table("dead_letter", schema="redrive")
    op.drop_column("job", "unserved_at", schema="redrive")
