"""Archived jobs by the time they ended: what is removed is found, whenever it was submitted."""

from alembic import op

revision = "0062_archived_index"
down_revision = "0061_priorities"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.execute("SET LOCAL lock_timeout = '800ms'")
    with op.get_context().autocommit_block():
        # A build that was interrupted leaves an invalid index behind.
        op.execute("DROP INDEX CONCURRENTLY IF EXISTS chot.archived_jobs_finished_idx")
        op.execute("""
            CREATE INDEX CONCURRENTLY archived_jobs_finished_idx
                ON chot.archived_jobs (finished_at)""")


def downgrade() -> None:
    op.execute("SET LOCAL lock_timeout = '800ms'")
    with op.get_context().autocommit_block():
        op.execute("DROP INDEX CONCURRENTLY IF EXISTS chot.archived_jobs_finished_idx")
