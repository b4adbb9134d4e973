"""The outbox in the order it is sent in: by queue, priority and due time.

Without it each hundred messages were found by sorting all that are due, and jobs of a paused queue
stood in the way of all others.
"""

from alembic import op

revision = "0056_outbox_order"
down_revision = "0055_read_stats"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.execute("SET LOCAL lock_timeout = '800ms'")
    with op.get_context().autocommit_block():
        op.execute("DROP INDEX CONCURRENTLY IF EXISTS chot.outbox_order_idx")
        op.execute("""
            CREATE INDEX CONCURRENTLY outbox_order_idx
                ON chot.outbox (queue, priority, next_send_at) WHERE quarantined_at IS NULL""")
        # By due time alone: the planner would take it for as good, and read the whole backlog.
        op.execute("DROP INDEX CONCURRENTLY IF EXISTS chot.outbox_due_idx")


def downgrade() -> None:
    op.execute("SET LOCAL lock_timeout = '800ms'")
    with op.get_context().autocommit_block():
        op.execute("DROP INDEX CONCURRENTLY IF EXISTS chot.outbox_due_idx")
        op.execute("""
            CREATE INDEX CONCURRENTLY outbox_due_idx ON chot.outbox (next_send_at)
             WHERE quarantined_at IS NULL""")
        op.execute("DROP INDEX CONCURRENTLY IF EXISTS chot.outbox_order_idx")
