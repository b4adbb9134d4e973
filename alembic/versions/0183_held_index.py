"""Pending jobs that no further worker would help: paused by themselves, or waiting for a group.

What a scaling signal must not count. They are few, and found without reading all that is pending.
"""

from alembic import op

revision = "0183_held_index"
down_revision = "0182_kinds_by_account"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.execute("SET LOCAL lock_timeout = '800ms'")
    with op.get_context().autocommit_block():
        # A build that was interrupted leaves an invalid index behind.
        op.execute("DROP INDEX CONCURRENTLY IF EXISTS chot.jobs_held_idx")
        op.execute("""
            CREATE INDEX CONCURRENTLY jobs_held_idx ON chot.jobs (queue, kind)
             WHERE state = 'pending' AND (paused_at IS NOT NULL OR joins IS NOT NULL)""")


def downgrade() -> None:
    op.execute("SET LOCAL lock_timeout = '800ms'")
    with op.get_context().autocommit_block():
        op.execute("DROP INDEX CONCURRENTLY IF EXISTS chot.jobs_held_idx")
