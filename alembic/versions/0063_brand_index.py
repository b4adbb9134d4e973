"""Jobs of a brand by id: the list of a small brand does not read its whole company."""

from alembic import op

revision = "0063_brand_index"
down_revision = "0062_archived_index"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.execute("SET LOCAL lock_timeout = '800ms'")
    with op.get_context().autocommit_block():
        # A build that was interrupted leaves an invalid index behind.
        op.execute("DROP INDEX CONCURRENTLY IF EXISTS chot.jobs_brand_idx")
        op.execute("""
            CREATE INDEX CONCURRENTLY jobs_brand_idx ON chot.jobs (company, brand, id)""")


def downgrade() -> None:
    op.execute("SET LOCAL lock_timeout = '800ms'")
    with op.get_context().autocommit_block():
        op.execute("DROP INDEX CONCURRENTLY IF EXISTS chot.jobs_brand_idx")
