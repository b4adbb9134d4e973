"""Jobs of a kind by id: the list of a rare kind does not read all that came after it."""

from alembic import op

revision = "0087_kind_index"
down_revision = "0086_enqueue_each"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.execute("SET LOCAL lock_timeout = '800ms'")
    with op.get_context().autocommit_block():
        # A build that was interrupted leaves an invalid index behind.
        op.execute("DROP INDEX CONCURRENTLY IF EXISTS chot.jobs_kind_idx")
        op.execute("CREATE INDEX CONCURRENTLY jobs_kind_idx ON chot.jobs (kind, id)")


def downgrade() -> None:
    op.execute("SET LOCAL lock_timeout = '800ms'")
    with op.get_context().autocommit_block():
        op.execute("DROP INDEX CONCURRENTLY IF EXISTS chot.jobs_kind_idx")
