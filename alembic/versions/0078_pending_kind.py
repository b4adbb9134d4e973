"""Pending jobs by kind, company and brand: how many there are is read from an index that is as
small as what is waiting, for the limit on pending jobs.
"""

from alembic import op

revision = "0078_pending_kind"
down_revision = "0077_redriven"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.execute("SET LOCAL lock_timeout = '800ms'")
    with op.get_context().autocommit_block():
        # A build that was interrupted leaves an invalid index behind.
        op.execute("DROP INDEX CONCURRENTLY IF EXISTS chot.jobs_pending_kind_idx")
        op.execute("""
            CREATE INDEX CONCURRENTLY jobs_pending_kind_idx ON chot.jobs (kind, company, brand)
             WHERE state = 'pending'""")


def downgrade() -> None:
    op.execute("SET LOCAL lock_timeout = '800ms'")
    with op.get_context().autocommit_block():
        op.execute("DROP INDEX CONCURRENTLY IF EXISTS chot.jobs_pending_kind_idx")
