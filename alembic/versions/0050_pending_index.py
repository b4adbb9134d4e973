"""Pending jobs by queue: depth and oldest due are counted from an index, however many there are.

The one before it, by due time alone, answered neither without reading the rows.
"""

from alembic import op

revision = "0050_pending_index"
down_revision = "0040_api_keys"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.execute("SET LOCAL lock_timeout = '800ms'")
    with op.get_context().autocommit_block():
        # A build that was interrupted leaves an invalid index behind.
        op.execute("DROP INDEX CONCURRENTLY IF EXISTS chot.jobs_pending_queue_idx")
        op.execute("""
            CREATE INDEX CONCURRENTLY jobs_pending_queue_idx
                ON chot.jobs (queue, available_at) INCLUDE (kind) WHERE state = 'pending'""")
        op.execute("DROP INDEX CONCURRENTLY IF EXISTS chot.jobs_pending_idx")


def downgrade() -> None:
    op.execute("SET LOCAL lock_timeout = '800ms'")
    with op.get_context().autocommit_block():
        op.execute("DROP INDEX CONCURRENTLY IF EXISTS chot.jobs_pending_idx")
        op.execute("""
            CREATE INDEX CONCURRENTLY jobs_pending_idx
                ON chot.jobs (available_at) WHERE state = 'pending'""")
        op.execute("DROP INDEX CONCURRENTLY IF EXISTS chot.jobs_pending_queue_idx")
