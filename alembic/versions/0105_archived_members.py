"""Members of a group that are in the archive: a join that runs again reads them there."""

from alembic import op

revision = "0105_archived_members"
down_revision = "0104_named_roots"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.execute("SET LOCAL lock_timeout = '800ms'")
    with op.get_context().autocommit_block():
        # A build that was interrupted leaves an invalid index behind.
        op.execute("DROP INDEX CONCURRENTLY IF EXISTS chot.archived_jobs_group_idx")
        op.execute("""
            CREATE INDEX CONCURRENTLY archived_jobs_group_idx ON chot.archived_jobs
                   ((job ->> 'group_id'), id)
             WHERE (job ->> 'group_id') IS NOT NULL""")


def downgrade() -> None:
    op.execute("SET LOCAL lock_timeout = '800ms'")
    with op.get_context().autocommit_block():
        op.execute("DROP INDEX CONCURRENTLY IF EXISTS chot.archived_jobs_group_idx")
