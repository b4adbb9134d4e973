"""Cancelled jobs by id: a list of the few among millions that succeeded reads those few."""

from alembic import op

revision = "0051_cancelled_index"
down_revision = "0050_pending_index"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.execute("SET LOCAL lock_timeout = '800ms'")
    with op.get_context().autocommit_block():
        op.execute("DROP INDEX CONCURRENTLY IF EXISTS chot.jobs_cancelled_idx")
        op.execute("""
            CREATE INDEX CONCURRENTLY jobs_cancelled_idx
                ON chot.jobs (id) WHERE state = 'cancelled'""")


def downgrade() -> None:
    op.execute("SET LOCAL lock_timeout = '800ms'")
    with op.get_context().autocommit_block():
        op.execute("DROP INDEX CONCURRENTLY IF EXISTS chot.jobs_cancelled_idx")
