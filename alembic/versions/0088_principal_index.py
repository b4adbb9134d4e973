"""Jobs of an account by id: who asks for his own does not read those of all others."""

from alembic import op

revision = "0088_principal_index"
down_revision = "0087_kind_index"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.execute("SET LOCAL lock_timeout = '800ms'")
    with op.get_context().autocommit_block():
        # A build that was interrupted leaves an invalid index behind.
        op.execute("DROP INDEX CONCURRENTLY IF EXISTS chot.jobs_principal_idx")
        op.execute("CREATE INDEX CONCURRENTLY jobs_principal_idx ON chot.jobs (principal, id)")


def downgrade() -> None:
    op.execute("SET LOCAL lock_timeout = '800ms'")
    with op.get_context().autocommit_block():
        op.execute("DROP INDEX CONCURRENTLY IF EXISTS chot.jobs_principal_idx")
