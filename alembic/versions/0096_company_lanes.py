"""The lanes of the outbox by company, too: queue, priority, company, brand, kind."""

from alembic import op

revision = "0096_company_lanes"
down_revision = "0095_outbox_company"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.execute("SET LOCAL lock_timeout = '800ms'")
    with op.get_context().autocommit_block():
        # A build that was interrupted leaves an invalid index behind.
        op.execute("DROP INDEX CONCURRENTLY IF EXISTS chot.outbox_company_lane_idx")
        # A lane is what has all of these in common; its head is one probe away.
        op.execute("""
            CREATE INDEX CONCURRENTLY outbox_company_lane_idx ON chot.outbox
                   (queue, priority, (coalesce(company, '')), (coalesce(brand, '')), kind,
                    next_send_at, id)
             WHERE quarantined_at IS NULL""")
        op.execute("DROP INDEX CONCURRENTLY IF EXISTS chot.outbox_lane_idx")


def downgrade() -> None:
    op.execute("SET LOCAL lock_timeout = '800ms'")
    with op.get_context().autocommit_block():
        op.execute("DROP INDEX CONCURRENTLY IF EXISTS chot.outbox_lane_idx")
        op.execute("""
            CREATE INDEX CONCURRENTLY outbox_lane_idx ON chot.outbox
                   (queue, priority, (coalesce(brand, '')), kind, next_send_at, id)
             WHERE quarantined_at IS NULL""")
        op.execute("DROP INDEX CONCURRENTLY IF EXISTS chot.outbox_company_lane_idx")
