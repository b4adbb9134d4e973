"""Running jobs that hold business locks: they are few, and every claim of such a job reads them."""

from alembic import op

revision = "0093_locking_index"
down_revision = "0092_submit_locks"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.execute("SET LOCAL lock_timeout = '800ms'")
    with op.get_context().autocommit_block():
        # A build that was interrupted leaves an invalid index behind.
        op.execute("DROP INDEX CONCURRENTLY IF EXISTS chot.jobs_locking_idx")
        op.execute("""
            CREATE INDEX CONCURRENTLY jobs_locking_idx ON chot.jobs (id)
             WHERE state = 'running' AND lock_roots IS NOT NULL""")


def downgrade() -> None:
    op.execute("SET LOCAL lock_timeout = '800ms'")
    with op.get_context().autocommit_block():
        op.execute("DROP INDEX CONCURRENTLY IF EXISTS chot.jobs_locking_idx")
